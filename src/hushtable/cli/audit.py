"""``hushtable audit``: search for violations of a method's promise on generated tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hushtable as ht
from hushtable.cli.lazy import method_group
from hushtable.cli.options import AsJson, with_method_options
from hushtable.cli.plain import NOT_TESTED, REFUSED, print_json
from hushtable.cli.screen import one_bar, print_lines

if TYPE_CHECKING:
    from hushtable.methods.parameters import Parameters
    from hushtable.methods.spec import MethodSpec


def _audit_command(kind: type[Parameters]) -> Callable[..., None]:
    @with_method_options(kind)
    def audit(
        method: Any,
        *,
        schema: Path | None = None,
        runs: Annotated[int, typer.Option(min=2)] = 20_000,
        confidence: float = 1 - 1e-6,
        seconds: float = 50.0,
        largest: int = 3,
        as_json: AsJson = False,
    ) -> None:
        """Search for violations of a method's promise.

        Parameters
        ----------
        schema
            Schema of the generated tables; default: a small one.
        runs
            Runs on each of two neighboring tables, per promise.
        confidence
            Confidence level: 1 minus the false alarm probability.
        seconds
            Approximate limit on CPU seconds; reduces --runs if needed.
        largest
            Search all tables of at most this many rows (0 to 5).
        """
        from hushtable.audit import audit as run  # noqa: PLC0415 - slow to import

        public = None if schema is None else ht.Schema.load(schema)
        with one_bar("searching") as progress:
            report = run(
                method,
                public,
                runs=runs,
                confidence=confidence,
                seconds=seconds,
                largest=largest,
                progress=progress,
            )
        if as_json:
            print_json(report.to_dict())
        else:
            print_lines(report.lines())
        if report.verdict != "NO VIOLATION FOUND":
            raise typer.Exit(REFUSED if report.verdict == "VIOLATION" else NOT_TESTED)

    return audit


def _has_case(spec: MethodSpec) -> bool:
    from hushtable.audit.cases import CASES  # noqa: PLC0415 - slow to import

    return spec.name in CASES or bool(spec.audit)


audit_group = method_group(
    "audit",
    _audit_command,
    among=_has_case,
    help_text="Search for violations of a method's promise; reads no data.",
)
