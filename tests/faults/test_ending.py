"""Signals and failures late in a run: exit codes, messages and leftover files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hushtable.privacy.ledger.ledger import Ledger
from hushtable.release.release import Release

from .scene import Scene, marked_rows

# Runs the command line; when it reaches PLACE, it prints a line and waits for a signal.
WAITING = """
import sys, time
from hushtable.cli.app import main
from hushtable.privacy.ledger.ledger import Ledger

def wait(*args, **kwargs):
    print("reached", file=sys.stderr, flush=True)
    time.sleep(600)

setattr(Ledger, sys.argv.pop(1), wait)
main()
"""


def stop_at(scene: Scene, place: str, number: int) -> tuple[int, str]:
    """Send a signal to a publish that has reached a method of its ledger."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, place, *scene.publish()],
        env={"TMPDIR": str(scene.temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline() == "reached\n"
        process.send_signal(number)
        said = process.stderr.read()
        return process.wait(timeout=300), said


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
@pytest.mark.parametrize("charged", [True, False])
def test_a_stopped_publish_says_whether_it_was_charged(
    number: int, code: int, word: str, charged: bool, scene: Scene
) -> None:
    place = "leave_receipt" if charged else "require_receipt"  # right after the charge, or before
    ended, said = stop_at(scene, place, number)
    assert ended == code, said
    assert said.startswith(f"hushtable: {word}.\n")
    entries = Ledger.open(scene.ledger).entries()
    if charged:
        (entry,) = entries
        assert f"Entry {entry.id} of the ledger was charged" in said
        assert "The charge remains" in said
    else:
        assert entries == ()
        assert "Nothing was charged" in said
    assert "Traceback" not in said
    assert hidden(scene.releases) == []
    assert not (scene.releases / "r").exists()


COUNTING = """
import sys
from hushtable.cli.app import main
from hushtable.engine.sealed_table import SealedTable

count = SealedTable.publish_cells

def counting(*args, **kwargs):
    print("reached", file=sys.stderr, flush=True)
    return count(*args, **kwargs)

SealedTable.publish_cells = counting
main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_publish_that_is_stopped_while_duckdb_counts_says_that_the_charge_stands(
    number: int, code: int, scene: Scene
) -> None:
    """DuckDB converts an interrupt into its own error."""
    pq.write_table(marked_rows(3_000_000), scene.private / "large.parquet")
    words = scene.publish(data="large.parquet", engine="duckdb")
    with subprocess.Popen(
        [sys.executable, "-c", COUNTING, *words], env={"TMPDIR": str(scene.temporary)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline() == "reached\n"
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait(timeout=300) == code, said
    assert "The charge remains" in said
    assert "internal error" not in said
    assert hidden(scene.releases) == []


# Runs the command line with a signal at a time that a test cannot reliably hit from outside.
AT_MOMENT = """
import signal, sys
from hushtable.cli.app import main
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.release.writer import ReleaseWriter

where = {"charge": Ledger, "mark_released": Ledger, "move_into_place": ReleaseWriter}
name = sys.argv.pop(1)
original = getattr(where[name], name)

def interrupted(*args, **kwargs):
    result = original(*args, **kwargs)
    signal.raise_signal(signal.SIGINT)
    return result

setattr(where[name], name, interrupted)
main()
"""


@pytest.mark.parametrize("moment", ["charge", "mark_released", "move_into_place"])
def test_a_signal_while_something_is_recorded_waits_until_it_is_known(
    moment: str, scene: Scene
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_MOMENT, moment, *scene.publish()],
        env={"TMPDIR": str(scene.temporary)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    (entry,) = Ledger.open(scene.ledger).entries()
    assert hidden(scene.releases) == []
    if moment == "charge":
        assert done.returncode == 130
        assert "The charge remains" in done.stderr
        assert entry.status == "charged"
    else:  # the charge is marked as released, so the release must appear
        assert scene.check() == 1
        assert entry.status == "released"
        assert "do not publish it again" in done.stderr
        assert done.returncode in (0, 130)


# --- after the release is complete ----------------------------------------------------------------

COMMAND = [sys.executable, "-m", "hushtable.cli.app"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_summary_that_cannot_be_printed_does_not_fail_a_complete_release(scene: Scene) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*COMMAND, *scene.publish(), "--json"], env={"TMPDIR": str(scene.temporary)},
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the release is complete" in done.stderr
    assert "do not publish it again" in done.stderr
    assert "internal error" not in done.stderr
    assert "Exception" not in done.stderr
    assert scene.check() == 1


def test_a_reader_that_went_away_does_not_fail_a_complete_release(scene: Scene) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, *scene.publish(), "--json"], env={"TMPDIR": str(scene.temporary)},
            stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert done.returncode == 0, done.stderr
    assert "the release is complete" in done.stderr
    assert scene.check() == 1


FAILING = """
import sys
from hushtable.cli.app import main
from hushtable.release.release import Release

def fail(self):
    raise MemoryError("a private value")

setattr(Release, sys.argv.pop(1), property(fail))
main()
"""


@pytest.mark.parametrize("name", ["rows_out", "n_rows"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_rows_that_cannot_be_counted_do_not_fail_a_complete_release(
    name: str, options: list[str], scene: Scene
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILING, name, *scene.publish(), *options],
        env={"TMPDIR": str(scene.temporary)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the release is complete" in done.stderr
    assert "MemoryError" in done.stderr
    assert "private value" not in done.stderr
    assert scene.check() == 1
    if options:
        assert json.loads(done.stdout)["rows_out"] is None
    else:
        assert "Published to" in done.stdout


def test_the_workbench_calls_a_job_done_whose_rows_cannot_be_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from hushtable.web import job_process
    from hushtable.web.workbench import Project, fingerprint

    project = Project(tmp_path)
    project.schema_path.write_text((scene.private / "schema.yaml").read_text())
    Ledger.create(project.ledger_path, epsilon=1, delta="1e-4", schema=project.schema())

    def fail(self: Release) -> int:
        raise MemoryError("a private value")

    monkeypatch.setattr(Release, "rows_out", property(fail))
    result = job_process._publish(
        project,
        {
            "data": str(scene.private / "data.csv"), "schema": fingerprint(project.schema()),
            "method": "noisy-counts", "name": "r", "purpose": "", "rows": None, "anyway": True,
            "parameters": {"epsilon": "0.1", "delta": "1e-9", "k": "2"}, "same_people": None,
        },
        lambda what, share: None,
    )  # fmt: skip
    assert result["rows_out"] is None
    assert "MemoryError" in result["warnings"][-1]
    assert "private value" not in result["warnings"][-1]
