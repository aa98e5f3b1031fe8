"""Simulated users of a real browser, and the servers that they visit."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from browser import PATIENCE, Browser
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.release.release import Release


class Server:
    """A command that serves pages, in its own process."""

    def __init__(self, *words: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hushtable.cli.app", *map(str, words), "--port", "0"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        found = next(
            re.search(r"http://\S+", line) for line in self.process.stdout if "http" in line
        )
        assert found is not None
        self.entrance = found[0]
        self.root = self.entrance.split("/?")[0].rstrip("/")

    def stop(self, *, kill: bool = False) -> None:
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait(PATIENCE)


class Visitor:
    """A user of the browser, with fixed display settings (dark, narrow) by default."""

    def __init__(self, browser: Browser, server: Server, **view: Any) -> None:
        self.browser, self.server, self.view = browser, server, view
        browser.open(server.entrance, **view)

    def go(self, path: str, **view: Any) -> None:
        self.browser.open(self.server.root + path, **{**self.view, **view})

    def send(self, form: str, **fields: str) -> None:
        """Fill in a form and press its button."""
        for name, value in fields.items():
            place = json.dumps(f'{form} [name="{name}"]')
            self.browser.value(f"document.querySelector({place}).value = {json.dumps(value)}")
        self.browser.events.clear()
        self.browser.value(
            f"document.querySelector({json.dumps(form + ' button:not([type=button])')}).click()"
        )
        self.browser.wait_for_load()

    def tick_all(self, form: str) -> None:
        """Tick every box of a form."""
        boxes = json.dumps(f"{form} [name=column]")
        self.browser.value(
            f"document.querySelector({json.dumps(form)}).querySelectorAll('[name=column]')"
            ".forEach(box => { box.checked = true; })"
        )
        assert self.browser.value(f"document.querySelectorAll({boxes}).length")

    def finish_job(self) -> str:
        return self.until(
            "document.querySelector('#state').dataset.status",
            lambda status: status not in {"starting", "running"},
        )

    def until(self, expression: str, holds: Any) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not holds(value := self.browser.value(expression)):
            assert time.monotonic() < deadline, (expression, value)
            time.sleep(0.1)
        return value

    @property
    def text(self) -> str:
        return str(self.browser.value("document.body.innerText"))


class KeyboardVisitor(Visitor):
    """A user without a mouse: Tab, Space, Enter, and typing."""

    def __init__(self, browser: Browser, server: Server, **view: Any) -> None:
        super().__init__(browser, server, **view)
        browser.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def reach(self, selector: str) -> None:
        """Press Tab until an element has the focus, opening collapsed parts on the way."""
        spelled, last = json.dumps(selector), selector.rpartition(" ")[2]
        folded = f"!!document.querySelector({spelled})?.closest('details:not([open])')"
        if not last.startswith("summary") and self.browser.value(folded):
            self.reach(f"details:not([open]):has({last}) > summary")
            self.browser.press("Enter")
        here = f"document.activeElement.matches({json.dumps(selector)})"
        for _ in range(400):
            if self.browser.value(here):
                break
            self.browser.press("Tab")
        else:
            raise AssertionError(f"Tab never reaches {selector}")
        # The focus is visible.
        ring = self.browser.value("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", selector

    def send(self, form: str, **fields: str) -> None:
        for name, value in fields.items():
            self.reach(f'{form} [name="{name}"]')
            self.browser.type(value)
        self.reach(f"{form} button:not([type=button])")
        self.browser.events.clear()
        self.browser.press("Enter")
        self.browser.wait_for_load()

    def tick_all(self, form: str) -> None:
        first = f"{form} input[type=checkbox]"  # the "all" box, if there are several
        self.reach(first)
        self.browser.press("Space")


def walk_to_publishing(visitor: Visitor, folder: Path) -> None:
    """Go from a CSV file to the publish screen."""
    visitor.send("form[action='/projects']", name="visits")
    visitor.send("form[action$='/data']", other=str(folder / "visits.csv"))
    visitor.send("form[action$='/draft']")
    assert visitor.finish_job() == "done"
    visitor.go("/p/visits/schema")
    while visitor.browser.value("document.querySelectorAll('form.confirm').length"):
        visitor.tick_all("form.confirm")
        visitor.send("form.confirm", reason="the public questionnaire")
    visitor.go("/p/visits/ledger")
    visitor.send("form[action$='/ledger']", epsilon="2.5")
    visitor.go("/p/visits/plan?method=noisy-counts&rows=12000")
    visitor.send("form.sliders", **{"generalize:age": "20"})
    visitor.go("/p/visits/publish")


def require_in_hand(visitor: Visitor, folder: Path, downloads: Path) -> None:
    """Check that the release is in the ledger, and that the download is that release."""
    release = Release.load(folder / "visits" / "releases" / "visits-1")
    (entry,) = Ledger.open(folder / "visits" / "table.ledger").entries()
    assert release.statement.ledger is not None
    assert (entry.status, entry.receipt) == ("released", release.statement.ledger.receipt)
    visitor.browser._call(
        "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads)
    )
    visitor.browser.value("document.querySelector('a[href$=\".zip\"]').click()")
    deadline = time.monotonic() + PATIENCE
    while not (downloads / "visits-1.zip").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    shutil.unpack_archive(downloads / "visits-1.zip", downloads)
    assert Release.load(downloads / "visits-1").statement == release.statement
