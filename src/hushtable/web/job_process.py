"""Process of one job: ``python -m hushtable.web.job_process FOLDER``.

It calls the same functions as the command line and writes its progress and its result. It reports
errors of hushtable in full, but only the type of other errors, because their messages may contain
private values.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hushtable.engine.sources.header import is_address
from hushtable.errors import HushtableError, HushtableWarning, OwnNote, ParameterError
from hushtable.files.progress import Progress, phase_of
from hushtable.files.writing import held_on_to, is_spilled
from hushtable.web import words
from hushtable.web.jobs import Job, write_json
from hushtable.web.workbench import Project, fingerprint

_EVERY = 0.2  # seconds between two progress updates


class _JobLog:
    """Writer of the job's state."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "state.json"
        self.content: dict[str, Any] = {
            "status": "running", "pid": os.getpid(), "started": time.time(), "phase": "",
            "share": 0.0, "done": "", "phases": [],
        }  # fmt: skip
        self._last = 0.0
        self.write()

    def note(self, what: str, share: float) -> None:
        """Record the current phase and its progress."""
        phase, done = phase_of(what)
        new = phase != self.content["phase"]
        if new:
            seen = [known for known in self.content["phases"] if known != phase]
            self.content |= {"phase": phase, "phases": [*seen, phase]}
        self.content |= {"share": share, "done": done}
        if new or time.monotonic() - self._last > _EVERY:
            self.write()

    def end(self, status: str, problems: list[str], **result: Any) -> None:
        """Write the final status and the result."""
        self.content |= {"status": status, "problems": problems, "ended": time.time(), **result}
        self.write()

    def write(self) -> None:
        """Write the state to disk."""
        self._last = time.monotonic()
        with contextlib.suppress(OSError):  # a full disk must not abort a charged run
            write_json(self._path, self.content)


def main(folder: Path) -> None:
    """Run the job of a folder."""
    # If a shell starts the workbench in the background, it ignores interrupts, and its child
    # processes inherit this. Without the next line, jobs could not be canceled.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # removes a partial release
    log = _JobLog(folder)
    try:
        job = Job(folder)
        result = _KINDS[job.kind](Project(Path(job.what["project"])), job.what, log.note)
        log.end("done", [], **result)
    except HushtableError as error:
        log.end("refused", list(error.problems))
    except KeyboardInterrupt as error:
        log.end("canceled", [words.JOB_CANCELED, *_notes(error)])
    except Exception as error:
        told = words.INTERNAL_ERROR.format(kind=type(error).__name__)
        log.end("failed", [told, *_notes(error)])


def _notes(error: BaseException) -> list[str]:
    return [note for note in getattr(error, "__notes__", ()) if isinstance(note, OwnNote)]


# --- kinds of jobs --------------------------------------------------------------------------------


def _table(what: dict[str, Any]) -> str:
    """Return the path or address of the private table that the job was started for."""
    if is_address(what["data"]):
        return str(what["data"])
    path = Path(what["data"])
    return str(held_on_to(path) if is_spilled(path) else path)


def _draft(project: Project, what: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from hushtable.drafting import drafted  # noqa: PLC0415 - each job imports only what it needs
    from hushtable.drafting.schema_editor import SchemaFile  # noqa: PLC0415
    from hushtable.schema.file_format import FileFormat  # noqa: PLC0415

    progress(words.PHASE_DRAFT, 0.0)
    reading = FileFormat(sheet=what.get("sheet") or None)
    made = drafted(_table(what), reading=reading, codebook=what.get("codebook", ()))
    text = words.DRAFT_HEADER + made.to_yaml()
    SchemaFile(project.schema_path, project.folder / "history").replace(text)
    return {}


def _publish(project: Project, what: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from hushtable.publishing.publish import publish  # noqa: PLC0415
    from hushtable.web.forms import make_method  # noqa: PLC0415

    begun, schema = time.monotonic(), project.schema()
    if fingerprint(schema) != what["schema"]:
        raise ParameterError(words.PLAN_CHANGED)
    with warnings.catch_warnings(record=True) as heard:
        release = publish(
            _table(what),
            schema,
            make_method(what["method"], what["parameters"]),
            out=project.subfolder("releases") / what["name"],
            ledger=project.ledger_path,
            purpose=what["purpose"],
            rows=what["rows"],
            anyway=what["anyway"],
            same_people=what["same_people"],
            progress=progress,
        )
    seconds = time.monotonic() - begun
    told = [str(w.message) for w in heard if issubclass(w.category, HushtableWarning)]
    try:
        n_rows = release.rows_out
    except Exception as error:  # the release is complete, so the job is done
        n_rows = None
        told.append(words.ROWS_NOT_COUNTED.format(kind=type(error).__name__))
    return {
        "release": release.folder.name, "publish_seconds": seconds, "rows_out": n_rows,
        "warnings": told,
    }  # fmt: skip


def _dry_run(project: Project, what: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from hushtable.evaluation.evaluate import evaluate  # noqa: PLC0415
    from hushtable.publishing.publish import publish  # noqa: PLC0415
    from hushtable.publishing.surrogate import make_surrogate, surrogate_schema  # noqa: PLC0415
    from hushtable.web.forms import make_method  # noqa: PLC0415

    folder = project.subfolder("dry-runs") / what["name"]
    folder.mkdir(mode=0o700)
    schema = surrogate_schema(project.schema())
    table: Any = what.get("table")
    if not table:
        progress(words.PHASE_STAND_IN, 0.0)
        table = make_surrogate(schema, what["rows"])
    method = make_method(what["method"], what["parameters"])
    begun = time.monotonic()
    release = publish(table, schema, method, out=folder / "release", progress=progress)
    seconds = time.monotonic() - begun
    found = evaluate(release, table, n_repeats=1, questions=10, progress=progress)
    replace(found, internal=words.REPORT_OF_DRY_RUN).write_html(folder / "report.html")
    return {"dry_run": what["name"], "publish_seconds": seconds}


def _evaluate(project: Project, what: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from hushtable.evaluation.evaluate import evaluate  # noqa: PLC0415

    found = evaluate(
        project.folder / "releases" / what["release"],
        _table(what),
        command=what["command"],
        progress=progress,
    )
    found.write_html(project.subfolder("reports") / what["name"])
    return {"report": what["name"]}


def _compare(project: Project, what: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from hushtable.evaluation.compare import compare  # noqa: PLC0415

    found = compare(
        _table(what),
        [project.folder / "releases" / name for name in what["releases"]],
        command=what["command"],
        progress=progress,
    )
    found.write_html(project.subfolder("reports") / what["name"])
    return {"report": what["name"]}


def _dossier(project: Project, what: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from hushtable.dossier import make_dossier  # noqa: PLC0415
    from hushtable.dossier.seal import write_dossier  # noqa: PLC0415

    out = project.subfolder("reports") / what["name"]
    releases = [project.folder / "releases" / name for name in what["releases"]]
    ledger = project.ledger_path if project.ledger_path.exists() else None
    write_dossier(out, make_dossier(releases, ledger=ledger, beside=out.parent))
    return {"report": what["name"]}


_KINDS: dict[str, Callable[[Project, dict[str, Any], Progress], dict[str, Any]]] = {
    "draft": _draft,
    "publish": _publish,
    "dry-run": _dry_run,
    "evaluate": _evaluate,
    "compare": _compare,
    "dossier": _dossier,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
