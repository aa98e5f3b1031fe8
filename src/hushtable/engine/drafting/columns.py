"""One column of a draft: what its values look like, proposed and said why."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from hushtable.engine.drafting.profile import Profile
from hushtable.engine.drafting.readings import (
    NumberRead,
    are_addresses,
    are_moments,
    as_number,
    day_format,
    days_of,
    has_leading_zero,
    is_free_text,
    is_nan_text,
    with_decimal_commas,
)
from hushtable.engine.drafting.sentinels import sentinels
from hushtable.schema import MAX_COLUMN_SIZE

MOST_LISTED = 100  # a longer list of texts is taken for an identifier
_FEW_ROWS = 20  # in a shorter table, texts that all differ may still be a list
_MANY_ROWS = 100  # in a longer table, whole numbers that all differ number the rows
_GRID_POINTS = 1000  # about the finest grid that is proposed
_MAX_DECIMALS = 6
_WIDE = 200  # values; in a wider range a value that many rows have is a spike
_SPIKE = 0.2  # share of the rows

_PERSONAL = re.compile(
    r"(^|[_ .-])(first|last|sur|full|middle|maiden)?[_ .-]?(name|names|firstname|lastname|surname"
    r"|first|last|e?mail|phone|telephone|mobile|address|street|ssn|passport|licence|license"
    r"|iban|account)($|[_ .-])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Proposal:
    """Hold what is proposed for a column.

    Parameters
    ----------
    content : dict
        Its part of the schema.
    remarks : list of str
        What a person should know about it, from the data.
    decimal_comma : bool
        Whether its numbers have a comma for the decimal point.
    public : bool
        Whether nothing of it was taken from the data.
    """

    content: dict[str, Any]
    remarks: list[str] = field(default_factory=list)
    decimal_comma: bool = False
    public: bool = False


def identifier(why: str) -> Proposal:
    """Propose not to publish a column, and say why."""
    return Proposal({"role": "identifier"}, [f"not published: {why}."])


def propose(profile: Profile) -> Proposal:
    """Propose one column."""
    if profile.family == "other":
        return identifier("its type cannot be published as it is; convert it first")
    if not profile.n_values:
        return identifier("it has no values")
    if not profile.complete:
        return identifier(f"it has more than {len(profile.values):,} different values")
    if personal := _personal(profile):
        return identifier(personal)
    found = _number(profile) or _day(profile) or _listed(profile)
    if found.content.get("role") == "identifier":
        return found
    has_missing = profile.n_missing > 0
    content = found.content
    content["missing"] = "category" if has_missing else "other"
    listed = "missing" if has_missing else "other"
    content["outside"] = listed if content["type"] == "categorical" else "clip"
    if len(profile.values) == 1 and not has_missing:
        found.remarks.append("the same in all rows: it tells nothing, and may be left out.")
    return found


def _personal(profile: Profile) -> str:
    """Say why a column points at persons; "" if it does not seem to."""
    if profile.family != "text":
        return ""
    if are_addresses(profile.values):
        return "these are e-mail addresses"
    if len(profile.values) > _FEW_ROWS and _PERSONAL.search(profile.name):
        many = len(profile.values)
        return f"by its name it points at persons, and it has {many:,} different values"
    return ""


# --- numbers --------------------------------------------------------------------------------------


def _number(profile: Profile) -> Proposal | None:
    """Read a column as numbers, if all of its values are."""
    values, remarks = profile.values, list[str]()
    if profile.family not in ("text", "number") or has_leading_zero(values):
        return None
    commas = profile.family == "text" and with_decimal_commas(values)
    read = [as_number(value.replace(",", ".") if commas else value) for value in values]
    is_number = [number is not None for number in read]
    unsaid = [is_nan_text(value) for value in values]
    if not all(one or other for one, other in zip(is_number, unsaid, strict=True)):
        return None
    numbers = [number for number in read if number is not None]
    finite = [number for number in numbers if math.isfinite(number.real)]
    if not finite:
        return identifier("it has no finite number, so no bounds can be proposed")
    if commas:
        remarks.append("its numbers have a decimal comma; see reading.")
    all_whole = all(number.whole is not None for number in finite)
    if all_whole and profile.all_differ and profile.n_values >= _MANY_ROWS:
        return identifier(f"its {profile.n_values:,} whole numbers all differ, as row numbers do")
    if all_whole:
        proposal = _whole(profile, read, remarks)
        if proposal is not None:
            return Proposal(proposal.content, proposal.remarks, decimal_comma=commas)
    return Proposal(_grid(finite), remarks, decimal_comma=commas)


def _whole(profile: Profile, read: list[NumberRead | None], remarks: list[str]) -> Proposal | None:
    """Propose whole numbers, with codes among them apart; None if the range is too wide."""
    counts: dict[int, int] = {}
    for number, n in zip(read, profile.counts.tolist(), strict=True):
        if number is not None and number.whole is not None:
            counts[number.whole] = counts.get(number.whole, 0) + n
    coded = sentinels(counts)
    if coded:
        listed = ", ".join(map(str, coded))
        remarks.append(
            f"{listed}: codes among the numbers? Then name what each stands for (special); else "
            "widen the bounds."
        )
    plain = sorted(counts.keys() - set(coded))
    low, high = plain[0], plain[-1]
    if high - low >= MAX_COLUMN_SIZE:
        return None
    content: dict[str, Any] = {"type": "integer", "low": low, "high": high}
    if coded:
        content["special"] = {code: f"code {code}" for code in coded}
    total = sum(counts.values())
    spikes = [v for v in plain if counts[v] >= _SPIKE * total]
    if high - low >= _WIDE and spikes:
        share = max(counts[value] for value in spikes) / total
        remarks.append(
            f"{', '.join(map(str, spikes))}: up to {share:.0%} of the rows in a range of "
            f"{high - low + 1:,} values. Give it public bins, or say what the value stands for."
        )
    return Proposal(content, remarks)


def _grid(finite: list[NumberRead]) -> dict[str, Any]:
    """Propose numbers on a grid of a power of ten."""
    reals = np.array([number.real for number in finite])
    low, high = float(reals.min()), float(reals.max())
    exact = next((n for n in range(1, _MAX_DECIMALS + 1) if _has_decimals(reals, n)), _MAX_DECIMALS)
    span = high - low
    fits = math.ceil(math.log10(span / _GRID_POINTS)) if span > 0 else -exact
    step = Decimal(1).scaleb(max(fits, -exact))
    # Rounded outward, so that the grid covers what was seen.
    first = (Decimal(low) / step).to_integral_value("ROUND_FLOOR") * step
    last = (Decimal(high) / step).to_integral_value("ROUND_CEILING") * step
    return {"type": "number", "low": float(first), "high": float(last), "step": float(step)}


def _has_decimals(reals: np.ndarray[Any, np.dtype[np.float64]], n_decimals: int) -> bool:
    moved = reals * 10.0**n_decimals
    moved = np.where(np.abs(moved) >= 2.0**53, 0.0, moved)  # a larger double is whole in any case
    return bool((np.abs(moved - np.round(moved)) < 1e-6).all())


# --- days and lists -------------------------------------------------------------------------------


def _day(profile: Profile) -> Proposal | None:
    """Read a column of texts or moments as days, where the schema has a type for them."""
    texts = [v.removesuffix(" 00:00:00") if isinstance(v, str) else v for v in profile.values]
    spelling = day_format(texts)
    if spelling is None:
        if not are_moments(profile.values) or len(profile.values) <= MOST_LISTED:
            return None
        return identifier(
            f"{len(profile.values):,} different moments; to publish them, give them a public grid: "
            "type: timestamp, with low, high and a step"
        )
    if spelling == "%Y-%m-%d" and len(profile.values) > 1:
        days = days_of(texts, spelling)
        bounds = {"low": min(days).isoformat(), "high": max(days).isoformat()}
        return Proposal({"type": "date", **bounds, "step": "day"}, ["days; a coarser step may do."])
    if len(profile.values) <= MOST_LISTED and not _is_dense(profile):
        return None
    return identifier(
        f"{len(profile.values):,} different days, written {spelling}; to publish them, write them "
        "as 2024-12-31 and give the column a type for days, or make years or months of them"
    )


def _is_dense(profile: Profile) -> bool:
    return profile.all_differ and profile.n_values >= _FEW_ROWS


def _listed(profile: Profile) -> Proposal:
    values = [str(value) for value in profile.values]
    if is_free_text(values) and len(values) > _FEW_ROWS:
        return identifier(f"free text: {len(values):,} different texts of several words")
    if _is_dense(profile):
        return identifier(f"its {profile.n_values:,} values all differ")
    if len(values) > MOST_LISTED:
        often = profile.n_values / len(values)
        return identifier(
            f"{len(values):,} different texts, each about {often:.3g} times; to publish it, list "
            "what is public, or make it coarser"
        )
    remarks = []
    if has_leading_zero(values):
        remarks.append("codes with leading zeros, kept as texts: keep the quotes.")
    return Proposal({"type": "categorical", "values": sorted(values)}, remarks)
