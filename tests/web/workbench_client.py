"""A test client that keeps the cookie and adds the CSRF token to forms."""

from __future__ import annotations

import html
import re
import time
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.testclient import TestClient

from hushtable.schema import Schema
from hushtable.web.app import make_workbench
from hushtable.web.security import TokenGate
from hushtable.web.workbench import Workbench

PORT = 8123
MAX_UPLOAD = 3_000_000


class WorkbenchClient:
    """Client of a workbench on a folder."""

    def __init__(self, folder: Path, *, door: TokenGate | None = None) -> None:
        self.folder, self.door = folder, door or TokenGate()
        self.app = make_workbench(
            Workbench(folder), gate=self.door, port=PORT, max_upload=MAX_UPLOAD
        )  # fmt: skip
        self.browser = self.new_browser()

    def new_browser(self) -> TestClient:
        browser = TestClient(self.app, base_url=f"http://127.0.0.1:{PORT}")
        answer = browser.get(f"/?token={self.door.token}")
        assert answer.status_code == 200
        return browser

    def get(self, path: str, *, browser: TestClient | None = None) -> Any:
        return (browser or self.browser).get(path)

    def csrf(self, browser: TestClient | None = None) -> str:
        found = re.search(r'name="csrf" value="(\w+)"', self.get("/", browser=browser).text)
        assert found is not None
        return found[1]

    def post(self, path: str, /, *, browser: TestClient | None = None, **fields: Any) -> Any:
        given = {"csrf": self.csrf(browser), **fields}
        return (browser or self.browser).post(path, data=given)

    def finish(self, answer: Any) -> str:
        """Wait for the job that a response started, and return its status."""
        assert "/jobs/" in answer.url.path, problems(answer)
        until = time.monotonic() + 600
        while (status := self.status(answer.url.path)) in {"starting", "running"}:
            assert time.monotonic() < until, "the job does not end"
            time.sleep(0.1)
        return status

    def status(self, job: str) -> str:
        found = re.search(r'data-status="(\w+)"', self.get(f"{job}/state").text)
        assert found is not None
        return found[1]

    def confirm_all(self, project: str) -> None:
        schema = Schema.load(self.folder / project / "schema.yaml")
        names = [name for name, one in {"": schema, **schema.columns}.items() if one.confirm]
        answer = self.post(
            f"/p/{project}/schema/confirm", column=names,
            reason="question 4 of the public questionnaire",
        )  # fmt: skip
        assert not problems(answer)

    def publish(self, project: str, name: str, /, **fields: Any) -> Any:
        page = self.get(f"/p/{project}/publish?name={name}").text
        found = re.search(r'name="seen" value="(\w+)"', page)
        return self.post(
            f"/p/{project}/publish",
            **{"name": name, "typed": name, "seen": found[1] if found else "", **fields},
        )


def problems(answer: Response | Any) -> list[str]:
    """Return the messages in a page's alert."""
    _, _, after = answer.text.partition('class="problems" role="alert"')
    return [html.unescape(p) for p in re.findall(r"<li>(.*?)</li>", after.split("</div>")[0])]
