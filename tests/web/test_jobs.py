"""Jobs continue without the browser and the workbench, and report how they ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from browser import PATIENCE
from hushtable.datasets import sample_schema
from hushtable.errors import HushtableWarning, ParameterError, Refused
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.schema import Schema
from hushtable.web import job_process, words
from hushtable.web.jobs import MAX_RUNNING, Job, Jobs, write_json
from hushtable.web.workbench import fingerprint

from .workbench_client import WorkbenchClient, problems

SLOW = """
import sys, time, pathlib
from hushtable.web import job_process
def work(project, what, progress):
    progress("counting", 0.5)
    (project.folder / "begun").touch()
    for _ in range(6000):  # a signal just before one long sleep would be answered after it
        time.sleep(0.1)
    return {}
job_process._KINDS["draft"] = work
job_process.main(pathlib.Path(sys.argv[1]))
"""


def wait_for(path: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.05)


@pytest.fixture
def slow(project: WorkbenchClient, monkeypatch: pytest.MonkeyPatch) -> WorkbenchClient:
    """A workbench whose drafts take ten minutes."""
    start = subprocess.Popen

    def popen(command: list[str], **more: object) -> subprocess.Popen[bytes]:
        if "hushtable.web.job_process" in command:
            command = [sys.executable, "-c", SLOW, command[-1]]
        return start(command, **more)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr("hushtable.web.jobs.subprocess.Popen", popen)
    return project


def job_of(workbench: WorkbenchClient) -> Job:
    return Jobs().all(workbench.app.state.bench.project("visits"))[-1]


def test_a_job_continues_after_its_workbench_stops(slow: WorkbenchClient) -> None:
    slow.post("/p/visits/draft")
    wait_for(slow.folder / "visits" / "begun")
    restarted = WorkbenchClient(slow.folder)  # another program, another token, the same folder
    page = restarted.get("/p/visits/jobs/0001").text
    assert 'data-status="running"' in page
    assert "Reading the table" in page
    job = job_of(restarted)
    assert os.getsid(job.state["pid"]) != os.getsid(0)  # Ctrl-C in the workbench does not reach it
    restarted.post("/p/visits/jobs/0001/cancel")
    assert restarted.finish(restarted.get("/p/visits/jobs/0001")) == "canceled"


def test_a_job_of_a_background_workbench_can_be_canceled(slow: WorkbenchClient) -> None:
    """Background programs of a shell ignore interrupts, and so do their child processes."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        slow.post("/p/visits/draft")
    finally:
        signal.signal(signal.SIGINT, before)
    wait_for(slow.folder / "visits" / "begun")
    slow.post("/p/visits/jobs/0001/cancel")
    assert slow.finish(slow.get("/p/visits/jobs/0001")) == "canceled"


