"""Public domains of common columns, such as ages, recognized by name and by the fit of the values.

The domains in ``catalog.yaml`` are public, but whether the values fit them is not. So a recognized
column has the mark `RECOGNIZED`, which covers all parts of it that the catalog sets: a person
confirms what the column is, and no bound or value of it comes from the data.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from hushtable.drafting.profile import Profile, as_number, day_formats, days_of
from hushtable.files.yaml_text import read_packaged
from hushtable.schema.column import RECOGNIZED

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
    profile: Profile, content: Mapping[str, Any], order: str
) -> tuple[dict[str, Any], str] | None:
    """Return the public domain of a column and what it is, or None.

    `content` is what the data alone suggests, and `order` that of the parts of dates. Special
    values are not compared with the domain.
    """
    name, special = words_of(profile.name), content.get("special", {})
    read = _readings(profile, [*special, *special.values()], order)
    for entry in entries():
        pattern = entry.get("name")
        if pattern is not None and not re.fullmatch(pattern, name):
            continue
        for domain in entry["domains"]:
            values = read(domain["type"])
            if values is not None and _fits(values, domain, entry):
                kept = {"special": dict(special)} if special and "low" in domain else {}
                said = f"{RECOGNIZED} as {entry['is']}; public source: {entry['source']}."
                return {**domain, **kept, "missing": "category"}, said
    return None


Values = tuple[Sequence[Any], Any]  # values of a column, and rows of each


def _readings(
    profile: Profile, special: Sequence[Any], order: str
) -> Callable[[str], Values | None]:
    """Return a function that reads the values as a type; None if they are of another."""
    apart = set(map(str, special))
    kept = [place for place, value in enumerate(profile.values) if str(value) not in apart]
    values, rows = [profile.values[place] for place in kept], profile.counts[kept]

    @cache
    def read(kind: str) -> Values | None:
        if not values:
            return None
        if kind == "date":
            texts = [str(value).removesuffix(" 00:00:00") for value in values]
            known = [one for one in day_formats(texts) if one in ("iso", order)]
            return ([str(day) for day in days_of(texts, known[0])], rows) if known else None
        if kind == "categorical":
            numbers = [as_number(v) if not isinstance(v, str) else None for v in values]
            texts = [str(v if n is None or n.whole is None else n.whole)
                     for v, n in zip(values, numbers, strict=True)]  # fmt: skip
            return texts, rows
        found = [as_number(value) for value in values]
        if any(number is None for number in found):
            return None
        return [number.real for number in found if number is not None], rows

    return read


def _fits(values: Values, domain: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    found, rows = values
    if "values" in domain:
        listed = set(domain["values"])
        inside = np.array([value in listed for value in found], np.bool_)
        fewest = 2 if "name" in entry else max(2, _PART * len(listed))
        enough = len(listed.intersection(found)) >= fewest and (inside.all() or "name" in entry)
    elif domain["type"] == "date":
        inside = np.array([domain["low"] <= day <= domain["high"] for day in found], np.bool_)
        enough = True
    else:
        numbers = np.array(found, np.float64)
        inside = (numbers >= domain["low"]) & (numbers <= domain["high"])
        if domain["type"] == "integer":
            inside &= numbers == np.floor(numbers)
        enough = bool(numbers.max() >= entry.get("reach", domain["low"]))
        if "name" not in entry:  # a binary indicator
            enough = bool(inside.all()) and len(set(found)) == domain["high"] - domain["low"] + 1
    return enough and float(rows[inside].sum()) >= _FIT * float(rows.sum())
