"""Server for AI assistants: queries of releases over the Model Context Protocol.

It opens releases only, so it can neither read private tables nor spend privacy budget. Every answer
has a 95% interval, and a refused question is an error with the reason.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hushtable.errors import HushtableError
from hushtable.release.release import Release

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_INSTRUCTIONS = """Query tables about people that were published under a privacy guarantee.
Call list_releases and describe first. A condition is a SQL WHERE clause over the columns, such as
age >= 65 AND sex = 'F'. Report the 95% interval (low to high) with every value, never the value
alone, and report the notes. A value of null is unknown. If support is 'untested', any value in the
interval is possible."""


def make_server(releases: Mapping[str, Release]) -> MCPServer[Any]:
    """Return a server with tools that query releases by name."""
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - an extra
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415

    server: MCPServer[Any] = MCPServer("hushtable", instructions=_INSTRUCTIONS)
    one_at_a_time = threading.Lock()  # estimators are not thread-safe

    def answered(name: str, ask: Callable[[Release], Any]) -> dict[str, Any]:
        if name not in releases:
            raise ToolError(f"Unknown release {name!r}; known are {', '.join(releases)}.")
        try:
            with one_at_a_time:
                found = ask(releases[name])
        except HushtableError as error:
            raise ToolError(str(error)) from None
        rows = found.to_dict()
        return {"answers": rows if isinstance(rows, list) else [rows]}

    @server.tool()
    def list_releases() -> dict[str, Any]:
        """List the releases: title, method, promises in words, columns with labels, and limits."""
        found = {}
        for name, release in releases.items():
            statement, columns = release.statement, release.schema.attributes
            found[name] = {
                "title": statement.public_schema.get("name", ""),
                "method": statement.method,
                "promises": [promise.explain() for promise in statement.guarantees],
                "not_promised": list(statement.unprotected),
                "columns": {column: part.label or column for column, part in columns.items()},
            }
        return found

    @server.tool()
    def describe(release: str, columns: list[str] | None = None) -> dict[str, Any]:
        """Describe columns: type, values with labels, and distribution with 95% intervals."""
        return answered(release, lambda opened: opened.describe(*(columns or ())))

    @server.tool()
    def count(
        release: str, where: str | None = None, by: list[str] | None = None
    ) -> dict[str, Any]:
        """Estimate how many rows satisfy a condition, for each combination of values of `by`."""
        return answered(release, lambda opened: opened.count(where, by=by or ()))

    @server.tool()
    def share(
        release: str, condition: str, where: str | None = None, by: list[str] | None = None
    ) -> dict[str, Any]:
        """Estimate the share of rows with `condition`, among the rows that satisfy `where`."""
        return answered(release, lambda opened: opened.share(condition, where, by=by or ()))

    @server.tool()
    def mean(
        release: str, column: str, where: str | None = None, by: list[str] | None = None
    ) -> dict[str, Any]:
        """Estimate the mean of a numeric, date or time column."""
        return answered(release, lambda opened: opened.mean(column, where, by=by or ()))

    @server.tool()
    def quantile(
        release: str,
        column: str,
        probability: float = 0.5,
        where: str | None = None,
        by: list[str] | None = None,
    ) -> dict[str, Any]:
        """Estimate a quantile of a numeric, date or time column; probability 0.5 is the median."""
        return answered(
            release, lambda opened: opened.quantile(column, probability, where, by=by or ())
        )

    @server.tool()
    def regression(
        release: str, formula: str, where: str | None = None, logistic: bool = False
    ) -> dict[str, Any]:
        """Fit a regression, such as 'pay ~ age + C(region)', with C() around listed columns."""
        return answered(
            release, lambda opened: opened.regression(formula, where, logistic=logistic)
        )

    @server.tool()
    def sql(release: str, query: str) -> dict[str, Any]:
        """Answer 'SELECT column, avg(column) FROM release WHERE condition GROUP BY column'."""
        return answered(release, lambda opened: opened.sql(query))

    return server
