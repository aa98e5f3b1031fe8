"""Make the pictures of the workbench from the embedded sample: every screen, in a real browser.

``PYTHONPATH=tests python docs/screenshots.py FOLDER`` writes them light, dark, narrow and zoomed;
without FOLDER only those that the documents show are written, to ``docs/images``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
from PIL import Image

from browser import PATIENCE, Browser
from hushtable.datasets import sample
from hushtable.web import words

IMAGES = Path(__file__).parent / "images"
SHOWN = (
    "projects", "overview", "data", "schema", "tree", "ledger", "plan", "advisor", "dry-run",
    "publish", "progress", "report", "analyst",
)  # fmt: skip
VIEWS: dict[str, dict[str, Any]] = {
    "": {}, "-dark": {"dark": True}, "-narrow": {"width": 400},
    "-zoomed": {"width": 640},  # what 200 % leaves of a window of 1280
}  # fmt: skip
WAITING = ("Computing …", words.CHECKING)  # a page that is not whole yet says so
_COLORS = 96  # of a small picture


class Workbench:
    """A workbench in a process of its own, and a browser that uses it as a person would."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser = browser
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hushtable.cli.app", "workbench", str(folder), "--no-browse"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.address = address_of(self.process)
        self.root = self.address.split("/?")[0]

    def submit(self, selector: str, **fields: str) -> None:
        """Fill in fields of a form, press its button, and wait for the next page."""
        for name, value in fields.items():
            field = json.dumps(f'{selector} [name="{name}"]')
            self.browser.value(f"document.querySelector({field}).value = {json.dumps(value)}")
        self.browser.events.clear()
        self.browser.value(
            f"document.querySelector({json.dumps(selector + ' button:not([type=button])')}).click()"
        )
        self.browser.wait_for_load()

    def see_progress(self) -> None:
        """Wait until the job of the page is well under way."""
        while self.browser.value("document.querySelector('progress')?.value ?? 1") < 0.3:
            time.sleep(0.1)

    def finish_job(self) -> None:
        """Wait until the job of the page is over."""
        until = time.monotonic() + PATIENCE
        while self.browser.value("document.querySelector('#state').dataset.status") in {
            "starting", "running",
        }:  # fmt: skip
            assert time.monotonic() < until, "the job does not end"
            time.sleep(0.2)


def address_of(process: subprocess.Popen[str]) -> str:
    """Read the address that a server prints."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://\S+", line):
            return found[0]
    raise RuntimeError("the server did not start")


def look_through(browser: Browser) -> None:
    """Scroll down: parts of a page are filled in when they come into view, and make it longer."""
    place = 0
    while place < browser.value("document.body.scrollHeight"):
        browser.value(f"window.scrollTo(0, {place})")
        time.sleep(0.1)
        place += 400


def make_small(picture: Path, end: int) -> None:
    """Cut off what is empty, and make do with few colors; those of large areas stay as they are."""
    shot = Image.open(picture).convert("RGB")
    shot = shot.crop((0, 0, shot.width, min(shot.height, end)))
    few = shot.quantize(_COLORS, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)


def main(folder: Path | None) -> None:
    """Walk through all screens and take pictures of them."""
    root = Path(tempfile.gettempdir(), "pictures")  # a path that looks well in a picture
    root.mkdir()
    with Browser() as browser:
        pa_csv.write_csv(sample(), root / "visits.csv")
        bench = Workbench(browser, root)

        def shoot(name: str, path: str | None = None) -> None:
            where = path or browser.value("location.pathname + location.search")
            views = {"": {}} if folder is None else VIEWS
            if folder is None and name not in SHOWN:
                return
            for suffix, view in views.items():
                address = where if where.startswith("http") else bench.root + where
                address = address.replace("#", f"?{name}{suffix}#")  # another page, so it loads
                browser.open(address, **view)
                look_through(browser)
                until = time.monotonic() + PATIENCE
                while any(said in browser.value("document.body.innerText") for said in WAITING):
                    assert time.monotonic() < until, f"{name} does not become whole"
                    time.sleep(0.2)
                time.sleep(0.6)
                browser.value("window.scrollTo(0, 0)")
                if folder is not None:
                    browser.screenshot(folder / f"{name}{suffix}.png")
                    continue
                browser.screenshot(IMAGES / f"{name}.png", whole=False)
                end = browser.value(
                    "(document.querySelector('footer') || document.body)"
                    ".getBoundingClientRect().bottom"
                )
                make_small(IMAGES / f"{name}.png", round(end) + 24)
            if folder is not None:
                browser.open(address)

        try:
            browser.open(bench.address)
            bench.submit("form[action='/projects']", name="visits")
            shoot("projects", "/")
            browser.open(f"{bench.root}/p/visits/data")
            shoot("data-empty")
            browser.open(f"{bench.root}/p/visits/data")
            bench.submit("form[action$='/data']", path=str(root / "visits.csv"))
            shoot("data")
            browser.open(f"{bench.root}/p/visits/data")
            bench.submit("form[action$='/draft']")
            shoot("job")
            bench.finish_job()
            browser.open(f"{bench.root}/p/visits/schema")
            shoot("schema", "/p/visits/schema")
            browser.open(f"{bench.root}/p/visits/schema")
            while browser.value("document.querySelectorAll('form.confirm').length"):
                browser.value(
                    "document.querySelectorAll('form.confirm')[0]"
                    ".querySelectorAll('[name=column]').forEach(box => { box.checked = true; })"
                )
                bench.submit("form.confirm", reason="the public questionnaire of 2025")
            shoot("schema-confirmed", "/p/visits/schema")
            shoot("tree", "/p/visits/schema/tree?column=region")
            browser.open(f"{bench.root}/p/visits/ledger")
            shoot("ledger-empty", "/p/visits/ledger")
            bench.submit("form[action$='/ledger']")
            shoot("advisor", "/p/visits/advisor?use=rows&who=public&rows=12000&one_row=yes")
            shoot("plan", "/p/visits/plan?rows=12000")
            browser.open(f"{bench.root}/p/visits/plan?method=quilt&rows=12000")
            bench.submit("form.sliders")
            shoot("dry-run", "/p/visits/dry-run")
            bench.submit("form[action$='/dry-run']")
            shoot("job-running")
            bench.see_progress()
            shoot("progress")
            bench.finish_job()
            shoot("job-done")
            shoot("dry-run-report", "/p/visits/dry-runs/001")
            shoot("publish", "/p/visits/publish")
            browser.open(f"{bench.root}/p/visits/publish")
            bench.submit("form[action$='/publish']", typed="visits-1", purpose="yearly table")
            bench.finish_job()
            shoot("ledger", "/p/visits/ledger")
            shoot("report", "/p/visits/report")
            shoot("look", "/p/visits/releases/visits-1/look/#kind=mean&of=age&by=diagnosis")
            shoot("overview", "/p/visits/")
            shoot("refused", "/p/nowhere/")
            analyst = subprocess.Popen(
                [sys.executable, "-m", "hushtable.cli.app", "serve", "--port", "0",
                 str(root / "visits" / "releases" / "visits-1")],
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            try:
                page = address_of(analyst)
                shoot("analyst", f"{page}#in=sex:0&by=diagnosis")
                shoot("analyst-cross", f"{page}#by=diagnosis&by=sex")
            finally:
                analyst.terminate()
                analyst.wait()
        finally:
            bench.process.terminate()
            bench.process.wait()
            shutil.rmtree(root)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
