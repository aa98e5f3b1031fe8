"""A fit that fails twice is reported in the statement and as a warning, for every use of quilt."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushtable.engine.output_guard import silenced
from hushtable.errors import HushtableWarning
from hushtable.methods.linked.linked import Linked
from hushtable.methods.quilt.model import LogLinearModel
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.publishing.publish import publish, publish_linked
from hushtable.release.release import Release
from hushtable.schema import Schema
from hushtable.schema.linked_schema import LinkedSchema
from hushtable.series.plan import SeriesPlan
from hushtable.series.series import Series

COLUMNS = {
    "id": {"role": "identifier"},
    "sex": {"type": "categorical", "values": ["f", "m"]},
    "age": {"type": "integer", "low": 0, "high": 3},
}
SCHEMA = Schema.from_dict(
    {
        "name": "people",
        "unit": {"kind": "person", "column": "id", "max_rows": 1},
        "columns": COLUMNS,
    }
)
ROWS = pa.table({"id": np.arange(800), "sex": ["f"] * 200 + ["m"] * 600, "age": np.arange(800) % 4})
WRONG = "The model could not be fitted, even after a restart. In `{}`, "


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every last fit, and every restart, end with all particles equal."""

    def lose(field: LogLinearModel, *_: int) -> None:
        field.rows = np.zeros_like(field.rows)
        field._place()

    monkeypatch.setattr(LogLinearModel, "grow", lose)
    monkeypatch.setattr(LogLinearModel, "restart", lose)


def notes_on_failed_fits(release: Release) -> list[str]:
    """Return the notes on failed fits, which STATEMENT.md and statement.json share."""
    notes = [note for note in release.statement.estimator["notes"] if "could not be fitted" in note]
    text = (release.folder / "STATEMENT.md").read_text()
    assert notes == re.findall(r"^- (The model could not be fitted.*)$", text, re.MULTILINE)
    return notes


@pytest.mark.usefixtures("lost")
def test_a_failed_fit_is_the_first_note_and_a_warning(tmp_path: Path) -> None:
    with pytest.warns(HushtableWarning) as heard:
        release = publish(ROWS, SCHEMA, Quilt(epsilon=8, particles=1000), out=tmp_path / "out")
    (note,) = notes_on_failed_fits(release)
    assert release.statement.estimator["notes"][0] == note
    assert note.startswith(WRONG.format("data"))
    # One code has all rows: of one column the fourth or three fourths are wrong, up to noise.
    said = {name: float(share) for name, share in re.findall(r"(sex|age) \((.*?)%\)", note)}
    assert min(abs(said["sex"] - 25), abs(said["sex"] - 75)) < 5
    assert abs(said["age"] - 75) < 5
    assert [str(warning.message) for warning in heard] == [note]


@pytest.mark.usefixtures("lost")
def test_nothing_is_lost_where_warnings_are_errors(tmp_path: Path) -> None:
    """The charge was made, so the release exists before the warning."""
    book = Ledger.create(tmp_path / "ledger", epsilon=8, unit=SCHEMA.unit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(HushtableWarning, match="could not be fitted"):
            publish(
                ROWS, SCHEMA, Quilt(epsilon=8, particles=1000), out=tmp_path / "out", ledger=book
            )
    assert len(notes_on_failed_fits(Release.load(tmp_path / "out"))) == 1
    assert [entry.status for entry in book.entries()] == ["released"]


@pytest.mark.usefixtures("lost")
def test_waves_of_a_panel_report_it(tmp_path: Path) -> None:
    plan = SeriesPlan(epsilon=8, delta="1e-6", waves=2, panel=True)
    series = Series.create(tmp_path / "series", SCHEMA, plan)
    for before in (None, ROWS):
        with pytest.warns(HushtableWarning, match="could not be fitted"):
            release = series.publish(ROWS, before=before)
        assert len(notes_on_failed_fits(release)) == 1


@pytest.mark.usefixtures("lost")
def test_linked_tables_report_each(tmp_path: Path) -> None:
    of_visits = {"ward": {"type": "categorical", "values": ["er", "icu"]}}
    schema = LinkedSchema.from_dict(
        {
            "name": "clinic",
            "tables": {
                "persons": {"key": "id", "columns": {"sex": COLUMNS["sex"]}},
                "visits": {
                    "parent": "persons",
                    "foreign_key": "person",
                    "max_children": 1,
                    "columns": of_visits,
                },
            },
        }
    )
    data = {
        "persons": ROWS.select(["id", "sex"]),
        "visits": pa.table({"person": np.arange(800), "ward": ["er", "icu"] * 400}),
    }
    method = Linked(epsilon=8, particles=1000)
    with pytest.warns(HushtableWarning, match="could not be fitted") as heard:
        release = publish_linked(data, schema, method, out=tmp_path / "out")
    notes = notes_on_failed_fits(release)
    for name, note in zip(("persons", "visits"), notes, strict=True):
        assert note.startswith(WRONG.format(name))
    assert [str(warning.message) for warning in heard] == notes


def test_a_fit_that_found_its_way_says_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release = publish(ROWS, SCHEMA, Quilt(epsilon=8, particles=1000), out=tmp_path / "out")
    assert notes_on_failed_fits(release) == []


def test_own_warnings_are_shown_where_no_filter_is_for_them() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()  # no filter for hushtable's warnings, as in a new interpreter
        silenced(lambda: warnings.warn("ours", HushtableWarning, stacklevel=2))()
        silenced(lambda: warnings.warn("private", RuntimeWarning, stacklevel=2))()
    assert [str(warning.message) for warning in seen] == ["ours"]
