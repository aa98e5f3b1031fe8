"""The steps of a new user: draft, confirm all, check, plan, publish, query."""

from __future__ import annotations

from pathlib import Path

import hushtable as ht
from hushtable.drafting import Draft, drafted
from hushtable.drafting.schema_check import out_of_domain
from hushtable.methods.base import Method
from hushtable.privacy.noise.sources import SeededNoise
from seeds import shifted


def confirmed(made: Draft) -> ht.Schema:
    """Confirm all marks of a schema."""
    content = made.schema.to_dict()
    for part in (content, *content["columns"].values()):
        part.pop("confirm", None)
    schema = ht.Schema.from_dict(content)
    schema.require_confirmed()
    return schema


def taken(file: Path) -> tuple[Draft, ht.Schema]:
    """Draft a schema, confirm all, and check the table against it."""
    made = drafted(file)
    schema = confirmed(made)
    assert [misfit for misfit in out_of_domain(file, schema) if misfit.refused] == []
    return made, schema


def published(
    file: Path,
    schema: ht.Schema,
    method: Method,
    *,
    rows: int,
    columns: list[str] | None = None,
    anyway: bool = False,
) -> ht.Release:
    """Plan and publish with seeded noise, and check that there are at most the planned rows."""
    method.forecast(schema, rows=rows)
    out = file.parent / method.name
    noise = SeededNoise(shifted(11))
    release = ht.publish(
        file, schema, method, out=out, rows=rows, noise=noise, columns=columns, anyway=anyway
    )
    assert 0 < release.n_rows < 1.5 * rows
    return release
