"""A panel of doctor visits: 3.2 rows for each person, one file with an unnamed first column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hushtable as ht
from tables.end_to_end import published, taken

N_PEOPLE = 1200


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    draw = np.random.default_rng(7)
    lines = ['"",id,docvis,hospvis,year,edlevel,age,outwork,female,married,hhninc']
    for person in range(1, N_PEOPLE + 1):
        age, female = int(draw.integers(25, 60)), int(draw.random() < 0.5)
        for year in range(1984, 1984 + int(draw.choice([1, 3, 4, 5], p=[0.2, 0.4, 0.2, 0.2]))):
            visits = draw.poisson(3)
            income = draw.gamma(4, 0.9)
            lines.append(
                f"{len(lines)},{person},{visits},{draw.poisson(0.1)},{year},"
                f"{draw.integers(1, 5)},{age + year - 1984},{int(draw.random() < 0.3)},{female},"
                f"{int(draw.random() < 0.7)},{income:.3f}"
            )
    file = tmp_path / "panel.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_the_draft_asks_whose_rows_they_are(panel: Path) -> None:
    made, schema = taken(panel)
    unit = made.schema.unit
    # In a small table, the noise of 5 rows per person costs more than the rows that are not used.
    assert (unit.kind, unit.column, unit.max_rows) == ("person", "id", 1)
    assert "Does it identify a person?" in made.remarks[""][0]
    assert "unit" in made.schema.confirm
    assert made.schema.reading.rename == {1: "column_1"}
    assert made.schema.columns["column_1"].role == "identifier"
    assert schema.attributes["hhninc"].type == "number"


def test_people_are_protected_and_not_rows(panel: Path) -> None:
    _, schema = taken(panel)
    method = ht.Partition(epsilon=4, max_depth=4)
    release = published(panel, schema, method, rows=4000)
    (promise,) = method.guarantee(schema)
    assert promise.unit.kind == "person"  # type: ignore[attr-defined]
    answer = release.count("female = 1")
    assert answer.what == "rows"
    assert f"At most {schema.unit.max_rows} rows" in " ".join(answer.notes)
    assert answer.low < answer.high