def test_a_slowly_starting_job_counts_as_alive(
    project: WorkbenchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen
    idle = "import time; time.sleep(600)"
    made: list[subprocess.Popen[bytes]] = []

    def popen(command: list[str], **more: object) -> subprocess.Popen[bytes]:
        made.append(start([sys.executable, "-c", idle], **more))  # type: ignore[call-overload]
        return made[0]

    monkeypatch.setattr("hushtable.web.jobs.subprocess.Popen", popen)
    monkeypatch.setattr("hushtable.web.jobs.time.time", lambda: 0.0)  # started long ago
    job = Jobs().start(project.app.state.bench.project("visits"), "draft")
    assert job.state["status"] == "starting"
    made[0].kill()
    made[0].wait()
    assert job.state["status"] == "killed"


def test_a_killed_job_is_reported(slow: WorkbenchClient) -> None:
    slow.post("/p/visits/draft")
    wait_for(slow.folder / "visits" / "begun")
    job = job_of(slow)
    os.kill(job.state["pid"], signal.SIGKILL)
    assert slow.finish(slow.get("/p/visits/jobs/0001")) == "killed"
    assert "a charge that was recorded remains" in slow.get("/p/visits/jobs/0001").text
    with pytest.raises(ParameterError, match="already ended"):
        job.cancel()


def test_jobs_are_limited(slow: WorkbenchClient) -> None:
    for _ in range(MAX_RUNNING):
        slow.post("/p/visits/draft")
    answer = slow.post("/p/visits/draft")
    assert answer.status_code == 409
    assert "are running; the limit is" in problems(answer)[0]
    project = slow.app.state.bench.project("visits")
    with pytest.raises(Refused):
        Jobs().start(project, "draft")
    for job in Jobs().all(project):
        wait_for(job.folder / "state.json")
        until = time.monotonic() + PATIENCE
        while not job.is_over and time.monotonic() < until:
            with contextlib.suppress(ParameterError):  # it may end between the two reads
                job.cancel()
            time.sleep(0.2)
        assert job.is_over


def test_another_process_is_never_signaled(project: WorkbenchClient) -> None:
    folder = project.folder / "visits" / "jobs" / "0001"
    folder.mkdir(parents=True)
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        write_json(folder / "job.json", {"kind": "draft", "begun": time.time()})
        write_json(folder / "state.json", {"status": "running", "pid": bystander.pid})
        (folder / "held").touch()  # not locked: the job's process is gone
        assert Job(folder).state["status"] == "killed"
        assert project.post("/p/visits/jobs/0001/cancel").status_code == 400
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_file_of_the_project_is_never_run(project: WorkbenchClient) -> None:
    for name in ("json", "numpy", "hushtable"):
        (project.folder / "visits" / f"{name}.py").write_text("raise SystemExit(1)")
    assert project.finish(project.post("/p/visits/draft")) == "done"


def test_an_upload_lasts_as_long_as_the_job_that_reads_it(slow: WorkbenchClient) -> None:
    content = (slow.folder / "visits.csv").read_bytes()
    slow.browser.post(
        "/p/visits/upload", data={"csrf": slow.csrf()}, files={"file": ("visits.csv", content)}
    )
    upload = Path(slow.app.state.bench.project("visits").data)
    code = "import sys, pathlib; from hushtable.web.job_process import _table\n"
    code += "path = pathlib.Path(_table({'data': sys.argv[1]})); print(path, flush=True)\n"
    code += "input(); print(len(path.read_bytes()))"
    job = subprocess.Popen(
        [sys.executable, "-c", code, str(upload)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stdin is not None
    assert job.stdout is not None
    held = Path(job.stdout.readline().strip())
    assert held != upload
    assert held.parent.stat().st_mode & 0o077 == 0
    upload.unlink()  # as if the workbench was closed
    job.stdin.write("\n")
    job.stdin.close()
    assert int(job.stdout.readline()) == len(content)
    job.wait(PATIENCE)
    assert not held.exists()


def test_a_refusal_of_a_job_is_shown_in_full(project: WorkbenchClient) -> None:
    table = project.folder / "visits.csv"
    table.write_text("other\n1\n")
    answer = project.publish("visits", "visits-1")
    assert project.finish(answer) == "refused"
    told = project.get(answer.url.path)
    assert any("'age'" in problem for problem in problems(told))
    assert not Ledger.open(project.folder / "visits" / "table.ledger").entries()


@pytest.mark.parametrize("number", ["9", "x", "0001"])
def test_an_unknown_job_is_refused(project: WorkbenchClient, number: str) -> None:
    assert project.get(f"/p/visits/jobs/{number}").status_code in {400, 404}


def made_job(
    workbench: WorkbenchClient, number: str, what: dict[str, Any], state: dict[str, Any]
) -> Job:
    folder = workbench.folder / "visits" / "jobs" / number
    folder.mkdir(parents=True)
    write_json(folder / "job.json", {"begun": time.time(), **what})
    write_json(folder / "state.json", state)
    return Job(folder)


def test_the_remaining_time_is_estimated_from_the_last_similar_run(
    project: WorkbenchClient,
) -> None:
    bench_project = project.app.state.bench.project("visits")
    state = {"status": "done", "started": 100.0, "ended": 180.0}
    made_job(project, "0001", {"kind": "dry-run", "method": "quilt"},
             {**state, "publish_seconds": 12.5})  # fmt: skip
    made_job(project, "0002", {"kind": "evaluate"}, {**state, "ended": 130.0})
    made_job(project, "0003", {"kind": "evaluate"}, {"status": "canceled", "started": 1.0})

    def before(**what: str) -> float | None:
        job = made_job(project, f"{time.monotonic_ns()}", what, {"status": "running"})
        return Jobs().seconds_before(bench_project, job)

    assert before(kind="publish", method="quilt") == 12.5
    assert before(kind="dry-run", method="quilt") == 80.0
    assert before(kind="publish", method="partition") is None
    assert before(kind="evaluate") == 30.0  # a canceled one is not used


def test_a_running_job_shows_phase_counts_and_time_left(
    project: WorkbenchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushtable.web.pages.jobs.time.time", lambda: 1000.0)
    job = made_job(
        project, "0001", {"kind": "publish", "method": "quilt"},
        {"status": "running", "started": 700.0, "phase": "counting",
         "done": "12 noisy answers", "share": 0.5, "phases": ["counting"]},
    )  # fmt: skip
    with (job.folder / "held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        text = project.get("/p/visits/jobs/0001/state").text
        assert "adding noise" in text
        assert "12 noisy answers" in text
        assert 'value="0.5"' in text
        assert "5 min elapsed. About 5 min remaining at the current rate." in text
        made_job(project, "0002", {"kind": "dry-run", "method": "quilt"},
                 {"status": "done", "publish_seconds": 900})  # fmt: skip
        text = project.get("/p/visits/jobs/0001/state").text
        assert "About 10 min remaining, judging by the last run" in text


def test_only_the_displayed_plan_is_published(project: WorkbenchClient) -> None:
    """If the schema was changed in another window, nothing is charged."""
    folder = project.folder / "visits"
    page = project.get("/p/visits/publish?name=one").text
    seen = re.search(r'name="seen" value="(\w+)"', page)
    assert seen is not None
    other = sample_schema().to_dict()
    other["columns"]["age"] |= {"outside": "refuse"}  # the ledger treats it as the same table
    assert Schema.from_dict(other).digest == sample_schema().digest
    (folder / "schema.yaml").write_text(Schema.from_dict(other).to_yaml())
    answer = project.post("/p/visits/publish", name="one", typed="one", seen=seen[1])
    assert words.PLAN_CHANGED in problems(answer)
    # Or between the button and the process that it starts.
    job = Jobs().start(
        project.app.state.bench.project("visits"), "publish",
        data=str(project.folder / "visits.csv"), schema=fingerprint(sample_schema()),
        method="quilt", parameters={"epsilon": 1}, name="one", purpose="", rows=None, anyway=False,
        same_people=None,
    )  # fmt: skip
    assert project.finish(project.get(f"/p/visits/jobs/{job.id}")) == "refused"
    assert words.PLAN_CHANGED in problems(project.get(f"/p/visits/jobs/{job.id}"))
    assert not Ledger.open(folder / "table.ledger").entries()


def test_a_job_records_the_counts_of_its_run(project: WorkbenchClient) -> None:
    answer = project.publish("visits", "visits-1")
    assert project.finish(answer) == "done"
    state = job_of(project).state
    assert state["phases"] == ["planning", "charging", "counting", "writing", "done"]
    assert (state["phase"], state["share"]) == ("done", 1.0)


def test_warnings_of_a_run_are_shown_at_the_end(
    project: WorkbenchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish(*_: Any, out: Path, **__: Any) -> Any:
        warnings.warn("<the fit went wrong>", HushtableWarning, stacklevel=1)
        warnings.warn("another library's", RuntimeWarning, stacklevel=1)
        return SimpleNamespace(folder=out, rows_out=7)

    monkeypatch.setattr("hushtable.publishing.publish.publish", publish)
    bench_project = project.app.state.bench.project("visits")
    what = {"data": "visits.csv", "schema": fingerprint(bench_project.schema()), "name": "one",
            "method": "quilt", "parameters": {"epsilon": 1}, "purpose": "", "rows": None,
            "anyway": False, "same_people": None}  # fmt: skip
    result = job_process._publish(bench_project, what, lambda *_: None)
    assert result["warnings"] == ["<the fit went wrong>"]
    made_job(project, "0001", {"kind": "publish", **what},
             {"status": "done", "started": 100.0, "ended": 180.0, **result})  # fmt: skip
    text = project.get("/p/visits/jobs/0001/state").text
    assert '<p class="warning">&lt;the fit went wrong&gt;</p>' in text
