"""The search for certain differences, and its inputs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushtable.audit import sweep
from hushtable.audit.bounds import EventTally, loss_at_least
from hushtable.audit.cases import made_schema, predicted_schema, whole
from hushtable.audit.code_constants import constants_of
from hushtable.audit.differences import DifferenceTest, Observation, runs_to_prove
from hushtable.audit.features import everything, folder
from hushtable.audit.inputs import GraphInput, Pair, TableInput
from hushtable.audit.loss import LossClaim, RepeatTest
from hushtable.audit.subject import Clock, Prepared, Subject
from hushtable.errors import Refused
from hushtable.methods import ContingencyTable
from hushtable.methods.base import Released
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise

SCHEMA = made_schema({"x": whole(3)})


def compared(run: Any, *, epsilon: float = 1.0, runs: int = 20_000, sizes: Any = range(300)) -> Any:
    """Search for differences in the output for tables that differ by one row."""
    subject = Subject(None, SCHEMA, Prepared((), run), SecureNoise())  # type: ignore[arg-type]
    first = list(sweep.swept(SCHEMA, "add-remove", sizes))[: len(sizes)]
    claim = LossClaim("a promise", first, epsilon, epsilon)
    look = Observation("what is published", subject.seen_in_full, first)
    return DifferenceTest(claim, [look], runs, 1e-9, Clock()).finding()


def at_137(engine: Any, noise: Noise) -> Released:
    """One of 300 pairs is distinguished, and everything else is noise."""
    shown = {"coin": int(noise.integer_below(2)), "large": engine.n_rows() >= 137}
    return Released({}, shown)


def test_a_difference_at_a_single_pair_is_found_and_proved() -> None:
    finding = compared(at_137)
    assert finding.verdict == "VIOLATION"
    assert finding.bound > finding.limit == 1
    assert "136 copies of a row and one more" in finding.witness.name
    assert "large=" in finding.witness.event


@pytest.mark.parametrize("words", ["too few", "fewer than {}"])
def test_a_refusal_is_a_difference(words: str) -> None:
    def run(engine: Any, noise: Noise) -> Released:
        if engine.n_rows() < 30:
            raise Refused(words.format(engine.n_rows()))
        return Released({}, {"coin": int(noise.integer_below(2))})

    assert compared(run).verdict == "VIOLATION"


def test_a_failure_is_a_difference() -> None:
    def run(engine: Any, noise: Noise) -> Released:
        return Released(
            {}, {"n": 1 // (engine.n_rows() // 64), "coin": int(noise.integer_below(2))}
        )

    assert compared(run).verdict == "VIOLATION"


def test_random_variation_is_not_a_certain_difference() -> None:
    """Randomized response, at exactly epsilon = 1: accused with probability at most 1e-9."""

    def run(engine: Any, noise: Noise) -> Released:
        said = (engine.n_rows() % 2) ^ (SecureNoise().integer_below(10_000) >= 7310)
        return Released({}, {"odd": bool(said)})

    assert compared(run).verdict == "NO VIOLATION FOUND"


def test_too_few_runs_for_a_proof_are_reported() -> None:
    finding = compared(at_137, epsilon=8.0, runs=500)
    assert finding.verdict == "NOT TESTED"
    assert "not enough" in finding.reason
    assert "136 copies of a row" in finding.notes[0]


@pytest.mark.parametrize(("limit", "delta"), [(0.1, 0.0), (1.0, 0.01), (4.0, 1e-6)])
def test_the_number_of_runs_for_a_proof_is_minimal(limit: float, delta: float) -> None:
    n = runs_to_prove(limit, delta, 1e-8)
    for runs, proves in ((n, True), (n - 1, False)):
        tallies = EventTally(runs, runs), EventTally(0, runs)
        assert (loss_at_least(*tallies, delta=delta, error=1e-8) > limit) is proves


# --- repeated releases ----------------------------------------------------------------------------


def repeated(run: Any) -> Any:
    subject = Subject(None, SCHEMA, Prepared((), run), SecureNoise())  # type: ignore[arg-type]
    pair = next(iter(sweep.swept(SCHEMA, "add-remove", [5])))
    return RepeatTest(subject, LossClaim("", [pair], 1.0, 1.0), 20_000, 1e-9, Clock()).finding()


def test_releases_from_few_seeds_are_recognized() -> None:
    """With 2**10 seeds, each input has 1,024 releases, and the two inputs share none."""

    def run(engine: Any, noise: Noise) -> Released:
        own = SeededNoise(noise.integer_below(1 << 10))
        return Released({}, {"n": engine.n_rows() + own.integer_below(10**9)})

    assert repeated(run).verdict == "VIOLATION"


def test_few_releases_that_both_inputs_share_are_not_a_violation() -> None:
    def run(engine: Any, noise: Noise) -> Released:
        return Released({}, {"n": int(noise.integer_below(8))})

    assert repeated(run).verdict == "NO VIOLATION FOUND"


# --- inputs ---------------------------------------------------------------------------------------


@dataclass
class MadePlan:
    """A plan with its own constants."""

    cap: int = 1234

    def run(self) -> int:
        return 4321


def test_sizes_around_the_numbers_of_a_plan_are_tried() -> None:
    sizes = sweep.sizes_of(constants_of(MadePlan()))
    assert set(range(300)) <= set(sizes)
    assert {1232, 1233, 1234, 4319, 4320, 4321, 511, 512, 2047} <= set(sizes)


def rows_apart(pair: Pair) -> int:
    assert isinstance(pair.one, TableInput)
    assert isinstance(pair.two, TableInput)
    one, two = Counter(pair.one.rows), Counter(pair.two.rows)
    return sum((one - two).values()) + sum((two - one).values())


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_swept_pairs_are_neighbors(relation: Any) -> None:
    for pair in sweep.swept(predicted_schema(None), relation, [0, 1, 2, 7, 40]):
        assert rows_apart(pair) == (1 if relation == "add-remove" else 2)
    for pair in sweep.swept_graphs([1, 2, 5], listed=True):
        assert isinstance(pair.one, GraphInput)
        assert isinstance(pair.two, GraphInput)
        assert len(set(pair.one.nodes) - set(pair.two.nodes)) == 1


def test_schemas_with_persons_missing_values_and_taxonomies_are_tried() -> None:
    found = dict(sweep.variants(predicted_schema(None), ContingencyTable(epsilon=1).plan))
    assert len(found) > 20
    persons = found["persons with two rows"]
    assert persons.unit.max_rows == 2
    # Equal rows, two different rows, and more rows than are used.
    for n, n_apart, n_kinds in ((0, 2, 1), (1, 2, 2), (2, 4, 2)):
        for pair in sweep.swept(persons, "add-remove", [n]):
            assert isinstance(pair.one, TableInput)
            assert rows_apart(pair) == n_apart
            assert len(set(pair.one.rows[n:])) == n_kinds
    wide = found["columns of every type"].attributes.values()
    assert {"number", "date", "boolean"} <= {column.type for column in wide}
    assert any(column.missing_code is not None
               for column in found["missing values"].attributes.values())  # fmt: skip
    assert list(sweep.variants(predicted_schema(None), refuse)) == []


def refuse(schema: Any) -> None:
    raise Refused("no.")


# --- observed features ----------------------------------------------------------------------------


def test_order_notes_and_plots_are_observed() -> None:
    table = pa.table({"x": [2, 0], "count": [1, 5]})
    found = everything(
        Released({"data": table}, {"notes": ["7 rows."]}, {"a.svg": "<rect y='3'/>"}), SCHEMA
    )
    assert found["place of data[0]"] == 1
    assert found["notes[0], number 1"] == 7
    assert found["a.svg, number 1"] == 3
    other = everything(Released({"data": table.take([1, 0])}), SCHEMA)
    orders = [{name for name in seen if name.startswith("order of")} for seen in (found, other)]
    assert orders[0] != orders[1]


def test_every_byte_of_a_folder_is_observed(tmp_path: Path) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["F", "a name"]))
    told = pa.table({"sex": values}).replace_schema_metadata({"from": "ward 7"})
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    pq.write_table(told, tmp_path / "one" / "data.parquet")
    pq.write_table(told.cast(pa.schema([("sex", pa.string())])), tmp_path / "two" / "data.parquet")
    one, two = (folder(tmp_path / name) for name in ("one", "two"))
    differing = [name for name in one if one.get(name) != two.get(name)]
    for part in ("metadata", "dictionary, bytes", "size of", "bytes of"):
        assert any(part in name for name in differing), part
    assert not any(math.isnan(value) for value in np.array(list(one.values())))
