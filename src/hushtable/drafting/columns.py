"""Proposal for one column of a draft, with remarks."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import numpy as np

from hushtable.drafting.moments import propose_calendar
from hushtable.drafting.profile import FEW_ROWS, Profile
from hushtable.drafting.proposal import MOST_LISTED, Proposal, identifier
from hushtable.drafting.readings import (
    NumberRead,
    are_addresses,
    as_number,
    few_that_are_no_numbers,
    has_leading_zero,
    is_free_text,
    is_nan_text,
    with_a_sign,
    with_decimal_commas,
    with_marks_of_thousands,
)
from hushtable.drafting.sentinels import sentinels
from hushtable.schema import MAX_COLUMN_SIZE

_MANY_ROWS = 100  # from this many rows on, distinct integers are taken as row numbers
_GRID_POINTS = 1000  # approximate maximum number of grid points proposed
_MAX_DECIMALS = 6
_WIDE = 200  # values; spikes are reported in wider ranges
_SPIKE = 0.2  # share of the rows that makes a value a spike
_OFTEN = 1.5  # mean rows per text from which the remark mentions it

_LISTED = ("categorical", "boolean")  # types without bounds

_NAMED = re.compile(
    r"(^|[_ .-])(first|last|sur|full|middle|maiden)?[_ .-]?(name|names|firstname|lastname|surname"
    r"|first|last|e?mail|address|street)($|[_ .-])",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"(^|[_ .-])(phone|telephone|mobile|ssn|passport|licence|license|iban|account)($|[_ .-])",
    re.IGNORECASE,
)
_OF_A_THING = re.compile(
    r"(^|[_ .-])(clinic|hospital|ward|department|school|course|company|brand|product|item|drug|test"
    r"|city|town|county|country|state|region|station|species|breed)[_ .-]?names?$",
    re.IGNORECASE,
)


def propose(profile: Profile) -> Proposal:
    """Return the proposal for one column."""
    if profile.family == "other":
        return identifier("its type is not supported; convert it first")
    if not profile.n_values:
        return identifier("it has no values")
    if not profile.complete:
        return identifier(f"it has more than {len(profile.values):,} distinct values")
    if personal := _personal(profile):
        return identifier(personal)
    if profile.family == "boolean" or _are_truths(profile):
        found = Proposal({"type": "boolean"})
    else:
        found = _number(profile) or propose_calendar(profile) or _listed(profile)
    if found.content.get("role") == "identifier":
        return found
    has_missing = profile.n_missing > 0
    content = found.content
    content["missing"] = "category" if has_missing else "other"
    listed = "missing" if has_missing else "other"
    content["outside"] = listed if content["type"] in _LISTED else "clip"
    if len(profile.values) == 1 and not has_missing:
        found.remarks.append("constant in all rows; it can be left out.")
    return found


def _are_truths(profile: Profile) -> bool:
    """Return whether the texts are truth values in any letter case."""
    return {str(value).lower() for value in profile.values} == {"true", "false"}


def _personal(profile: Profile) -> str:
    """Return why a column seems to identify persons, or "" if it does not."""
    if profile.family != "text":
        return ""
    if are_addresses(profile.values):
        return "it contains e-mail addresses"
    many = len(profile.values)
    if many > FEW_ROWS and _is_named_so(profile):
        return f"its name suggests that it identifies persons, and it has {many:,} distinct values"
    return ""


def _is_named_so(profile: Profile) -> bool:
    """Return whether a column's name suggests that it identifies persons and its values agree.

    Names are not numbers or dates (``months_since_last_visit``), and account or phone numbers do
    not repeat often (``account_percent``).
    """
    named = bool(_NAMED.search(profile.name)) and not _OF_A_THING.search(profile.name)
    if not named and not _NUMBERED.search(profile.name):
        return False
    if propose_calendar(profile) is not None:
        return False
    if all(as_number(value) is not None for value in profile.values):
        return bool(_NUMBERED.search(profile.name)) and 2 * len(profile.values) > profile.n_values
    return True


# --- numbers --------------------------------------------------------------------------------------


def _number(profile: Profile) -> Proposal | None:
    """Return the proposal for a column of numbers, or None if some values are not numbers."""
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
        return identifier("it has no finite number to propose bounds from")
    if commas:
        remarks.append("its numbers use a decimal comma; see reading.")
    all_whole = all(number.whole is not None for number in finite)
    if all_whole and profile.all_differ and profile.n_values >= _MANY_ROWS:
        return identifier(f"its {profile.n_values:,} whole numbers all differ, like row numbers")
    if all_whole:
        proposal = _whole(profile, read, remarks)
        if proposal is not None:
            return Proposal(proposal.content, proposal.remarks, decimal_comma=commas)
    return Proposal(_grid(finite), remarks, decimal_comma=commas)


def _whole(profile: Profile, read: list[NumberRead | None], remarks: list[str]) -> Proposal | None:
    """Return the proposal for integers with special codes; None if the range is too wide."""
    counts: dict[int, int] = {}
    for number, n in zip(read, profile.counts.tolist(), strict=True):
        if number is not None and number.whole is not None:
            counts[number.whole] = counts.get(number.whole, 0) + n
    coded = sentinels(counts)
    if coded:
        listed = ", ".join(map(str, coded))
        remarks.append(
            f"Possible codes: {listed}. If they are codes, name the meaning of each under special; "
            "otherwise widen the bounds."
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
            f"{', '.join(map(str, spikes))}: up to {share:.0%} of the rows have one value in a "
            f"range of {high - low + 1:,}. Set public bins, or name the value under special."
        )
    return Proposal(content, remarks)


def _grid(finite: list[NumberRead]) -> dict[str, Any]:
    """Return the domain of numbers on a grid whose step is a power of ten."""
    reals = np.array([number.real for number in finite])
    low, high = float(reals.min()), float(reals.max())
    exact = next((n for n in range(1, _MAX_DECIMALS + 1) if _has_decimals(reals, n)), _MAX_DECIMALS)
    span = high - low
    fits = math.ceil(math.log10(span / _GRID_POINTS)) if span > 0 else -exact
    step = Decimal(1).scaleb(max(fits, -exact))
    # Rounded outward, so that the grid covers all values.
    first = (Decimal(low) / step).to_integral_value("ROUND_FLOOR") * step
    last = (Decimal(high) / step).to_integral_value("ROUND_CEILING") * step
    return {"type": "number", "low": float(first), "high": float(last), "step": float(step)}


def _has_decimals(reals: np.ndarray[Any, np.dtype[np.float64]], n_decimals: int) -> bool:
    moved = reals * 10.0**n_decimals
    moved = np.where(np.abs(moved) >= 2.0**53, 0.0, moved)  # larger doubles are always integers
    return bool((np.abs(moved - np.round(moved)) < 1e-6).all())


# --- lists ----------------------------------------------------------------------------------------


def _listed(profile: Profile) -> Proposal:
    values = [str(value) for value in profile.values]
    found = _list(profile, values)
    if has_leading_zero(values) and "values" in found.content:
        found.remarks.append("codes with leading zeros, kept as text; keep the quotes.")
    if with_marks_of_thousands(values):
        found.remarks.append(
            "Are these numbers with thousands separators? Remove the separators. If the commas are "
            "decimal commas, set reading: {decimal: ','} and type: number."
        )
    if words := few_that_are_no_numbers(values):
        found.remarks.append(
            f"numbers except {', '.join(map(repr, words))}; to publish numbers, list these words "
            "under missing_values and set type: number or integer."
        )
    if with_a_sign(values):
        found.remarks.append(
            "numbers with a percent or currency sign; remove the sign to publish numbers."
        )
    return found


def _list(profile: Profile, values: list[str]) -> Proposal:
    if is_free_text(values) and len(values) > FEW_ROWS:
        return identifier(f"free text: {len(values):,} distinct texts of several words")
    if profile.is_dense:
        return identifier(f"its {profile.n_values:,} values all differ")
    if len(values) > MOST_LISTED:
        often = profile.n_values / len(values)
        times = f"each about {often:.3g} times" if often >= _OFTEN else "most of them unique"
        return identifier(
            f"{len(values):,} distinct texts, {times}; to publish it, list the public "
            "values, or make it coarser"
        )
    return Proposal({"type": "categorical", "values": sorted(values)})
