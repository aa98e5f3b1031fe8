"""Queries that behave badly, for the workers of the release explorer; quick to import."""

from __future__ import annotations

import os
import time
from typing import Any

from hushtable.errors import ParameterError
from hushtable.release.release import Release


def respond(release: Release, query: str) -> Any:
    match query:
        case "pid":
            return os.getpid()
        case "forever":
            time.sleep(3600)
        case "die":
            os._exit(1)
        case "fail":
            raise ValueError("a text that must not be shown")
        case "refuse":
            raise ParameterError(["one", "two"])
        case "memory":
            return len(bytearray(2**36))
    return release.count(query)
