"""Public domains of common columns, such as ages, recognized by name and by the fit of the values.

The domains in ``catalog.yaml`` are public, but whether the values fit them is not. So a recognized
column has the mark `RECOGNIZED`, which covers all parts of it that the catalog sets: a person
confirms what the column is, and no bound or value of it comes from the data.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.drafting.profile import Profile
from hushtable.engine.reference_encoder import ReferenceColumn
from hushtable.engine.sources.spelling import is_rewritten, rewrite
from hushtable.files.yaml_text import read_packaged
from hushtable.schema import Schema
from hushtable.schema.column import RECOGNIZED
from hushtable.schema.file_format import FileFormat

_FIT = 0.99  # minimum share of the rows that fit a domain
_PART = 0.5  # minimum share of a list that occurs, if the name does not match
_MIXED = re.compile(r"(?<=[a-z])(?=[A-Z])|[^a-zA-Z0-9%\u00c0-\u024f]+|(?<=[a-z])(?=[0-9])")


@cache
def entries() -> tuple[Mapping[str, Any], ...]:
    """Return the catalog, with all domains of each entry in full."""
    listed = read_packaged("hushtable.drafting", "catalog.yaml")
    return tuple({**entry, "domains": tuple(_domains(entry))} for entry in listed)


def _domains(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    lists = [
        list(dict.fromkeys(map(spelled, texts)))
        for texts in entry.get("texts", ())
        for spelled in (str.lower, str.capitalize, str.title, str.upper)
    ]
    if "digits" in entry:
        lists.append([f"{code:0{entry['digits']}}" for code in range(10 ** entry["digits"])])
    order = {"ordered": True} if entry.get("ordered") else {}
    yield from ({"type": "categorical", "values": values, **order} for values in lists)
    for domain in entry.get("domains", ()):
        values = domain.get("values")
        this_year = {"high": f"{_now().year}-12-31"} if domain["type"] == "date" else {}
        listed = {"values": values.split("; ")} if isinstance(values, str) else {}
        yield {**domain, **this_year, **listed}


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def words_of(name: str) -> str:
    """Return the words of a column name in lower case, separated by blanks.

    Examples
    --------
    >>> words_of("BirthDate"), words_of("age_at_diagnosis"), words_of("HOURS-PER-WEEK")
    ('birth date', 'age at diagnosis', 'hours per week')
    """
    return " ".join(part.lower() for part in _MIXED.split(name) if part)


def recognize(
    profile: Profile, content: Mapping[str, Any], layout: FileFormat
) -> tuple[dict[str, Any], str] | None:
    """Return the public domain of a column and what it is, or None.

    `content` is what the data alone suggests. Its special values are not compared with the domain.
    """
    name, special = words_of(profile.name), content.get("special", {})
    apart = set(map(str, [*special, *special.values()]))
    kept = [at for at, value in enumerate(profile.values) if str(value) not in apart]
    values, rows = [profile.values[at] for at in kept], profile.counts[kept]
    for entry in entries():
        if "name" in entry and not re.fullmatch(entry["name"], name):
            continue
        for domain in entry["domains"]:
            if _fits(values, rows, domain, entry, layout):
                known = {"special": dict(special)} if special and "low" in domain else {}
                said = f"{RECOGNIZED} as {entry['is']}; public source: {entry['source']}."
                return {**domain, **known, "missing": "category"}, said
    return None


def _fits(
    values: Sequence[Any],
    rows: NDArray[np.int64],
    domain: Mapping[str, Any],
    entry: Mapping[str, Any],
    layout: FileFormat,
) -> bool:
    """Return whether nearly all rows are in a domain, as the engine encodes them."""
    n_values = len(domain.get("values", (0, 1)))
    if not values or ("name" not in entry and len(values) > n_values):
        return False
    strict = {**domain, "missing": "forbid", "outside": "refuse"}
    column: Any = Schema.from_dict({"name": "t", "columns": {"x": strict}}).columns["x"]
    code = ReferenceColumn(column, ()).code
    dated = domain["type"] == "date" and is_rewritten(column, layout)
    codes = np.array([code(rewrite(v, column, layout) if dated else v) for v in values])
    inside = codes >= 0
    if not inside.any() or float(rows[inside].sum()) < _FIT * float(rows.sum()):
        return False
    if "name" not in entry:
        return bool(inside.all()) and len(values) >= max(2, _PART * n_values)
    if "values" in domain:
        return int(inside.sum()) >= 2
    return "reach" not in entry or bool(column.value(codes.max()) >= entry["reach"])
