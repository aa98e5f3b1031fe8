"""Log messages: phases and seconds on request, and nothing about a table's content."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtable as ht
from hushtable.audit import audit
from hushtable.errors import HushtableError
from hushtable.methods import ContingencyTable

METHOD = ContingencyTable(epsilon=1)
LOG = logging.getLogger("hushtable")


class Kept(logging.Handler):
    """Handler that keeps the log records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def phases(self) -> list[tuple[str, str]]:
        return [(record.work, record.phase) for record in self.records]


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler, before = Kept(), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield handler
    LOG.setLevel(before)
    LOG.removeHandler(handler)


def publish(out: Path, **options: Any) -> ht.Release:
    return ht.publish(ht.sample(), ht.sample_schema(), METHOD, out=out, **options)


def test_the_phases_of_a_release_are_logged_in_order(kept: Kept, tmp_path: Path) -> None:
    heard: list[str] = []
    publish(tmp_path / "out", progress=lambda what, share: heard.append(what))
    phases = ["planning", "charging", "counting", "writing", "done"]
    assert kept.phases == [("publish", phase) for phase in phases]
    assert heard[0] == "planning"  # progress listeners are still called
    assert heard[-1] == "done"
    parts, whole = kept.records[:-1], kept.records[-1]
    assert all(record.levelno == logging.INFO for record in kept.records)
    assert all(record.seconds >= 0 for record in parts)
    # Each is rounded to a millisecond.
    assert sum(record.seconds for record in parts) <= whole.seconds + 0.005
    assert whole.getMessage() == f"publish: done, {whole.seconds:.3f} s"


def test_graphs_evaluations_and_audits_are_logged_too(kept: Kept, tmp_path: Path) -> None:
    ring = [(i, (i + 1) % 100) for i in range(100)]
    method = ht.Degrees(epsilon=1, max_degree=4)
    ht.publish_graph(ring, method, nodes=np.arange(100), out=tmp_path / "ring")
    some = ht.sample().slice(0, 200)
    ht.evaluate(some, some, schema=ht.sample_schema(), n_repeats=1, questions=1)
    audit(METHOD, runs=20, largest=0, tests=["loss"])
    ended = [work for work, phase in kept.phases if phase == "done"]
    assert ended == ["publish", "evaluate", "audit"]


def test_a_run_that_fails_says_in_which_phase(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(HushtableError):
        publish(tmp_path / "out")
    assert kept.phases == [("publish", "planning"), ("publish", "failed")]


def test_nobody_else_logs_while_rows_are_read(
    kept: Kept, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def talk(what: str, share: float) -> None:
        logging.getLogger("library").critical("a cell: 4711")
        LOG.critical("a cell: 4711")  # not even by hushtable's own logger, except for phases

    publish(tmp_path / "out", progress=talk)
    assert len(kept.phases) == 5
    assert "4711" not in caplog.text


@pytest.mark.parametrize("quiet", ["level", "disabled", "default"])
def test_what_is_not_asked_for_is_not_logged(quiet: str, kept: Kept, tmp_path: Path) -> None:
    before = logging.root.manager.disable
    if quiet == "disabled":
        logging.disable(logging.INFO)
    else:
        LOG.setLevel(logging.WARNING if quiet == "level" else logging.NOTSET)
    try:
        publish(tmp_path / "out")
    finally:
        logging.disable(before)
    assert kept.records == []


def test_the_command_line_logs_phases_to_standard_error_only(tmp_path: Path) -> None:
    table = ht.sample().slice(0, 200)
    ht.publish(table, ht.sample_schema(), METHOD, out=tmp_path / "release")
    import pyarrow.parquet as pq

    pq.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "schema.yaml").write_text(ht.sample_schema().to_yaml())
    words = ["publish", "contingency-table", "rows.parquet", "schema.yaml", "--epsilon", "1"]
    told = {}
    for name, given in {
        "quiet": [*words, "--json", "--out", "a"],
        "before": ["-v", *words, "--json", "--out", "b"],
        "after": [*words, "--json", "--out", "c", "--verbose"],
    }.items():
        done = subprocess.run(
            [sys.executable, "-m", "hushtable.cli.app", *given],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        json.loads(done.stdout)
        told[name] = [line.split(",")[0] for line in done.stderr.splitlines() if "publish:" in line]
    phases = ("planning", "charging", "counting", "writing", "done")
    assert told["quiet"] == []
    assert told["before"] == told["after"] == [f"hushtable: publish: {phase}" for phase in phases]
