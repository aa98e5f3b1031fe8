"""Base class of results that compare with the private table; internal."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from hushtable.files.whole_file import write_whole


class Findings(ABC):
    """Results that can be written as JSON or HTML, atomically."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain data."""

    @abstractmethod
    def to_html(self) -> str:
        """Return the results as one self-contained HTML page."""

    def write_json(self, path: str | Path) -> None:
        """Write the results to a new JSON file."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        write_whole(path, text + "\n")

    def write_html(self, path: str | Path) -> None:
        """Write the page to a new file."""
        write_whole(path, self.to_html())
