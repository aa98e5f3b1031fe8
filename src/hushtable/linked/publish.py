"""Publishing linked tables, in the same order of things as one table: charge, then read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Unpack

from hushtable.engine import EngineName
from hushtable.engine.linked import open_linked
from hushtable.engine.phases import logged
from hushtable.engine.silence import silenced
from hushtable.files.progress import Progress, silent
from hushtable.linked.linked import Linked
from hushtable.methods.base import Forecast
from hushtable.pipeline import carry_out, promise, require_worth
from hushtable.privacy.noise import Noise
from hushtable.privacy.noise_sources import make_noise
from hushtable.privacy.payment import Paying, Payment
from hushtable.release import Release
from hushtable.schema.linked import LinkedSchema


@silenced
@logged("publish")
def publish_linked(
    data: Mapping[str, Any],
    schema: LinkedSchema | str | Path,
    method: Linked,
    *,
    out: str | Path,
    engine: EngineName = "auto",
    noise: Literal["secure", "opendp"] | Noise = "secure",
    memory_limit: str | None = None,
    rows: int | None = None,
    anyway: bool = False,
    on_forecast: Callable[[Forecast], None] | None = None,
    progress: Progress = silent,
    **paying: Unpack[Paying],
) -> Release:
    """Publish private tables that belong together, with one promise for a person.

    Parameters
    ----------
    data : mapping of str to path or frame
        The private tables, by the names that the schema has for them.
    schema : LinkedSchema or path
        What is public about them.
    method : Linked
        How to publish, with its parameters.
    out : path
        The folder to make; it must not exist.
    rows : int, optional
        About how many persons to expect, from public knowledge, for the forecast.
    engine, noise, memory_limit, anyway, on_forecast, progress, **paying
        As for `hushtable.publish`.

    Returns
    -------
    Release
        The release: a table for each of the schema, and keys that fit.
    """
    progress("planning", 0.0)
    source = make_noise(noise)
    schema = LinkedSchema.load(schema) if isinstance(schema, str | Path) else schema
    schema.require_confirmed()
    plan = method.plan(schema)
    if not anyway:
        require_worth(plan, rows)
    payment = Payment(**paying)
    promised = promise(plan, noise=source, payment=payment, out=out)
    tables = open_linked(data, schema, engine=engine, memory_limit=memory_limit)
    tables.check(schema)
    return carry_out(
        plan,
        lambda: tables.connect(schema, noise=source),
        promised=promised,
        noise=source,
        out=out,
        payment=payment,
        progress=progress,
        before_charge=None if on_forecast is None else lambda: on_forecast(plan.forecast(rows)),
    )
