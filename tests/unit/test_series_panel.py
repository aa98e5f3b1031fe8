"""Panels, from the first wave to the last: people are linked, and transitions can be queried."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from hushtable.errors import DataError, HushtableError, ParameterError, Refused, ReleaseError
from hushtable.methods.quilt.budget import TableNoise
from hushtable.methods.quilt.particles import PostprocessingRng
from hushtable.schema import Schema
from hushtable.series import Series, SeriesPlan
from hushtable.series.panel import (
    FollowedRows,
    TransitionCounts,
    carried_on,
    moves_of,
    n_staying,
    persons_of,
)
from hushtable.series.transitions import _Moves
from seeds import shifted

N = 3000
JOBS = np.array(["none", "day", "night"])


def schema(max_rows: int = 1, **columns: object) -> Schema:
    return Schema.from_dict(
        {
            "name": "people",
            "unit": {"kind": "person", "column": "id", "max_rows": max_rows},
            "columns": {
                "id": {"role": "identifier"},
                "age": {"type": "integer", "low": 0, "high": 9},
                "sex": {"type": "categorical", "values": ["f", "m"]},
                "job": {"type": "categorical", "values": [*JOBS]},
                **columns,
            },
        }
    )


def wave(number: int) -> pa.Table:
    """Make a wave: 150 people leave, 150 are new, and 300 start to work at night.

    All but 150 people are linked with the previous wave.
    """
    ids = np.arange(150 * (number - 1), 150 * (number - 1) + N)
    age = ids % 10
    job = np.where(age > 4, 1, 0)
    job[ids % 10 == number] = 2
    job[(ids % 10 < number) & (ids % 10 > 0)] = 2
    return pa.table({"id": ids, "age": age, "sex": np.where(ids % 3, "m", "f"), "job": JOBS[job]})


def moves(number: int) -> np.ndarray:
    """Count the transitions from each job of the previous wave to each job of this one."""
    sides = []
    for one in (number - 1, number):
        table = wave(one)
        codes = np.searchsorted(np.sort(JOBS), np.asarray(table["job"]).astype(str))
        sides.append(dict(zip(table["id"].to_pylist(), np.argsort(JOBS)[codes], strict=True)))
    both = [sides[0][i] * 3 + sides[1][i] for i in sides[0].keys() & sides[1].keys()]
    return np.bincount(both, minlength=9).reshape(3, 3)


def plan(**changes: object) -> SeriesPlan:
    fields = {"epsilon": 8, "delta": "1e-6", "waves": 4, "panel": True}
    return SeriesPlan(**(fields | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def three_waves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    series = Series.create(tmp_path_factory.mktemp("p") / "series", schema(), plan())
    series.publish(wave(1))
    for number in (2, 3):
        series.publish(wave(number), before=wave(number - 1))
    return series.folder


@pytest.fixture
def panel(three_waves: Path, tmp_path: Path) -> Series:
    shutil.copytree(three_waves, tmp_path / "series")
    return Series.open(tmp_path / "series")


# --- refusals -------------------------------------------------------------------------------------


def test_people_with_several_rows_are_not_followed(tmp_path: Path) -> None:
    several = schema(2, wave={"type": "boolean"})
    with pytest.raises(ParameterError, match="max_rows: 1") as refused:
        Series.create(tmp_path / "s", several, plan())
    assert any("'wave'" in problem for problem in refused.value.problems)
    assert not (tmp_path / "s").exists()
    assert Series.create(tmp_path / "s", several, plan(panel=False)).plan.panel is False
    with pytest.raises(ParameterError, match="panel is 1; it must be true or false"):
        plan(panel=1)


def test_the_wave_before_is_asked_for_and_nothing_is_charged(panel: Series, tmp_path: Path) -> None:
    charged = len(panel.ledger.entries())
    with pytest.raises(ParameterError, match="give the private table of wave 3 as well"):
        panel.publish(wave(4))
    with pytest.raises(DataError, match=r"the wave before: .*'job'"):
        panel.publish(wave(4), before=wave(3).drop_columns(["job"]))
    assert len(panel.ledger.entries()) == charged
    other = Series.create(tmp_path / "other", schema(), plan())
    with pytest.raises(ParameterError, match="no wave before 1"):
        other.publish(wave(1), before=wave(1))
    other.publish(wave(3), wave=3)
    with pytest.raises(ParameterError, match="late waves are not possible"):
        other.publish(wave(2), before=wave(1), wave=2)
    plain = Series.create(tmp_path / "plain", schema(), plan(panel=False))
    with pytest.raises(ParameterError, match="it was not planned as a panel"):
        plain.publish(wave(1), before=wave(1))
    with pytest.raises(ParameterError, match="it was not planned as a panel"):
        plain.transitions("job", since=1)


# --- releases -------------------------------------------------------------------------------------


def test_each_wave_pays_for_moves_within_its_charge(panel: Series) -> None:
    panel.check()
    assert moves_of(panel.release(1)) == []
    settings = panel.release(2).statement.estimator
    assert settings["transitions"]["since"] == 1
    assert settings["transitions"]["release"] == "001"
    spent = {step: Fraction(share) for step, share in settings["budget_shares"].items()}
    assert Fraction(24, 100) < spent["transitions"] <= Fraction(1, 4)
    assert sum(spent.values()) <= 1
    told = " ".join(panel.release(2).statement.unprotected)
    assert "the same identifier in this wave and in the previous one" in told


def test_people_go_on_and_numbers_stay_theirs(panel: Series) -> None:
    """Of 3,000 people, 150 leave and 150 join; the noise of those who stay is about 7."""
    one, two, three = (persons_of(panel.release(number)) for number in (1, 2, 3))
    for persons in (one, two, three):
        assert len(np.unique(persons)) == len(persons)
    assert abs(len(np.intersect1d(one, two)) - 2850) < 100
    assert abs(len(np.intersect1d(two, three)) - 2850) < 100
    new = np.setdiff1d(two, one)
    assert new.min() > one.max()
    assert np.setdiff1d(three, two).min() > one.max()
    rows = panel.panel()
    assert rows.column_names == ["wave", "person", "age", "sex", "job"]
    assert rows.num_rows == len(one) + len(two) + len(three)


def test_synthetic_people_move_as_people_do(panel: Series) -> None:
    """Within 60 people of 3,000 in each cell; the noise has a standard deviation of about 3."""
    rows = panel.panel().to_pydict()
    job = {(w, p): j for w, p, j in zip(rows["wave"], rows["person"], rows["job"], strict=True)}
    found = np.zeros((3, 3))
    for (number, person), now in job.items():
        if number == 3 and (2, person) in job:
            before = job[2, person]
            found[[*JOBS].index(before), [*JOBS].index(now)] += 1
    assert np.abs(found - moves(3)).max() < 60
    sex = dict(zip(zip(rows["wave"], rows["person"], strict=True), rows["sex"], strict=True))
    both = [p for (w, p) in sex if w == 3 and (2, p) in sex]
    changed = np.mean([sex[2, person] != sex[3, person] for person in both])
    assert changed < 0.03  # no changes: columns without measured transitions stay constant


def test_a_correction_follows_people_anew_and_numbers_are_not_used_twice(panel: Series) -> None:
    used = max(int(persons_of(panel.release(number)).max()) for number in (1, 2, 3))
    made = panel.publish(wave(2), before=wave(1), wave=2, correct="typing")
    persons = persons_of(made)
    fresh = np.setdiff1d(persons, persons_of(panel.release(1)))
    assert fresh.min() > used
    assert len(panel.transitions("job", since=1).notes) == 1
    assert "corrected" in panel.transitions("job", since=2).notes[1]
    panel.check()


def test_csv_files_are_waves_of_a_panel(panel: Series, tmp_path: Path) -> None:
    """Numbers in one file are texts in the other: persons are compared as texts."""
    pa_csv.write_csv(wave(4), tmp_path / "april.csv")
    made = panel.publish(tmp_path / "april.csv", before=wave(3))
    assert abs(n_staying(moves_of(made))[0] - 2850) < 100


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_engines_join_alike(panel: Series, engine: str) -> None:
    """Sums of nine cells have noise with a standard deviation of about 10."""
    made = panel.publish(wave(4), before=wave(3), engine=engine)  # type: ignore[arg-type]
    [job] = [move for move in moves_of(made) if move.column == "job"]
    assert np.abs(job.counts - moves(4)).max() < 8 * job.noise.std


def test_sums_of_transitions_are_unbiased() -> None:
    """Estimates are not clipped: of 40,000 empty cells, the mean is within 5 standard errors."""
    rng = np.random.default_rng(shifted(31))
    noise = TableNoise("concentrated", parameter=Fraction(400))
    wave = _Moves.__new__(_Moves)
    wave._moves = {"job": TransitionCounts("job", rng.normal(0, 20, (200, 200)), noise)}
    wave._replaced = False
    cell = np.zeros((200, 200), bool)
    values = []
    for place in range(200):
        cell[:] = False
        cell[place] = True
        values.append(wave.sum_of("job", cell, clip=False).value)
    assert abs(np.mean(values)) < 5 * 20 * 200**0.5 / 200**0.5
    assert min(values) < 0


# --- answers --------------------------------------------------------------------------------------


def test_transitions_are_near_the_truth(panel: Series) -> None:
    """Seven standard deviations of noise, exceeded by one cell in 10^11."""
    found = panel.transitions("job", since=2)
    truth = moves(3)
    assert found.labels == ("none", "day", "night")
    assert (found.since, found.until) == (2, 3)
    changed = truth.sum() - np.trace(truth)
    assert abs(found.mobility.value - changed) < 7 * found.mobility.privacy_std + 1
    shown = found.table().to_pydict()
    assert min(shown["shown"]) >= 0
    for a in range(3):
        for b in range(3):
            count, share = found.estimates[a][b], found.shares[a][b]
            assert abs(count.value - truth[a, b]) < 7 * count.privacy_std + 1
            assert count.low <= count.value <= count.high
            assert share is not None
            assert abs(share.value - truth[a, b] / truth[a].sum()) < 8 * share.privacy_std
            assert 0 <= share.low <= share.value <= share.high <= 1
    assert found.table().num_rows == 9


def test_conditions_before_and_now_are_sums_of_cells(panel: Series) -> None:
    truth = moves(3)
    for before, now, people in (
        ("job = 'none'", "job = 'night'", truth[0, 2]),
        ("job <> 'night'", None, truth[:2].sum()),
        (None, "job IN ('day', 'night')", truth[:, 1:].sum()),
        (None, None, truth.sum()),
    ):
        found = panel.moved(before, now, since=2)
        assert abs(found.value - people) < 7 * found.privacy_std + 1
    all_but_one = panel.moved("job <> 'night'", None, since=2)
    alone = moves_of(panel.release(3))[2].noise.std * 6**0.5
    assert all_but_one.std < alone  # the other counts, also of other columns, inform about it, too
    with pytest.raises(Refused, match="'age' and 'job'"):
        panel.moved("age > 3", "job = 'day'", since=2)
    with pytest.raises(ParameterError, match="people were not followed from wave 3"):
        panel.moved("job = 'day'", since=3)
    with pytest.raises(ParameterError, match="not a published column"):
        panel.transitions("id", since=2)
    with pytest.raises(HushtableError, match="nobody"):
        panel.moved("nobody = 3", since=2)


def test_intervals_of_sums_hold(panel: Series) -> None:
    """Redraw the noise of a table 400 times: 92% to 98% of 1,600 intervals cover.

    The four sums of a table are dependent, so the sample size is 400: with 5% misses, the share is
    outside 2% to 8% once in a million runs, by the normal approximation.
    """
    from hushtable.series.transitions import PanelAnswers

    answers = PanelAnswers({n: panel.release(n) for n in (1, 2, 3)}, panel.schema)
    wave_3 = answers._wave(2)
    rng = np.random.default_rng(shifted(5))
    held = []
    for _ in range(400):
        for name, move in list(wave_3._moves.items()):
            exact = moves(3) if name == "job" else _exact(name)
            noisy = exact + np.rint(rng.normal(0, move.noise.std, exact.shape)).astype(np.int64)
            wave_3._moves[name] = TransitionCounts(name, noisy, move.noise)
        truth = moves(3)
        for cells in (np.eye(3) > 0, np.eye(3) == 0, truth > 400, np.arange(9).reshape(3, 3) > 1):
            found = wave_3.sum_of("job", cells)
            held.append(found.low <= truth[cells].sum() <= found.high)
    assert 0.91 < np.mean(held) < 0.99


def _exact(name: str) -> np.ndarray:
    one, two = wave(2), wave(3)
    shared = np.isin(np.asarray(one["id"]), np.asarray(two["id"]))
    values = np.asarray(one[name])[shared]
    codes = values if name == "age" else (values == "m").astype(int)
    return np.diag(np.bincount(codes, minlength=10 if name == "age" else 2))


def test_panel_rows_are_written(panel: Series, tmp_path: Path) -> None:
    panel.export_panel(tmp_path / "people.parquet")
    panel.export_panel(tmp_path / "people.csv")
    assert pa_csv.read_csv(tmp_path / "people.csv").num_rows == panel.panel().num_rows
    with pytest.raises(ReleaseError, match="exists"):
        panel.export_panel(tmp_path / "people.csv")


# --- linking people across waves ------------------------------------------------------------------


def exact(column: str, counts: object) -> TransitionCounts:
    return TransitionCounts(
        column, np.array(counts), TableNoise("concentrated", parameter=Fraction(1, 64))
    )


def test_people_become_rows_that_count_as_drawn_ones_do() -> None:
    """Without noise: 100 of 1,000 people leave, and 200 of those who stay change from 0 to 1."""
    old = {"a": np.repeat([0, 1], 500), "b": np.arange(1000) % 4}
    before = FollowedRows(np.arange(1, 1001), old)
    drawn = {"a": np.repeat([0, 1], [350, 650]), "b": np.arange(1000) % 4}
    moved = [exact("a", [[250, 200], [0, 450]]), exact("b", np.diag([225] * 4))]
    buckets = {"a": np.arange(2), "b": np.array([0, 0, 1, 1])}
    moved[1] = exact("b", np.diag([450, 450]))
    found = carried_on(
        before,
        drawn,
        moved,
        buckets,
        scale=1.0,
        next_person=2000,
        rng=PostprocessingRng(shifted(3)),
    )
    assert np.array_equal(np.bincount(found.codes["b"]), [250] * 4)
    assert abs(np.bincount(found.codes["a"])[0] - 350) < 20
    common, was, now = np.intersect1d(before.persons, found.persons, return_indices=True)
    assert len(common) == 900
    assert found.persons.max() == 2099
    went = np.bincount(2 * old["a"][was] + found.codes["a"][now], minlength=4)
    assert np.abs(went - [250, 200, 0, 450]).max() < 20
    kept = np.mean(buckets["b"][old["b"][was]] == buckets["b"][found.codes["b"][now]])
    assert kept > 0.97


def test_nobody_stays_where_nobody_was() -> None:
    nobody = FollowedRows(np.empty(0, np.int64), {"a": np.empty(0, np.int64)})
    drawn, buckets = {"a": np.array([0, 1, 1])}, {"a": np.arange(2)}
    moved = [exact("a", [[5, 0], [0, 5]])]
    found = carried_on(
        nobody, drawn, moved, buckets, scale=1.0, next_person=7, rng=PostprocessingRng(1)
    )
    assert found.persons.tolist() == [7, 8, 9]
    assert np.sort(found.codes["a"]).tolist() == [0, 1, 1]
    none = carried_on(
        FollowedRows(np.array([1]), {"a": np.array([0])}),
        {"a": np.empty(0, np.int64)},
        moved,
        buckets,
        scale=1.0,
        next_person=2,
        rng=PostprocessingRng(1),
    )
    assert len(none.persons) == 0


def test_noise_alone_makes_nobody_move() -> None:
    """If noise explains all transitions, few are made, and those at random."""
    rng = np.random.default_rng(shifted(9))
    noise = TableNoise("concentrated", parameter=Fraction(100))
    counts = np.diag(np.full(20, 500)) + np.rint(rng.normal(0, 10, (20, 20))).astype(np.int64)
    wanted = TransitionCounts("a", counts, noise).wanted(np.full(20, 0.05), 10_000, 1.0)
    assert wanted.min() >= 0
    assert abs(wanted.sum() - 10_000) < 1e-6
    assert wanted.sum() - np.trace(wanted) < 6 * 10 * 20**0.5  # the noise of the diagonal's sum
