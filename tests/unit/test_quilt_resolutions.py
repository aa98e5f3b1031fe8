"""Resolutions of quilt, marginal queries, interpolation and smooth shrinkage."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtable.methods.quilt.binning import MarginalQuery, queries_for, resolution_levels, values_of
from hushtable.methods.quilt.candidates import candidates_for
from hushtable.methods.quilt.model import LogLinearModel, log_factors
from hushtable.methods.quilt.smoothing import (
    BucketLine,
    Stiffness,
    estimate_similarity,
    interpolation_matrix,
    smoothed,
)
from hushtable.schema import Schema
from seeds import shifted

masses_of = st.lists(st.floats(0.001, 1), min_size=2, max_size=60).map(np.array)


# --- resolutions and queries ----------------------------------------------------------------------


@given(masses_of, st.booleans(), st.booleans())
def test_resolutions_are_nested(masses: Any, is_ordered: bool, has_missing: bool) -> None:
    steps = resolution_levels(masses, is_ordered=is_ordered, n_special=int(has_missing))
    assert steps[0].tolist() == list(range(len(masses)))
    for fine, coarse in pairwise(steps):
        assert coarse.max() < fine.max()
        for cell in range(int(fine.max()) + 1):
            assert len(set(coarse[fine == cell].tolist())) == 1
        assert set(coarse.tolist()) == set(range(int(coarse.max()) + 1))
        if is_ordered:
            assert (np.diff(coarse) >= 0).all()
        if has_missing:
            assert (coarse == coarse[-1]).sum() == 1


def test_levels_of_a_taxonomy_are_resolutions() -> None:
    tree = {"World": {"EU": {"West": ["FR", "DE"], "East": ["PL", "CZ"]}, "US": {"U": ["NY"]}}}
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "c": {
                    "type": "categorical",
                    "values": ["FR", "DE", "PL", "CZ", "NY"],
                    "taxonomy": tree,
                }
            },
        }
    )
    (values,) = values_of(schema)
    own, mixed = np.arange(5), np.array([0, 1, 2, 1, 3])  # DE and CZ share a bucket
    for buckets, sizes in ((own, [5, 3, 2]), (mixed, [4, 2])):
        masses = np.full(int(buckets.max()) + 1, 0.2)
        steps = resolution_levels(
            masses, is_ordered=False, n_special=0, branches=values.branches(buckets)
        )
        assert [int(step.max()) + 1 for step in steps] == sizes
    by_branch = resolution_levels(
        np.full(5, 0.2), is_ordered=False, n_special=0, branches=values.branches(own)
    )
    west, _, east, _, york = by_branch[1].tolist()
    assert by_branch[1].tolist() == [west, west, east, east, york]
    assert len({west, east, york}) == 3


def test_a_query_sums_buckets() -> None:
    ladders = [(np.arange(4), np.array([0, 0, 1, 1])), (np.arange(3),)]
    fine, coarse = queries_for((0, 1), ladders)
    assert fine.cells is None
    assert coarse == MarginalQuery.of((0, 1), (1, 0), ladders) != fine
    table = np.arange(12.0).reshape(4, 3)
    assert coarse.shape == (2, 3)
    assert coarse.added_up(table).tolist() == (table[::2] + table[1::2]).ravel().tolist()
    assert fine.added_up(table).tolist() == table.ravel().tolist()


def test_coarse_tables_are_candidates_if_noise_dominates_fine_ones() -> None:
    ladders = [resolution_levels(np.full(32, 1 / 32), is_ordered=True, n_special=0)] * 2
    table = np.full((32, 32), 10_000 / 1024)
    quiet, loud = (candidates_for([(0, 1)], [table], ladders, std) for std in (0.1, 20.0))
    assert [offer.query.shape for offer in quiet] == [(32, 32)]
    assert [offer.query.shape for offer in loud] == [(32, 32), (16, 16), (8, 8), (4, 4)]
    penalties = [offer.scored.penalty for offer in loud]
    assert penalties == sorted(penalties, reverse=True)
    # The penalty of its cells: half the mean absolute noise, or the expected count if that is less.
    assert penalties[-1] == round(0.5 * (2 / np.pi) ** 0.5 * 16 * 20)
    for offer in loud:
        assert offer.scored.expected.sum() == pytest.approx(10_000, abs=520)
        assert len(offer.scored.expected) == offer.query.n_cells


# --- lines ----------------------------------------------------------------------------------------


def line_of(size: int, apart: tuple[int, ...] = ()) -> BucketLine:
    return BucketLine(np.arange(float(size)), np.isin(np.arange(size), apart))


def test_lines_keep_straight_lines_and_the_mean_of_each_cell() -> None:
    masses = np.random.default_rng(shifted(3)).uniform(1, 3, 12)
    cells = np.repeat([0, 1, 2], 4)
    matrix = interpolation_matrix(line_of(12), cells, masses, 1.0)
    assert matrix.sum(axis=1) == pytest.approx(np.ones(12))
    centers = np.bincount(cells, masses * np.arange(12)) / np.bincount(cells, masses)
    assert matrix @ centers == pytest.approx(np.arange(12.0))
    theta = np.array([1.0, -2.0, 0.5])
    means = np.bincount(cells, masses * (matrix @ theta)) / np.bincount(cells, masses)
    assert means == pytest.approx(theta)


def test_without_similarity_factors_are_steps() -> None:
    cells = np.repeat([0, 1, 2], 4)
    matrix = interpolation_matrix(line_of(12), cells, np.ones(12), 0.0)
    assert matrix.tolist() == np.eye(3)[cells].tolist()


def test_values_that_stand_out_are_not_on_the_line() -> None:
    cells = np.array([0, 0, 1, 2, 2, 3])  # 2 is a spike, 5 is missing; each has its own cell
    matrix = interpolation_matrix(line_of(6, apart=(2, 5)), cells, np.ones(6), 1.0)
    assert matrix[2].tolist() == [0, 1, 0, 0]
    assert matrix[5].tolist() == [0, 0, 0, 1]
    assert (matrix[[0, 1, 3, 4]][:, [1, 3]] == 0).all()
    assert matrix[1, 2] > 0


def deviations(shuffled: bool, seed: int) -> list[Any]:
    """Return a noisy table of a bilinear association of two columns, 32 by 8 cells."""
    draw = np.random.default_rng(shifted(seed))
    x, y = np.linspace(-2, 2, 32), np.linspace(-2, 2, 8)
    if shuffled:
        x = x[np.random.default_rng(shifted(99)).permutation(32)]
    expected = np.full((32, 8), 100.0)
    return [(40 * np.outer(x, y) + draw.normal(0, 20, (32, 8)), expected, 20.0, 1.0)]


def test_similarity_is_estimated() -> None:
    # Noise of the mean product of neighbors is about 1/40 of the signal here.
    assert estimate_similarity(deviations(shuffled=False, seed=1)) == 0.9
    assert estimate_similarity(deviations(shuffled=True, seed=1)) < 0.5
    nothing = np.random.default_rng(shifted(2)).normal(0, 20, (32, 8))
    assert 0 <= estimate_similarity([(nothing, np.full((32, 8), 100.0), 20.0, 1.0)]) <= 0.9
    assert estimate_similarity([]) == 0
    assert (
        estimate_similarity([(nothing[:2], np.full((2, 8), 100.0), 20.0, 16.0)]) == 0
    )  # too few to estimate


def test_smooth_factors_solve_their_equation() -> None:
    draw = np.random.default_rng(shifted(5))
    axes = [
        Stiffness.of(np.arange(6), line_of(6), 0.8, 2.0),
        Stiffness.of(np.arange(5), None, 1.0, 0.0),
    ]
    assert [axis.is_plain for axis in axes] == [False, True]
    expected, counts = draw.uniform(20, 80, 30), draw.uniform(20, 80, 30)
    theta = smoothed(counts, expected, np.zeros(30), 9.0, axes)
    held = np.kron(axes[0].bent, axes[1].bent) + np.eye(30)
    held -= np.kron(axes[0].centered, axes[1].centered)
    gap = expected * np.exp(theta) + 9.0 * held @ theta - counts
    assert np.abs(gap).max() < 0.5
    # Without similarity, each cell is separate.
    plain = [Stiffness.of(np.arange(size), None, 1.0, 0.0) for size in (6, 5)]
    alone = smoothed(counts, expected, np.zeros(30), 9.0, plain)
    assert np.abs(expected * np.exp(alone) + 9.0 * alone - counts).max() < 0.5


def test_smooth_shrinkage_keeps_what_is_smooth_and_drops_noise() -> None:
    draw = np.random.default_rng(shifted(6))
    x = np.linspace(-1.5, 1.5, 16)
    truth = 0.4 * np.outer(x, x).ravel()
    expected, std = np.full(256, 40.0), 20.0
    counts = expected * np.exp(truth) + draw.normal(0, std, 256)
    off = {}
    for alike in (0.0, 0.9):
        axes = [Stiffness.of(np.arange(16), line_of(16), alike, 2.0)] * 2
        theta = smoothed(counts, expected, np.zeros(256), 1.25 * std, axes)
        off[alike] = float(np.sum((theta - truth) ** 2))
        part = float(theta @ truth / (truth @ truth))
        assert part > 0.85 if alike else part < 0.85
    assert off[0.9] < 0.8 * off[0.0]


# --- a model of several resolutions ---------------------------------------------------------------


def bilinear(size: int, cells: np.ndarray, *, shuffled: bool = False) -> tuple[Any, Any]:
    """Return the joint counts of two columns, by codes and by cells."""
    x = np.linspace(-1.5, 1.5, size)
    if shuffled:
        x = x[np.random.default_rng(shifted(4)).permutation(size)]
    joint = np.exp(0.8 * np.outer(x, x))
    joint *= 1e5 / joint.sum()
    wanted = np.zeros((int(cells.max()) + 1,) * 2)
    np.add.at(wanted, np.ix_(cells, cells), joint)
    return joint, wanted


def coarse_field(wanted: Any, cells: Any, lines: Any, seed: int = 3) -> LogLinearModel:
    size = len(cells)
    field = LogLinearModel(
        [np.full(size, 1 / size)] * 3,
        total=1e5,
        n_particles=60_000,
        seed=shifted(seed),
        lines=lines,
    )
    for pair in ((0, 1), (1, 2)):
        field.add(pair, wanted, 1e-3, [cells, cells])
    for _ in range(3):
        field.sweep()
        field.refresh()
    field.fit(60)
    return field


@pytest.mark.parametrize("with_lines", [False, True])
def test_coarse_tables_are_fitted_and_gibbs_agrees(with_lines: bool) -> None:
    cells = np.repeat(np.arange(8), 4)
    joint, wanted = bilinear(32, cells)
    field = coarse_field(wanted, cells, [line_of(32) if with_lines else None] * 3)
    patch = MarginalQuery((0, 1), (1, 1), (cells, cells))

    def gap() -> float:
        found = patch.added_up(field.answers([(0, 1)])[0])
        return 0.5 * float(np.abs(found - wanted.ravel()).sum()) / 1e5

    assert gap() < 0.01
    field.refresh(3)
    assert gap() < 0.02  # 60,000 particles alone are off by about 0.01
    # With interpolation the single codes are right, too; steps cannot represent them.
    off = 0.5 * float(np.abs(field.answers([(0, 1)])[0] - joint).sum()) / 1e5
    assert off < 0.075 if with_lines else off > 0.03


def test_two_resolutions_of_a_pair_add_up() -> None:
    cells = np.repeat(np.arange(4), 2)
    field = LogLinearModel([np.full(8, 1 / 8)] * 2, total=100.0, n_particles=1000, seed=shifted(0))
    field.add((0, 1), np.full(64, 1.0), 1.0).theta = np.arange(64.0) / 64
    field.add((0, 1), np.full(16, 4.0), 1.0, [cells, cells]).theta = np.arange(16.0) / 4
    assert len(field.tables) == 2
    (found,) = log_factors(field.tables).values()
    assert found[3, 5] == pytest.approx((3 * 8 + 5) / 64 + (1 * 4 + 2) / 4)
    field.add((0, 1), np.full(16, 8.0), 1.0, [cells, cells])  # again: the weighted mean
    assert len(field.tables) == 2
    assert field.tables[1].counts == pytest.approx(np.full(16, 6.0))


def test_rows_follow_the_slope_of_the_factors() -> None:
    cells = np.repeat(np.arange(4), 2)
    field = LogLinearModel(
        [np.full(8, 1 / 8)] * 2,
        total=100.0,
        n_particles=1000,
        seed=shifted(0),
        lines=[line_of(8, apart=(7,)), None],
    )
    field.add((0, 1), np.full(32, 3.0), 1.0, [cells, np.arange(8)])
    slope = np.linspace(-1, 1, 8)
    field.tables[0].theta = np.outer(np.arange(4.0), slope).ravel()
    rows = np.array([[3, 0], [3, 7], [7, 0]], np.int16)
    assert field.tilts(rows, 0)[:2] == pytest.approx([-0.5, 0.5], abs=0.1)
    assert field.tilts(rows, 0)[2] == 0  # a spike
    assert field.tilts(rows, 1).tolist() == [0, 0, 0]  # no order
    field.similarity[0] = 0.0
    assert not field.tilts(rows, 0).any()
