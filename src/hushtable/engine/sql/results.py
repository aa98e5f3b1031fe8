"""Combinations of codes as packed keys: a database groups by one number fastest.

The codes of broken rules are negative, and an answer must tell how many rows have them. So keys are
packed with a domain that has room for them below zero (`packed_domain`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import lazy_loader
import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.engine.cells import Counts
from hushtable.engine.encode import Expression, recoded
from hushtable.engine.rules import N_RULES
from hushtable.engine.sources.source import TableSource
from hushtable.engine.sql.answers import integers
from hushtable.schema.recoding import Recoding

ibis = lazy_loader.load("ibis")


def packed_domain(sizes: Mapping[str, int]) -> Domain:
    """Return the domain that packs the keys of columns of the given sizes."""
    return Domain({name: size + N_RULES for name, size in sizes.items()})


def packed(rows: Expression, places: Sequence[str], sizes: Sequence[int]) -> Expression:
    """Pack the codes of some columns into one 63-bit key."""
    key = rows[places[0]].cast("int64") + N_RULES
    for place, size in zip(places[1:], sizes[1:], strict=True):
        key = key * size + (rows[place].cast("int64") + N_RULES)
    return key.cast("int64")


def unpacked(wide: Domain, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Unpack keys to codes, including negative codes of broken rules."""
    return wide.unpack(keys) - N_RULES


def tally(
    rows: TableSource, domain: Domain, recode: Mapping[str, Recoding]
) -> tuple[Expression, Domain]:
    """Return a query for the keys and counts of the cells of a domain, and what packs the keys."""
    places = {f"c{position}": name for position, name in enumerate(domain.names)}
    coded = recoded(rows.select(places), places, recode)
    wide = packed_domain(domain.sizes)
    keys = {
        f"key{limb}": packed(coded, list(places)[run], wide.shape[run])
        for limb, run in enumerate(wide.limbs)
    }
    return coded.select(**keys).group_by(list(keys)).agg(n=ibis._.count()), wide


def count_cells(
    rows: TableSource, domain: Domain, recode: Mapping[str, Recoding], *, most: int
) -> tuple[NDArray[np.int64], Counts]:
    """Count combinations of codes, those of broken rules included, in order; `most` may travel."""
    query, wide = tally(rows, domain, recode)
    table = rows.fetch(query, most=most if wide.size > most else None)
    keys = np.stack([integers(table[f"key{at}"]) for at in range(len(wide.limbs))], axis=1)
    order = np.lexsort(keys.T[::-1]) if keys.shape[1] > 1 else np.argsort(keys[:, 0])
    return unpacked(wide, keys[order]), integers(table["n"])[order]
