"""The published JSON Schemas are those of the code; regenerate them with this file as a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushtable.dossier.content import SealedDossier
from hushtable.release.release import Statement
from hushtable.schema import Schema

DOCS = Path(__file__).resolve().parents[2] / "docs"
PUBLISHED = {
    "dossier.schema.json": SealedDossier.model_json_schema(),
    "statement.schema.json": Statement.model_json_schema(by_alias=True),
    "schema.schema.json": Schema.model_json_schema(),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_json_schemas_are_current(name: str) -> None:
    assert json.loads((DOCS / name).read_text()) == PUBLISHED[name], (
        f"{name} is out of date: run python {Path(__file__).name}"
    )


if __name__ == "__main__":
    for name, content in PUBLISHED.items():
        (DOCS / name).write_text(json.dumps(content, indent=2) + "\n")
