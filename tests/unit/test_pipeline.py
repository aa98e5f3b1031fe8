"""Inputs that `publish` accepts and refuses, and its bound on rows per person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushtable as ht
from hushtable.engine import open_table
from hushtable.errors import DataError, ParameterError, PredicateError
from hushtable.files.progress import phase_of
from hushtable.methods.base import Method
from hushtable.methods.diffgen.contingency_table import ContingencyTable
from seeds import shifted

TABLE, SCHEMA = ht.sample(), ht.sample_schema()
METHOD = ht.NoisyCounts(epsilon=1, delta=1e-6, k=10)


def test_a_schema_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(SCHEMA.to_yaml())
    release = ht.publish(TABLE, tmp_path / "schema.yaml", METHOD, out=tmp_path / "release")
    assert release.schema == SCHEMA


@pytest.mark.parametrize("method", ["noisy-counts", ht.NoisyCounts])
def test_invalid_schema_and_method_are_reported_together(method: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError) as error:
        ht.publish(TABLE, {"name": "t"}, method, out=tmp_path / "release")  # type: ignore[arg-type]
    assert [problem.split(";")[0][:12] for problem in error.value.problems] == [
        "schema is a ", "method is " + ("'n" if method == "noisy-counts" else "<c"),
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_reservation_needs_its_ledger(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="pass the ledger too"):
        ht.publish(TABLE, SCHEMA, METHOD, out=tmp_path / "release", reservation=1)
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_is_not_known_is_refused_before_the_charge(tmp_path: Path) -> None:
    book = ht.Ledger.create(tmp_path / "book", epsilon=1, delta=1e-5, schema=SCHEMA)
    before = book.path.read_bytes()
    with pytest.raises(ParameterError, match="'abacus' is not known"):
        ht.publish(TABLE, SCHEMA, METHOD, out=tmp_path / "r", ledger=book, engine="abacus")  # type: ignore[arg-type]
    assert book.path.read_bytes() == before


@pytest.mark.parametrize("limit", ["a lot", "5", "0GB", "12KB", "-1", "none", "9" * 30 + "GB"])
def test_a_bad_memory_limit_is_refused_before_the_charge(limit: str, tmp_path: Path) -> None:
    book = ht.Ledger.create(tmp_path / "book", epsilon=1, delta=1e-5, schema=SCHEMA)
    before = book.path.read_bytes()
    with pytest.raises(ParameterError, match=f"memory_limit is '{limit}'; write it as"):
        ht.publish(TABLE, SCHEMA, METHOD, out=tmp_path / "r", ledger=book, memory_limit=limit)
    assert book.path.read_bytes() == before


def test_the_header_is_read_at_the_door_and_looked_at_once_more_after_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, read = [], open_table.read_header

    def count(data: Any, *layout: Any) -> Any:
        seen.append(data)
        return read(data, *layout)

    monkeypatch.setattr(open_table, "read_header", count)
    pq.write_table(TABLE, tmp_path / "t.parquet")
    ht.publish(tmp_path / "t.parquet", SCHEMA, METHOD, out=tmp_path / "release")
    assert seen == [tmp_path / "t.parquet"] * 2


def test_frames_that_are_no_tables_are_refused_by_name(tmp_path: Path) -> None:
    frames: list[tuple[Any, list[str]]] = [
        (pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]), ["column 'a' occurs more than once"]),
        (pd.Series([1, 2]), ["data is a Series"]),
        (
            pd.DataFrame({"a": [b"1", "SECRET"], "b": [1, 2], "c": [{1}, 2]}),
            ["column 'a' has values that are not", "column 'c' has values that are not"],
        ),
    ]
    for frame, expected in frames:
        with pytest.raises((DataError, ParameterError)) as error:  # in the notation of pandas
            ht.publish(frame, SCHEMA, METHOD, out=tmp_path / "release")
        assert [problem[: len(words)] for problem, words in
                zip(error.value.problems, expected, strict=True)] == expected  # fmt: skip
        assert "SECRET" not in str(error.value)


def test_a_label_of_the_taxonomy_is_explained(tmp_path: Path) -> None:
    release = ht.publish(TABLE, SCHEMA, METHOD, out=tmp_path / "release")
    with pytest.raises(PredicateError, match=r"region IN \('harbor', 'old town'\)"):
        release.count("region = 'north'")


# --- persons with many rows -----------------------------------------------------------------------

PERSONS = ht.Schema.from_dict(
    {
        "name": "t",
        "rows": 20_000,
        "unit": {"kind": "person", "column": "who", "max_rows": 2},
        "columns": {
            "who": {"role": "identifier"},
            "x": {"type": "integer", "low": 0, "high": 7},
            "y": {"type": "categorical", "values": ["a", "b"], "role": "target"},
        },
    }
)


def visits() -> pa.Table:
    """Make 1,000 persons with 20 rows each: half of them x >= 4 and y = 'b'."""
    x = np.random.default_rng(shifted(1)).permutation(np.arange(20_000) % 8)
    return pa.table({"who": np.arange(20_000) // 20, "x": x, "y": np.where(x < 4, "a", "b")})


@pytest.mark.parametrize(
    "method",
    [
        ht.NoisyCounts(epsilon=20, delta="1e-6", k=3),
        ht.NoisyCounts(epsilon=20, mechanism="pure"),
        ht.Partition(epsilon=20, max_depth=4),
        ht.DiffGen(epsilon=20),
        ContingencyTable(epsilon=20),
        ht.Quilt(epsilon=20, delta="1e-6"),
    ],
    ids=lambda method: method.name,
)
def test_the_public_number_of_rows_is_not_that_of_bounded_rows(
    method: Method, tmp_path: Path
) -> None:
    """2,000 of the 20,000 rows are used, and every kind of answer must be about these.

    Half of them vary at most like Binomial(2,000, 1/2): outside 1,000 +- 125 with probability 2e-8.
    """
    release = ht.publish(visits(), PERSONS, method, out=tmp_path / "release")
    for where in ("x >= 4", "y = 'b'", "y = 'b' OR x >= 4", "NOT (y = 'a' AND x < 4)"):
        answer = release.count(where)
        assert 600 < answer.value < 1400, where
        assert any("At most 2 rows per person are used" in note for note in answer.notes)
    assert "at most 2 rows used" in (release.folder / "STATEMENT.md").read_text()


def test_progress_is_told_and_nothing_is_counted_before_the_charge(tmp_path: Path) -> None:
    book = ht.Ledger.create(tmp_path / "book", epsilon=1, delta=1e-5, schema=SCHEMA)
    told: list[tuple[str, float, int]] = []

    def progress(what: str, share: float) -> None:
        told.append((what, share, len(book.entries())))

    out = tmp_path / "release"
    ht.publish(TABLE, SCHEMA, METHOD, out=out, ledger=book, progress=progress)
    phases = dict.fromkeys(phase_of(what)[0] for what, _, _ in told)
    assert list(phases) == ["planning", "charging", "counting", "writing", "done"]
    shares = [share for _, share, _ in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert [entries for what, _, entries in told if what in phases] == [0, 0, 1, 1, 1]


def test_progress_counts_the_noisy_answers_as_the_budget_goes(tmp_path: Path) -> None:
    looks: list[tuple[str, float]] = []

    def progress(what: str, share: float) -> None:
        if phase_of(what)[1]:
            looks.append((phase_of(what)[1], share))

    method = ht.Quilt(epsilon=1, delta="1e-6", particles=1000)
    ht.publish(ht.sample(), ht.sample_schema(), method, out=tmp_path / "quilt", progress=progress)
    told = [f"{n} noisy answer{'s' * (n != 1)}" for n in range(1, len(looks) + 1)]
    assert [said for said, _ in looks] == told
    assert len(looks) >= 4
    shares = [share for _, share in looks]
    assert shares == sorted(shares)
    assert 0.1 < shares[0] < shares[-1] <= 0.9
    assert shares[-1] > 0.8  # the whole promise is spent by then
