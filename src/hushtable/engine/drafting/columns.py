"""One column of a draft: what its values look like, proposed and said why."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import numpy as np

from hushtable.engine.drafting.moments import propose_moment
from hushtable.engine.drafting.profile import FEW_ROWS, Profile
from hushtable.engine.drafting.proposal import MOST_LISTED, Proposal, identifier
from hushtable.engine.drafting.readings import (
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
from hushtable.engine.drafting.sentinels import sentinels
from hushtable.schema import MAX_COLUMN_SIZE

_MANY_ROWS = 100  # in a longer table, whole numbers that all differ number the rows
_GRID_POINTS = 1000  # about the finest grid that is proposed
_MAX_DECIMALS = 6
_WIDE = 200  # values; in a wider range a value that many rows have is a spike
_SPIKE = 0.2  # share of the rows
_OFTEN = 1.5  # rows with the same text, on average, from which that is worth saying

_LISTED = ("categorical", "boolean")  # types without bounds to be clipped to

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
    """Propose one column."""
    if profile.family == "other":
        return identifier("its type cannot be published as it is; convert it first")
    if not profile.n_values:
        return identifier("it has no values")
    if not profile.complete:
        return identifier(f"it has more than {len(profile.values):,} different values")
    if personal := _personal(profile):
        return identifier(personal)
    if profile.family == "boolean" or _are_truths(profile):
        found = Proposal({"type": "boolean"})
    else:
        found = _number(profile) or propose_moment(profile) or _listed(profile)
    if found.content.get("role") == "identifier":
        return found
    has_missing = profile.n_missing > 0
    content = found.content
    content["missing"] = "category" if has_missing else "other"
    listed = "missing" if has_missing else "other"
    content["outside"] = listed if content["type"] in _LISTED else "clip"
    if len(profile.values) == 1 and not has_missing:
        found.remarks.append("the same in all rows: it tells nothing, and may be left out.")
    return found


def _are_truths(profile: Profile) -> bool:
    """Say whether texts are truth values, as other programs write them."""
    return {str(value).lower() for value in profile.values} == {"true", "false"}


def _personal(profile: Profile) -> str:
    """Say why a column points at persons; "" if it does not seem to."""
    if profile.family != "text":
        return ""
    if are_addresses(profile.values):
        return "these are e-mail addresses"
    many = len(profile.values)
    if many > FEW_ROWS and _is_named_so(profile):
        return f"by its name it points at persons, and it has {many:,} different values"
    return ""


def _is_named_so(profile: Profile) -> bool:
    """Say whether a column has the name of what tells persons apart, and could.

    A name is no number or day (``months_since_last_visit``), and a number of an account or a phone
    does not repeat often (``account_percent``).
    """
    named = bool(_NAMED.search(profile.name)) and not _OF_A_THING.search(profile.name)
    if not named and not _NUMBERED.search(profile.name):
        return False
    if propose_moment(profile) is not None:
        return False
    if all(as_number(value) is not None for value in profile.values):
        return bool(_NUMBERED.search(profile.name)) and 2 * len(profile.values) > profile.n_values
    return True


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


# --- lists ----------------------------------------------------------------------------------------


def _listed(profile: Profile) -> Proposal:
    values = [str(value) for value in profile.values]
    found = _list(profile, values)
    if has_leading_zero(values) and "values" in found.content:
        found.remarks.append("codes with leading zeros, kept as texts: keep the quotes.")
    if with_marks_of_thousands(values):
        found.remarks.append(
            "numbers with marks of thousands? Write them without. If these are decimal commas, say "
            "so (reading: {decimal: ','}) and give the column type: number."
        )
    if words := few_that_are_no_numbers(values):
        found.remarks.append(
            f"numbers but for {', '.join(map(repr, words))}: to publish numbers, name such words "
            "under missing_values and give the column a type for numbers."
        )
    if with_a_sign(values):
        found.remarks.append("numbers with a sign; write them without it to publish numbers.")
    return found


def _list(profile: Profile, values: list[str]) -> Proposal:
    if is_free_text(values) and len(values) > FEW_ROWS:
        return identifier(f"free text: {len(values):,} different texts of several words")
    if profile.is_dense:
        return identifier(f"its {profile.n_values:,} values all differ")
    if len(values) > MOST_LISTED:
        often = profile.n_values / len(values)
        times = f"each about {often:.3g} times" if often >= _OFTEN else "most of them once"
        return identifier(
            f"{len(values):,} different texts, {times}; to publish it, list "
            "what is public, or make it coarser"
        )
    return Proposal({"type": "categorical", "values": sorted(values)})
