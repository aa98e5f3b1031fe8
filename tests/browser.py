"""A headless Chromium, controlled over pipes by its own protocol, without driver or network."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)

PATIENCE = 600  # timeout in seconds, for a busy machine


class Browser:
    """A browser that opens pages and reports what they load, log and look like."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # Above the two descriptor numbers that the browser will use.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write)]

        def connect() -> None:
            """Set up the file descriptors for the browser's commands and answers."""
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [
                CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}",
                "--disable-background-networking", "about:blank",
            ],
            pass_fds=(3, 4), preexec_fn=connect,  # noqa: PLW1509 - no threads run here
            stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (to_read, to_write, *high):
            os.close(end)
        self._numbers, self._buffer = itertools.count(1), b""
        self.events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._read)
        os.close(self._write)
        self._profile.cleanup()

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError("the browser does not answer")
            self._buffer += os.read(self._read, 1 << 16)
        message, self._buffer = self._buffer.split(b"\0", 1)
        content: dict[str, Any] = json.loads(message)
        return content

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        os.write(self._write, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self._message(deadline)
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the page."""
        return self._call(method, self._session, **parameters)

    def open(self, page: Path | str, *, width: int = 1000, dark: bool = False) -> None:
        """Load a page or an address, with a given width and color scheme."""
        self.events.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        self.wait_for_load()

    def wait_for_load(self) -> None:
        """Wait until the page is loaded."""
        deadline = time.monotonic() + PATIENCE
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message(deadline))
        self.value("document.readyState")  # reads all pending messages

    def value(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key: Tab, Enter or Space."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " ")}[key]
        named = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": code}
        self.call(
            "Input.dispatchKeyEvent", type="keyDown", **named, **({"text": text} if text else {})
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def type(self, text: str) -> None:
        """Replace the content of the focused field."""
        self.value("document.activeElement.select?.()")
        self.call("Input.insertText", text=text)

    @property
    def requests(self) -> list[str]:
        """Requests of the page since it was opened."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """Console messages since the page was opened."""
        kinds = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
        return [event["params"] for event in self.events if event.get("method") in kinds]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Write a screenshot of the whole page, or of the visible part."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def print(self, path: Path) -> None:
        """Write the page as it would be printed."""
        pdf = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        path.write_bytes(base64.b64decode(pdf["data"]))
