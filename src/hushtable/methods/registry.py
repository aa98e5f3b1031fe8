"""Registry of all methods and baselines, including those of other packages.

`methods.toml` lists the built-in methods. Another package adds methods with an entry point in
the group ``hushtable.methods`` that names a `MethodSpec` or a tuple of them. A method is imported
on first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import pyarrow as pa

from hushtable.errors import ReleaseError
from hushtable.methods.base import Method
from hushtable.methods.spec import PACKAGE, MethodSpec, listed
from hushtable.query.answers.estimator import Estimator
from hushtable.schema import Schema

ENTRY_POINTS = "hushtable.methods"


def _spec(name: str, entry: Mapping[str, Any]) -> MethodSpec:
    parts: dict[str, Any] = {p: entry[p] for p in ("kind", "takes", "baseline") if p in entry}
    parts |= {part: f"{PACKAGE}.{entry[part]}" for part in ("method", "estimator") if part in entry}
    return MethodSpec(name=name, **parts)


_OURS = {name: _spec(name, entry) for name, entry in listed().items()}


@cache
def _joined() -> dict[str, MethodSpec]:
    """Load the methods of other packages; names of built-in methods take precedence."""
    joined: dict[str, MethodSpec] = {}
    for point in entry_points(group=ENTRY_POINTS):
        found = point.load()
        for spec in (found,) if isinstance(found, MethodSpec) else found:
            joined.setdefault(spec.name, spec)
    return {name: spec for name, spec in joined.items() if name not in _OURS}


def specs() -> dict[str, MethodSpec]:
    """Return all methods by name, sorted."""
    return dict(sorted({**_OURS, **_joined()}.items()))


def find(name: str) -> MethodSpec | None:
    """Return the registry entry of a method, or None if no method has this name."""
    return _OURS.get(name) or _joined().get(name)


class _TableMethods(Mapping[str, type[Method]]):
    """Mapping of method names to classes, imported on first use."""

    def __getitem__(self, name: str) -> type[Method]:
        spec = find(name)
        if spec is None or not _publishes_tables(spec):
            raise KeyError(name)
        kind: type[Method] = spec.load(spec.method)
        return kind

    def __iter__(self) -> Iterator[str]:
        return (name for name, spec in specs().items() if _publishes_tables(spec))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _publishes_tables(spec: MethodSpec) -> bool:
    return spec.takes == "table" and spec.publishes


METHODS = _TableMethods()
"""Every method that publishes tables, by its name on the command line."""


def estimator_kinds() -> dict[str, str]:
    """Return the estimator class of each kind of release, as ``module:name``."""
    return {spec.kind: spec.estimator for spec in specs().values() if spec.kind}


def estimator_for(
    settings: Mapping[str, Any],
    schema: Schema,
    parameters: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
) -> Estimator:
    """Make the estimator that a statement names."""
    kind = settings.get("kind")
    ours = {spec.kind: spec.estimator for spec in _OURS.values() if spec.kind}
    known = ours if kind in ours else estimator_kinds()
    if not isinstance(kind, str) or kind not in known:
        raise ReleaseError(
            f"this release needs the estimator {kind!r}, which this version of hushtable does not "
            f"have; it has {', '.join(known)}."
        )
    made: Estimator = MethodSpec.load(known[kind])(schema, parameters, settings, tables)
    return made
