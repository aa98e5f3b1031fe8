"""The real pages in a real browser: from a CSV file to a downloaded release, with crashes.

axe-core, an accessibility checker, is downloaded from the npm registry if npm is available.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from browser import CHROMIUM, Browser
from hushtable.datasets import sample, sample_schema
from hushtable.methods import NoisyCounts
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.schema import Schema

from .visitor import KeyboardVisitor, Server, Visitor, require_in_hand, walk_to_publishing

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.xdist_group("browser"),
]

SCREENS = [
    "/", "/p/visits/", "/p/visits/data", "/p/visits/schema", "/p/visits/schema/tree?column=region",
    "/p/visits/ledger", "/p/visits/plan?rows=12000", "/p/visits/dry-run", "/p/visits/publish",
    "/p/visits/advisor?use=rows&who=public&rows=12000", "/p/visits/report",
    "/p/visits/jobs/0001", "/p/nowhere/",
    "/p/visits/releases/visits-1/look/?1#by=diagnosis&by=sex",
]  # fmt: skip
EARLY = [
    *(f"/p/empty/{name}" for name in ("", "data", "schema", "ledger", "plan", "dry-run")),
    *(f"/p/empty/{name}" for name in ("publish", "report", "advisor")),
    *(f"/p/fresh/{name}" for name in ("schema", "ledger", "publish", "advisor")),
]
"""Screens of new projects: nothing selected, or nothing confirmed."""
EVIL = "<img src=x onerror=document.title='broken'>"


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Visitor, Path]]:
    """Publish by clicking, while the server is killed and the browser closed."""
    folder = tmp_path_factory.mktemp("workbench")
    pa_csv.write_csv(sample(), folder / "visits.csv")
    server = Server("workbench", folder, "--no-browse")
    with Browser() as first:
        visitor = Visitor(first, server)
        walk_to_publishing(visitor, folder)
        visitor.send("form[action$='/publish']", typed="visits-1", purpose="yearly table")
        server.stop(kill=True)
    # Browser and server are gone; the job continues.
    server = Server("workbench", folder, "--no-browse")
    with Browser() as second:
        visitor = Visitor(second, server)
        visitor.go("/p/visits/jobs/0002")
        assert visitor.finish_job() == "done", visitor.text
        begin_others(folder)
        yield visitor, folder
    server.stop()


def begin_others(folder: Path) -> None:
    """Create an empty project, and one with an unconfirmed schema."""
    drafted = sample_schema().to_dict()
    for name in ("age", "sex"):
        drafted["columns"][name]["confirm"] = ["missing", "outside"]
    for name, settings in (("empty", {}), ("fresh", {"data": str(folder / "visits.csv")})):
        (folder / name).mkdir()
        (folder / name / "project.json").write_text(json.dumps(settings))
    (folder / "fresh" / "schema.yaml").write_text(json.dumps(drafted))


def test_the_release_is_downloaded_and_charged(
    workbench: tuple[Visitor, Path], tmp_path: Path
) -> None:
    require_in_hand(*workbench, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("view", [{"dark": True}, {"width": 400}], ids=["dark", "400px"])
def test_the_whole_workflow_works_with_the_keyboard(tmp_path: Path, view: dict[str, Any]) -> None:
    folder = tmp_path / "workbench"
    folder.mkdir()
    pa_csv.write_csv(sample(), folder / "visits.csv")
    server = Server("workbench", folder, "--no-browse")
    try:
        with Browser() as browser:
            visitor = KeyboardVisitor(browser, server, **view)
            walk_to_publishing(visitor, folder)
            visitor.send("form[action$='/publish']", typed="visits-1")
            assert visitor.finish_job() == "done", visitor.text
            dark = browser.value("matchMedia('(prefers-color-scheme: dark)').matches")
            assert (dark, browser.value("innerWidth")) == (
                "dark" in view, view.get("width", 1000),
            )  # fmt: skip
            require_in_hand(visitor, folder, tmp_path)
    finally:
        server.stop()


def test_the_plan_follows_the_slider(workbench: tuple[Visitor, Path]) -> None:
    visitor, _ = workbench
    visitor.go("/p/visits/plan?method=quilt&rows=12000")
    before = visitor.text
    visitor.browser.value(
        "(() => { const slider = document.getElementById('s-epsilon'); slider.value = -1;"
        " slider.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    visitor.until("document.querySelector('#live').innerText", lambda text: "= 0.1" in text)
    assert "= 0.1" not in before
    assert visitor.browser.value("document.getElementById('f-epsilon').value") == "0.1"


def test_an_integer_slider_gives_integers(workbench: tuple[Visitor, Path]) -> None:
    visitor, _ = workbench
    visitor.go("/p/visits/plan?method=noisy-counts&rows=12000")
    for place, number in (("0.35", "2"), ("1.65", "45"), ("2.5", "320")):
        shown = visitor.browser.value(
            "(() => { const slider = document.getElementById('s-k');"
            f" slider.value = {place}; slider.dispatchEvent(new Event('input', {{bubbles: true}}));"
            " return document.getElementById('f-k').value; })()"
        )
        assert shown == number
    visitor.until("document.querySelector('#live').innerText", lambda text: "--k 320" in text)


def test_a_value_is_dragged_into_a_group(workbench: tuple[Visitor, Path]) -> None:
    visitor, folder = workbench
    visitor.go("/p/visits/schema/tree?column=region")
    visitor.browser.value(
        "(() => { const form = document.querySelector('[name=members]').form;"
        " form.elements.members[0].checked = true; form.elements.label.value = 'coast';"
        " })()"
    )
    visitor.browser.events.clear()
    visitor.browser.value("document.querySelector('[name=members]').form.requestSubmit()")
    visitor.browser.wait_for_load()
    visitor.browser.events.clear()
    visitor.browser.value(
        "(() => { const data = new DataTransfer();"
        " const say = (kind, at) => at.dispatchEvent("
        "   new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: data}));"
        " const leaf = [...document.querySelectorAll('[data-node]')]"
        "   .find(node => node.innerText.trim() === 'harbor');"
        " const group = document.querySelector('[data-group=\"0\"]');"
        " say('dragstart', leaf); say('dragover', group); say('drop', group); })()"
    )
    visitor.browser.wait_for_load()
    assert (
        "- coast:\n        - bay\n        - harbor"
        in (folder / "visits" / "schema.yaml").read_text()
    )
    visitor.go("/p/visits/schema")
    for _ in range(2):
        visitor.send("form[action$='/undo']")
    assert "coast" not in (folder / "visits" / "schema.yaml").read_text()


@pytest.mark.parametrize(
    "view",
    [{}, {"dark": True}, {"width": 400}, {"width": 500}],
    ids=["wide", "dark", "400px", "zoomed to 200 %"],
)
def test_every_screen_is_complete(workbench: tuple[Visitor, Path], view: dict[str, Any]) -> None:
    visitor, _ = workbench
    for screen in (*SCREENS, *(EARLY if "width" in view else ())):
        visitor.go(screen, **view)
        told = [entry for entry in visitor.browser.complaints if "400 (Bad" not in str(entry)]
        assert not told, (screen, told)
        assert all(asked.startswith(visitor.server.root) for asked in visitor.browser.requests)
        wide = visitor.browser.value("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, screen
        # htmx stores the path of the page; the browser stores nothing else.
        kept = visitor.browser.value(
            "JSON.stringify([...Object.entries(localStorage), ...Object.entries(sessionStorage)])"
        )
        if "/look/" not in screen:  # a page of its own, without htmx
            assert json.loads(kept) in ([], [["htmx-current-path-for-history", screen]])


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on this machine, so axe-core cannot be had")
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run(
            [npm, "pack", "axe-core"], cwd=folder, check=True, capture_output=True, timeout=120
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip("npm cannot get axe-core here")
    with tarfile.open(next(folder.glob("axe-core-*.tgz"))) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def violations(visitor: Visitor, axe: str) -> list[tuple[str, str, Any]]:
    visitor.browser.value(f"{axe}; 0")
    found = visitor.browser.value(
        "axe.run().then(found => JSON.stringify(found.violations.map("
        "one => [one.id, one.impact, one.nodes.map(node => node.html).slice(0, 3)])))"
    )
    return [tuple(one) for one in json.loads(found) if one[1] in {"serious", "critical"}]


BUSY = "document.getElementById('answer').getAttribute('aria-busy')"


@pytest.mark.long
@pytest.mark.parametrize(
    "view", [{}, {"dark": True}, {"width": 400}], ids=["light", "dark", "400px"]
)
def test_axe_finds_nothing_serious(
    workbench: tuple[Visitor, Path], axe: str, view: dict[str, Any]
) -> None:
    visitor, folder = workbench
    found = {}
    for screen in (*SCREENS, *EARLY):
        visitor.go(screen, **view)
        if screen.endswith("/schema"):
            checked = "document.querySelector('#check')?.innerText ?? ''"
            visitor.until(checked, lambda text: "…" not in text)
        if wrong := violations(visitor, axe):
            found[screen] = wrong
    server = Server("serve", folder / "visits" / "releases" / "visits-1")
    try:
        for query in ("in=sex:0&by=diagnosis", "by=diagnosis&by=sex", "where=nonsense+("):
            visitor.browser.open(f"{server.root}/?{query}#{query}", **view)
            visitor.until(BUSY, lambda busy: busy == "false")
            if wrong := violations(visitor, axe):
                found[f"analyst {query}"] = wrong
    finally:
        server.stop()
    assert found == {}


def test_the_grid_is_sorted_by_a_click(workbench: tuple[Visitor, Path]) -> None:
    visitor, _ = workbench
    visitor.go("/p/visits/schema")
    lines = (
        "JSON.stringify([...document.querySelector('#grid').tBodies].map(body =>"
        " [...body.querySelectorAll('tr:not(.group) th')].map(one => one.innerText)))"
    )
    for direction in (False, True):
        visitor.browser.value("document.querySelector('[data-sort=\"1\"]').click()")
        for names in json.loads(visitor.browser.value(lines)):
            assert names == sorted(names, key=str.lower, reverse=direction)


def test_an_analyst_queries_by_clicking(workbench: tuple[Visitor, Path]) -> None:
    visitor, folder = workbench
    release = folder / "visits" / "releases" / "visits-1"
    server = Server("serve", release)
    try:
        visitor.browser.open(server.root + "/", width=400)
        visitor.browser.value(
            "(() => { const column = document.querySelector('#filters select');"
            " column.value = 'sex'; column.dispatchEvent(new Event('change', {bubbles: true}));"
            " document.querySelector('#filters input').click();"
            " document.getElementById('by').value = '';"
            " document.getElementById('by').dispatchEvent(new Event('change', {bubbles: true}));"
            "})()"
        )
        visitor.until(
            "document.querySelector('#answer').innerText", lambda text: "where sex = 'F'" in text
        )
        answer = Release.load(release).count("sex = 'F'")
        assert f"{answer.value:,.0f}" in visitor.text
        assert "hushtable query 'visits-1'" in visitor.text
        assert visitor.browser.value("location.hash") == "#in=sex%3A0"
        assert visitor.browser.value("document.documentElement.scrollWidth") <= 400
        assert not visitor.browser.complaints
        visitor.browser.open(server.root.replace("127.0.0.1", "evil.localhost") + "/")
        assert "does not accept requests under this host name" in visitor.text
    finally:
        server.stop()


def test_markup_from_a_table_runs_nowhere(workbench: tuple[Visitor, Path]) -> None:
    visitor, folder = workbench
    (folder / "evil.csv").write_text(f'age,"{EVIL}"\n1,a\n2,b\n')
    visitor.go("/")
    visitor.send("form[action='/projects']", name="evil")
    visitor.send("form[action$='/data']", path=str(folder / "evil.csv"))
    (folder / "evil" / "schema.yaml").write_text(json.dumps({
        "name": EVIL, "columns": {EVIL: {"type": "categorical", "values": [EVIL, "b"]}},
    }))  # fmt: skip
    publish(
        pa.table({EVIL: [EVIL, "b"] * 50}), Schema.load(folder / "evil" / "schema.yaml"),
        NoisyCounts(epsilon=2, mechanism="pure"), out=folder / "evil" / "releases" / "one",
    )  # fmt: skip
    named = quote(EVIL)
    for screen in (
        "data", "schema", f"schema/tree?column={named}", "plan?method=quilt", "ledger", "publish",
        "report", f"releases/one/look/?1#by={named}", f"releases/one/look/?2#where={named}",
    ):  # fmt: skip
        visitor.go(f"/p/evil/{screen}")
        if "/look/" in screen:
            visitor.until(BUSY, lambda busy: busy == "false")
            assert EVIL in visitor.text
        assert visitor.browser.value("document.querySelectorAll('img').length") == 0
        assert visitor.browser.value("document.title") != "broken"
    visitor.go("/p/evil/data")
    assert EVIL in visitor.text
