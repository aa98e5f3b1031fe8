"""What a comparison with the private table gives: numbers and a page, for the custodian alone."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from hushtable.files.whole_file import write_whole


class Findings(ABC):
    """Hold what was found; each file is written whole or not at all."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""

    @abstractmethod
    def to_html(self) -> str:
        """Write as one page, with nothing to download."""

    def write_json(self, path: str | Path) -> None:
        """Write the numbers to a new file."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        write_whole(path, text + "\n")

    def write_html(self, path: str | Path) -> None:
        """Write the page to a new file."""
        write_whole(path, self.to_html())
