"""Attacks are compared with people who are not in the release, even without a control table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hushtable as ht
from hushtable.evaluation.inputs import read_rows
from hushtable.evaluation.report.pages import headlines
from hushtable.evaluation.risk import attacks
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.release.release import SEEDED
from seeds import shifted

FEW = {"n_repeats": 1, "n_draws": 1, "questions": 1}
N = 2000


def evaluated(release: ht.Release, table: pa.Table, **more: Any) -> tuple[dict[str, Any], str, str]:
    content = ht.evaluate(release, table, **FEW, **more).to_dict()
    (line,) = [line for line in headlines(content) if line["what"] == "Attacks"]
    return content, line["value"], line["note"]


def published(tmp_path: Path, table: pa.Table, method: ht.Method, **more: Any) -> ht.Release:
    columns = {
        name: {"type": "integer", "low": 0, "high": int(np.max(table[name]))}
        for name in table.column_names
        if name != "who"
    }
    if "who" in table.column_names:
        columns["who"] = {"role": "identifier"}
    schema = ht.Schema.from_dict({"name": "t", "columns": columns, **more})
    noise = SeededNoise(shifted(3))
    return ht.publish(table, schema, method, out=tmp_path / "out", noise=noise)


def population() -> pa.Table:
    """Make a table in which one column determines the other, for everyone."""
    x = np.random.default_rng(shifted(1)).integers(0, 10, N)
    return pa.table({"x": x, "y": x})


def test_knowledge_about_the_population_is_not_a_success(tmp_path: Path) -> None:
    table = population()
    release = published(tmp_path, table, ht.NoisyCounts(epsilon=2, mechanism="pure"))
    content, value, note = evaluated(release, table)
    assert content["reproduce"]["held_back"] == N // 4
    assert "500 rows held back" in note
    attacks = content["risk"]["attacks"]
    assert all(attack["control"] for attack in attacks)
    assert "membership" in {attack["name"] for attack in attacks}
    assert any("run again on the other rows" in said for said in content["risk"]["notes"])
    # Each of 8 attacks exceeds its control by chance once in 2,000; two at once far less often.
    assert int(value.split()[0]) <= 1
    # Without a control, attacks on the same release seem to succeed, but are inconclusive.
    alone, value, note = evaluated(release, table, hold_back=False)
    assert sum(attack["succeeds"] for attack in alone["risk"]["attacks"]) >= 4
    assert (value, "naive attacker" in note) == ("inconclusive", True)
    # Anonymity refers to the rows of the actual release.
    assert content["risk"]["anonymity"] == alone["risk"]["anonymity"]
    assert evaluated(release, table)[0]["risk"] == content["risk"]


def test_the_second_run_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, made = population(), tmp_path / "spill"
    made.mkdir()
    monkeypatch.setattr(attacks, "spill_folder", lambda: str(made))
    release = published(tmp_path, table, ht.NoisyCounts(epsilon=2, mechanism="pure"))
    coded = read_rows(table, release.schema)
    with attacks.make_control_group(release, coded, np.random.default_rng(shifted(4))) as back:
        assert back is not None
        assert back.release.folder.is_relative_to(made)
        assert (back.original.n_rows, back.control.n_rows) == (3 * N // 4, N // 4)
        assert back.release.statement.guarantee == SEEDED
        assert back.release.statement.ledger is None
    assert list(made.iterdir()) == []


def test_a_method_that_reveals_people_is_detected(tmp_path: Path) -> None:
    # Every row has one duplicate. If both are in, both are published; rows held back never are.
    wide = np.random.default_rng(shifted(2)).integers(0, 1000, (N // 2, 3)).repeat(2, axis=0)
    table = pa.table({name: wide[:, at] for at, name in enumerate("abc")})
    release = published(tmp_path, table, ht.GeneralizeSuppress(k=2))
    content, _, _ = evaluated(release, table)
    caught = {attack["name"] for attack in content["risk"]["attacks"] if attack["succeeds"]}
    assert "membership" in caught


def test_persons_with_many_rows_are_not_split(tmp_path: Path) -> None:
    table = population().append_column("who", pa.array(np.arange(N) // 4))
    unit = {"kind": "person", "column": "who", "max_rows": 4}
    release = published(tmp_path, table, ht.NoisyCounts(epsilon=2, mechanism="pure"), unit=unit)
    content, value, _ = evaluated(release, table)
    assert content["reproduce"]["held_back"] == 0
    assert value == "inconclusive"


def test_small_tables_and_given_controls_have_no_second_run(tmp_path: Path) -> None:
    table = population()
    method = ht.NoisyCounts(epsilon=2, mechanism="pure")
    release = published(tmp_path, table.slice(0, 200), method)
    assert evaluated(release, table.slice(0, 200))[0]["reproduce"]["held_back"] == 0
    content, _, note = evaluated(release, table.slice(0, 200), control=table.slice(200, 300))
    assert content["reproduce"]["held_back"] == 0
    assert content["reproduce"]["control"] is True
    assert "held back" not in note
