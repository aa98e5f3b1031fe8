"""Publication of linked tables, in the same order as for one table: charge, then read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from hushtable.engine import EngineName
from hushtable.engine.output_guard import silenced
from hushtable.engine.phases import logged
from hushtable.files.progress import Progress, silent
from hushtable.methods.base import Forecast
from hushtable.privacy.ledger.payment import PaymentOptions
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.noise_sources import make_noise
from hushtable.publishing.run import publish_plan
from hushtable.release.release import Release

if TYPE_CHECKING:
    from hushtable.engine.linked_tables import LinkedEngine
    from hushtable.methods.linked.linked import Linked
    from hushtable.schema.linked_schema import LinkedSchema


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
    **paying: Unpack[PaymentOptions],
) -> Release:
    """Publish private linked tables, with one guarantee per person.

    Parameters
    ----------
    data : mapping of str to path or frame
        The private tables, by their names in the schema.
    schema : LinkedSchema or path
        Public description of the tables.
    method : Linked
        The method, with its parameters.
    out : path
        Folder to create; it must not exist.
    rows : int, optional
        Approximate number of persons, from public knowledge, for the forecast.
    engine, noise, memory_limit, anyway, on_forecast, progress, **paying
        As for `hushtable.publish`.

    Returns
    -------
    Release
        The release: one table for each of the schema, with matching keys.

    Raises
    ------
    HushtableError
        If anything is refused. If the charge was already made, the message says so.
    """
    from hushtable.engine.linked_tables import open_linked  # noqa: PLC0415 - for linked tables only
    from hushtable.schema.linked_schema import LinkedSchema  # noqa: PLC0415 - for linked tables only

    progress("planning", 0.0)
    source = make_noise(noise)
    schema = LinkedSchema.load(schema) if isinstance(schema, str | Path) else schema
    schema.require_confirmed()
    plan = method.plan(schema)

    def ready() -> Callable[[], LinkedEngine]:
        tables = open_linked(data, schema, engine=engine, memory_limit=memory_limit)
        tables.check(schema)
        return lambda: tables.connect(schema, noise=source)

    return publish_plan(
        plan, ready, noise=source, out=out, paying=paying, rows=rows, anyway=anyway,
        on_forecast=on_forecast, progress=progress,
    )  # fmt: skip
