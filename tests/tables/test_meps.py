"""A health survey with many coded columns, and negative codes for questions not asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hushtable as ht
from hushtable.errors import Refused
from tables.end_to_end import published, taken

N_ROWS, N_CODED = 3000, 30


@pytest.fixture
def meps(tmp_path: Path) -> Path:
    draw = np.random.default_rng(8)
    sick = draw.random(N_ROWS)
    columns = {
        "DUPERSID": [f"{60000000 + i}" for i in range(N_ROWS)],
        "AGE53X": np.where(draw.random(N_ROWS) < 0.02, -1, draw.integers(0, 86, N_ROWS)),
        "SEX": draw.integers(1, 3, N_ROWS),
        "PCS42": np.where(draw.random(N_ROWS) < 0.1, -9, np.round(draw.normal(50, 9, N_ROWS), 2)),
    }
    for i in range(N_CODED):
        answer = np.where(draw.random(N_ROWS) < 0.2 + 0.5 * sick, 1, 2)
        asked = draw.random(N_ROWS)
        columns[f"DX{i}"] = np.where(asked < 0.1, -1, np.where(asked < 0.12, -8, answer))
    columns["outcome"] = np.where(sick > 0.7, "high", "low")
    file = tmp_path / "meps.csv"
    names = list(columns)
    rows = zip(*(np.asarray(columns[name]).tolist() for name in names), strict=True)
    file.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return file


def test_codes_are_seen_and_ids_left_out(meps: Path) -> None:
    made, schema = taken(meps)
    assert made.schema.columns["DUPERSID"].role == "identifier"
    for name in ("AGE53X", "DX0", "DX29"):
        assert any("Possible codes: " in said for said in made.remarks[name])
    assert schema.target == "outcome"
    assert len(schema.attributes) == N_CODED + 4


def test_counts_of_all_columns_would_be_empty_and_are_refused(meps: Path, tmp_path: Path) -> None:
    _, schema = taken(meps)
    ledger = ht.Ledger.create(tmp_path / "ledger", epsilon=2, delta="1e-5", schema=schema)
    method = ht.NoisyCounts(epsilon=1, delta="1e-6", k=10)
    with pytest.raises(Refused, match="would be empty"):
        ht.publish(meps, schema, method, out=tmp_path / "r", ledger=ledger, rows=N_ROWS)
    assert ledger.remaining().epsilon == 2
    some = ht.publish(
        meps, schema, method, out=tmp_path / "r", ledger=ledger, rows=N_ROWS,
        columns=["SEX", "outcome"],
    )  # fmt: skip
    assert some.n_rows > N_ROWS / 2


def test_rows_of_diffgen_are_as_many_as_the_table_has(meps: Path) -> None:
    """Even if its counts are so uninformative that publishing needs an explicit request."""
    _, schema = taken(meps)
    method = ht.DiffGen(epsilon=1, specializations=12)
    with pytest.raises(Refused, match="too many for its cells"):
        published(meps, schema, method, rows=N_ROWS)
    release = published(meps, schema, method, rows=N_ROWS, anyway=True)
    assert abs(release.n_rows - N_ROWS) < 0.5 * N_ROWS


def test_a_tree_is_not_cut_up_by_codes_before_it_is_grown(meps: Path) -> None:
    """With 31 coded columns there would be more regions than rows, nearly all of them empty."""
    _, schema = taken(meps)
    plan = ht.Partition(epsilon=1, max_depth=4, test_from=2).plan(schema)
    assert plan.most_regions <= 8 << 4
    release = published(meps, schema, plan.method, rows=N_ROWS)
    assert abs(release.n_rows - N_ROWS) < 0.2 * N_ROWS
