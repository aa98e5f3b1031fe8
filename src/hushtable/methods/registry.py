"""Registry of all methods and baselines, including those of other packages.

A family lists its methods in its ``__init__``. Another package adds methods with an entry point in
the group ``hushtable.methods`` that names a `Listing` or a tuple of them. A method is imported on
first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import pyarrow as pa

from hushtable.errors import ReleaseError
from hushtable.estimate.base import Estimator
from hushtable.methods import alpha_beta, counts, degrees, diffgen, partition, quilt, uncertain
from hushtable.methods.base import Method
from hushtable.methods.listing import Listing
from hushtable.schema import Schema

ENTRY_POINTS = "hushtable.methods"

_FAMILIES = (alpha_beta, counts, degrees, diffgen, partition, quilt, uncertain)
_OURS = {listing.name: listing for family in _FAMILIES for listing in family.LISTINGS}


@cache
def _joined() -> dict[str, Listing]:
    """Load the methods of other packages; names of built-in methods take precedence."""
    joined: dict[str, Listing] = {}
    for point in entry_points(group=ENTRY_POINTS):
        found = point.load()
        for listing in (found,) if isinstance(found, Listing) else found:
            joined.setdefault(listing.name, listing)
    return {name: listing for name, listing in joined.items() if name not in _OURS}


def listings() -> dict[str, Listing]:
    """Return all methods by name, sorted."""
    return dict(sorted({**_OURS, **_joined()}.items()))


def find(name: str) -> Listing | None:
    """Return the listing of a method, or None if there is none of this name."""
    return _OURS.get(name) or _joined().get(name)


class _TableMethods(Mapping[str, type[Method]]):
    """Mapping of method names to classes, imported on first use."""

    def __getitem__(self, name: str) -> type[Method]:
        listing = find(name)
        if listing is None or not _publishes_tables(listing):
            raise KeyError(name)
        kind: type[Method] = listing.load(listing.method)
        return kind

    def __iter__(self) -> Iterator[str]:
        return (name for name, listing in listings().items() if _publishes_tables(listing))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _publishes_tables(listing: Listing) -> bool:
    return listing.takes == "table" and listing.publishes


METHODS = _TableMethods()
"""Every method that publishes tables, by its name on the command line."""


def estimator_kinds() -> dict[str, str]:
    """Return the estimator class of each kind of release, as ``module:name``."""
    return {listing.kind: listing.estimator for listing in listings().values() if listing.kind}


def estimator_for(
    settings: Mapping[str, Any],
    schema: Schema,
    parameters: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
) -> Estimator:
    """Make the estimator that a statement names."""
    kind = settings.get("kind")
    ours = {listing.kind: listing.estimator for listing in _OURS.values() if listing.kind}
    known = ours if kind in ours else estimator_kinds()
    if not isinstance(kind, str) or kind not in known:
        raise ReleaseError(
            f"this release needs the estimator {kind!r}, which this version of hushtable does not "
            f"have; it has {', '.join(known)}."
        )
    made: Estimator = Listing.load(known[kind])(schema, parameters, settings, tables)
    return made
