"""The server for assistants, driven by the client of the protocol's own library."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from hushtable import Release, publish, sample, sample_schema
from hushtable.methods import GeneralizeSuppress
from hushtable.schema import Schema

mcp = pytest.importorskip("mcp", reason="no mcp: pip install 'hushtable[mcp]'")

TOOLS = {
    "list_releases", "describe", "count", "share", "mean", "quantile", "regression", "sql",
}  # fmt: skip


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    given = sample_schema().to_dict()
    kept = {name: given["columns"][name] for name in ("visit", "age", "sex")}
    kept["sex"]["labels"] = {"F": "female", "M": "male"}
    schema = Schema.from_dict({"name": "visits", "rows": 12_000, "columns": kept})
    out = tmp_path_factory.mktemp("assistants") / "visits"
    return publish(sample().select(list(kept)), schema, GeneralizeSuppress(k=2), out=out)


def asked(folder: Path, questions: list[tuple[str, dict[str, Any]]]) -> tuple[Any, list[Any]]:
    """Start the command as an assistant does, and call its tools."""
    command = f"import sys; sys.path[:0] = {sys.path!r}; from hushtable.cli import main; main()"
    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-c", command, "mcp", str(folder)], env=dict(os.environ)
    )

    async def ask() -> tuple[Any, list[Any]]:
        async with mcp.Client(server) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(name, given) for name, given in questions]

    return asyncio.run(ask())


def test_an_assistant_gets_the_answers_of_the_library(release: Release) -> None:
    place = {"release": "visits"}
    questions = [
        ("list_releases", {}),
        ("count", {**place, "where": "age >= 65", "by": ["sex"]}),
        ("mean", {**place, "column": "age"}),
        ("quantile", {**place, "column": "age", "probability": 0.9}),
        ("share", {**place, "condition": "age < 18", "by": ["sex"]}),
        ("regression", {**place, "formula": "age ~ C(sex)"}),
        ("sql", {**place, "query": "SELECT sex, avg(age) FROM release GROUP BY sex"}),
        ("describe", {**place, "columns": ["sex"]}),
        ("mean", {**place, "column": "sex"}),
        ("count", {"release": "other"}),
    ]
    tools, results = asked(release.folder, questions)
    assert {tool.name for tool in tools} == TOOLS
    found = [result.structured_content for result in results]
    assert found[0]["visits"]["promises"] == [p.explain() for p in release.statement.guarantees]
    expected = [
        release.count("age >= 65", by="sex"),
        release.mean("age"),
        release.quantile("age", 0.9),
        release.share("age < 18", by="sex"),
        release.regression("age ~ C(sex)"),
        release.sql("SELECT sex, avg(age) FROM release GROUP BY sex"),
        release.describe("sex"),
    ]
    for answer, result in zip(expected, found[1:8], strict=True):
        rows = answer.to_dict()
        assert result == {"answers": rows if isinstance(rows, list) else [rows]}
    assert found[1]["answers"][0]["sex_label"] == "female"
    for result, reason in zip(results[8:], ("no mean", "Unknown release"), strict=True):
        assert result.is_error
        assert reason in result.content[0].text
