"""Proposal for one column of a draft, with remarks."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import compress
from typing import Any

import numpy as np

from hushtable.drafting.catalog import recognize
from hushtable.drafting.names import NAMES, say
from hushtable.drafting.profile import (
    ANY_NUMBER,
    FEW_ROWS,
    NumberRead,
    Profile,
    are_addresses,
    as_number,
    day_formats,
    days_of,
    few_that_are_no_numbers,
    has_leading_zero,
    is_free_text,
    is_nan_text,
    with_a_sign,
)
from hushtable.engine.encode import steps_of
from hushtable.engine.sources.header import AS_FOUND
from hushtable.engine.sources.spelling import rewrite
from hushtable.engine.sources.whole_files import Labels
from hushtable.schema import MAX_COLUMN_SIZE
from hushtable.schema.calendar import SHORT, Date, Timestamp, read_clock, read_time
from hushtable.schema.column import LEFT_OUT, RECOGNIZED
from hushtable.schema.file_format import FileFormat
from hushtable.schema.numeric import Duration

# Proposal of a draft for one column.

MOST_LISTED = 100
"""A column with more distinct texts is proposed as an identifier."""


@dataclass(frozen=True)
class Proposal:
    """Proposed description of a column."""

    content: dict[str, Any]  # the column in the schema
    remarks: list[str] = field(default_factory=list)  # for the custodian, taken from the data
    by_label: bool = False  # whether values are replaced by their labels in the file
    public: bool = False  # whether nothing was taken from the data
    recognized: bool = False  # whether the domain is one of the catalog

    @property
    def is_published(self) -> bool:
        """Whether the column is published."""
        return "type" in self.content

    @property
    def marks(self) -> list[str]:
        """The parts that a person must confirm."""
        if self.public:
            return []
        if self.recognized:
            return [RECOGNIZED, *(part for part in ("role", "special") if part in self.content)]
        return list(dict.fromkeys(["role", *(part for part in self.content if part != "label")]))


def identifier(why: str) -> Proposal:
    """Return the proposal not to publish a column that identifies persons, with the reason."""
    return Proposal({"role": "identifier"}, [f"not published: {why}."])


def left_out(why: str) -> Proposal:
    """Return the proposal to leave a column out, with the reason."""
    return Proposal({"role": LEFT_OUT}, [f"not published: {why}."])


# Proposals for columns of dates, timestamps, times of day and durations.

_MOST_PERIODS = 1000  # approximate maximum number of calendar steps proposed
_IN_UTC = re.compile(r"[+]00(:00)?$")  # text of a timestamp that was stored with a time zone


def propose_calendar(profile: Profile, order: str = "iso") -> Proposal | None:
    """Return the proposal for a column of dates, timestamps, times or durations, else None."""
    if profile.family not in ("text", "moment"):
        return None
    texts = [value for value in profile.values if isinstance(value, str)]
    if not texts or len(texts) < len(profile.values):
        return None
    if profile.family == "moment":
        texts = [_IN_UTC.sub("", text) for text in texts]
    return _days(profile, texts, order) or _timestamps(texts) or _clocks(texts) or _durations(texts)


def _days(profile: Profile, texts: list[str], order: str) -> Proposal | None:
    days = [text.removesuffix(" 00:00:00") for text in texts]
    formats = day_formats(days)
    if not formats or len(days) == 1:  # a constant has no bounds
        return None
    if order not in formats and formats != ["iso"]:
        return left_out(say("other order of dates", found=formats[0], order=order))
    ordered = sorted(days_of(days, order if order in formats else "iso"))
    bounds = {"low": ordered[0].isoformat(), "high": ordered[-1].isoformat()}
    return Proposal({"type": "date", **bounds, "step": "day"}, ["dates; consider a coarser step."])


def _timestamps(texts: list[str]) -> Proposal | None:
    try:
        seconds = [read_time(text) for text in texts]
    except ValueError:
        return None
    if len(seconds) == 1:
        return None
    step = _step(seconds, ("second", "minute", "hour", "day"))
    remark = f"timestamps by {step}; consider a coarser step."
    if step == "day":
        low, high = Date.written(min(seconds)), Date.written(max(seconds))
        remark = "timestamps, proposed by day; use type: timestamp for finer steps."
        return Proposal({"type": "date", "low": low, "high": high, "step": step}, [remark])
    low, high = Timestamp.written(min(seconds)), Timestamp.written(max(seconds))
    grid = Timestamp(type="timestamp", low=low, high=high, step=step)
    bounds = {"low": grid.value(0), "high": grid.value(grid.n_values - 1)}
    return Proposal({"type": "timestamp", **bounds, "step": step}, [remark])


def _clocks(texts: list[str]) -> Proposal | None:
    try:
        for text in texts:
            read_clock(text)
    except ValueError:
        return None
    return Proposal({"type": "time", "step": "hour"}, ["times of day, by hour."])


def _durations(texts: list[str]) -> Proposal | None:
    by_second = Duration(type="duration", low=0, high=0, step="second")
    seconds = [second for text in texts if (second := steps_of(text, by_second)) is not None]
    if len(seconds) < len(texts):
        return None
    step = _step(seconds, ("second", "minute", "hour", "day", "week"))
    low, high = min(seconds) // SHORT[step], max(seconds) // SHORT[step]
    content = {"type": "duration", "low": low, "high": high, "step": step}
    return Proposal(content, [f"durations in whole {step}s."])


def _step(seconds: Sequence[int], steps: Sequence[str]) -> Any:
    """Return the coarsest lossless step, or a coarser one if it gives too many values."""
    span = max(seconds) - min(seconds)
    whole = [step for step in steps if all(second % SHORT[step] == 0 for second in seconds)]
    fine = [step for step in steps if span / SHORT[step] <= _MOST_PERIODS]
    exact = whole[-1] if whole else steps[0]
    coarse = fine[0] if fine else steps[-1]
    return max(exact, coarse, key=SHORT.__getitem__)


# Detection of sentinel codes among numbers, such as 999 for "never" or -1 for "not asked".

NEGATIVE, HIGH = NAMES["negative_codes"], NAMES["high_codes"]

_FEW_ROWS = 50
"""Minimum number of rows for detection."""

_FAR = 2
"""Minimum distance of a high code from the other values, in multiples of their range."""


def sentinels(counts: Mapping[int, int]) -> list[int]:
    """Return likely codes among integers, given the count of each.

    Negative values are codes if all of them are usual codes, and if there are at most 3 of them or
    other values exceed 10. A high value is one if it is a usual code and is far above all other
    values. With fewer than 50 rows, no value is taken as a code.

    Examples
    --------
    >>> sentinels({0: 5, 3: 20, 27: 1, 999: 400}), sentinels({-1: 9, -8: 2, 1: 50, 2: 40})
    ([999], [-8, -1])
    >>> sentinels({-50: 10, -4: 30, 7: 20}), sentinels({97: 10, 98: 20, 99: 30})
    ([], [])
    """
    if sum(counts.values()) < _FEW_ROWS:
        return []
    values = sorted(counts)
    plain = [value for value in values if value >= 0]
    below = [value for value in values if value < 0]
    found = []
    if len(plain) > 1 and below and all(value in NEGATIVE for value in below):
        # Many negative values next to a small positive range may be ordinary numbers.
        coded = len(below) <= 3 or max(plain) > 10
        found += below if coded else []
    rest = plain
    while len(rest) > 2 and rest[-1] in HIGH:
        span = max(rest[-2] - rest[0], 1)
        if rest[-1] - rest[-2] < _FAR * span:
            break
        found.append(rest[-1])
        rest = rest[:-1]
    return sorted(found)


_MANY_ROWS = 100  # from this many rows on, distinct integers are taken as row numbers
_GRID_POINTS = 1000  # approximate maximum number of grid points proposed
_MAX_DECIMALS = 6
_WIDE = 200  # values; spikes are reported in wider ranges
_SPIKE = 0.2  # share of the rows that makes a value a spike
_OFTEN = 1.5  # minimum mean rows per text for the remark to mention it

_LISTED = ("categorical", "boolean")  # types without bounds

_NAMED, _NUMBERED, _OF_A_THING, _INTERVAL = (
    re.compile(NAMES[key], re.IGNORECASE)
    for key in ("personal", "numbered", "of_a_thing", "interval")
)


def propose(profile: Profile, layout: FileFormat = AS_FOUND) -> Proposal:
    """Return the proposal for one column of a file with a layout."""
    for why, is_so in (
        ("its type is not supported; convert it first", profile.family == "other"),
        ("it has no values", not profile.n_values),
        (f"it has more than {len(profile.values):,} distinct values", not profile.complete),
    ):
        if is_so:
            return left_out(why)
    if personal := _personal(profile):
        return identifier(personal)
    if profile.family == "boolean" or _are_truths(profile):
        found = Proposal({"type": "boolean"})
    else:
        plain = _plain(profile, layout)
        found = _number(plain) or propose_calendar(profile, layout.dates) or _listed(profile)
        if (known := recognize(plain, found.content, layout)) is not None:
            content, said = known
            return Proposal(
                content, [said, *found.remarks[: "special" in content]], recognized=True
            )
    if not found.is_published:
        return found
    if len(profile.values) == 1 and not profile.n_missing:
        found.remarks.append("constant in all rows; it can be left out.")
    return with_rules(found, profile)


def _plain(profile: Profile, layout: FileFormat) -> Profile:
    """Return a column with texts of numbers as the engines read them."""
    if profile.family != "text" or (layout.decimal, layout.thousands) == (".", ""):
        return profile
    return replace(profile, values=[rewrite(v, ANY_NUMBER, layout) for v in profile.values])


def with_rules(found: Proposal, profile: Profile) -> Proposal:
    """Add the rules for missing and out-of-domain values."""
    content, has_missing = found.content, profile.n_missing > 0
    content["missing"] = "category" if has_missing else "other"
    content["outside"] = "missing" if has_missing else "other"
    if content["type"] not in _LISTED:
        content["outside"] = "clip"
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
    """Return the proposal for a column of numbers, or None if some values are not numbers.

    A few words next to many numbers, such as N for "not applicable", become special values.
    """
    values = profile.values
    if profile.family not in ("text", "number") or has_leading_zero(values):
        return None
    words = few_that_are_no_numbers(values)
    words = [word for word in words if not is_nan_text(word)]
    read = [as_number(value) for value in values]
    if any(
        number is None and not is_nan_text(value) and value not in words
        for number, value in zip(read, values, strict=True)
    ):
        return None
    finite = [number for number in read if number is not None and math.isfinite(number.real)]
    if not finite:
        return left_out("it has no finite number to propose bounds from")
    remarks = []
    if words:
        remarks.append(say("numbers and words", words=", ".join(map(repr, words))))
    content = None
    if all(number.whole is not None for number in finite):
        if profile.all_differ and profile.n_values >= _MANY_ROWS:
            return identifier(
                f"its {profile.n_values:,} whole numbers all differ, like row numbers"
            )
        content = _whole(profile, read, remarks)
    content = content or _grid(finite)
    if words:
        content["special"] = content.get("special", {}) | coded_words(words, content["low"])
    return Proposal(content, remarks)


def coded_words(words: Sequence[str], low: float) -> dict[int, str]:
    """Return an unused number below the low bound for each word.

    Examples
    --------
    >>> coded_words(["N", "refused"], 0), coded_words(["N"], -9000)
    ({-1: 'N', -2: 'refused'}, {-9001: 'N'})
    """
    first = min(-1, math.floor(low) - 1)
    return {first - place: word for place, word in enumerate(words)}


def _whole(
    profile: Profile, read: list[NumberRead | None], remarks: list[str]
) -> dict[str, Any] | None:
    """Return the domain of integers with special codes and add remarks; None if it is too wide."""
    counts = Counter[int]()
    for number, n in zip(read, profile.counts.tolist(), strict=True):
        if number is not None and number.whole is not None:
            counts[number.whole] += n
    codes = sentinels(counts)
    if codes:
        remarks.append(say("possible codes", codes=", ".join(map(str, codes))))
    plain = sorted(counts.keys() - set(codes))
    low, high = plain[0], plain[-1]
    if high - low >= MAX_COLUMN_SIZE:
        return None
    content: dict[str, Any] = {"type": "integer", "low": low, "high": high}
    if codes:
        content["special"] = {code: f"code {code}" for code in codes}
    most = max(counts[value] for value in plain)
    spikes = [value for value in plain if counts[value] >= _SPIKE * counts.total()]
    if high - low >= _WIDE and spikes:
        remarks.append(
            say(
                "spikes",
                values=", ".join(map(str, spikes)),
                share=most / counts.total(),
                size=high - low + 1,
            )
        )
    return content


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
    if with_a_sign(values):
        found.remarks.append(
            "numbers with a percent or currency sign; remove the sign to publish numbers."
        )
    return found


def _list(profile: Profile, values: list[str]) -> Proposal:
    if is_free_text(values) and len(values) > FEW_ROWS:
        return left_out(f"free text: {len(values):,} distinct texts of several words")
    if profile.is_dense:
        return identifier(f"its {profile.n_values:,} values all differ")
    if len(values) > MOST_LISTED:
        often = profile.n_values / len(values)
        times = f"each about {often:.3g} times" if often >= _OFTEN else "most of them unique"
        return left_out(say("many texts", n=len(values), times=times))
    ordered = sorted(values, key=natural)
    is_scale = all(map(_INTERVAL.fullmatch, values)) and not has_leading_zero(values)
    if len(values) > 2 and is_scale:
        return Proposal(
            {"type": "categorical", "values": ordered, "ordered": True},
            ["ranges of numbers, proposed as ordered."],
        )
    return Proposal({"type": "categorical", "values": ordered})


_DIGITS = re.compile("([0-9]+)")


def natural(text: str) -> tuple[Any, ...]:
    """Return a sort key by which the numbers in texts are compared as numbers.

    Examples
    --------
    >>> sorted(["10", "2", "b1", "a10", "a9", "<5"], key=natural)
    ['<5', '2', '10', 'a9', 'a10', 'b1']
    """
    below = 0 if re.match(r" *(<|≤|under|below|up to|less)", text, re.IGNORECASE) else 1
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part)
             for part in _DIGITS.split(text) if part]  # fmt: skip
    return below, parts, text


# Proposals for columns whose values have labels in a Stata or SPSS file.

_MOST_SHOWN = 6  # labels in a remark
_MOST_LABELS = 1000  # a longer list is not proposed as categories


def propose_labeled(profile: Profile, labels: Labels) -> Proposal:
    """Return the proposal for a column with labels for some or all values.

    If all values have one, and the labels are distinct, not empty and at most 1,000, they become
    the categories. Otherwise codes such as -9 for "refused" become special values named by their
    labels, and the rest is drafted as usual.
    """
    if profile.n_values and _are_names(labels) and all(value in labels for value in profile.values):
        content = {"type": "categorical", "values": list(labels.values())}
        remark = f"values replaced by their labels in the file: {_shown(labels)}."
        return with_rules(Proposal(content, [remark], by_label=True), profile)
    special = _codes(profile, labels)
    plain = np.array([value not in special for value in profile.values], np.bool_)
    found = propose(
        replace(
            profile,
            n_rows=profile.n_rows - int(profile.counts[~plain].sum()),
            values=list(compress(profile.values, plain)),
            counts=profile.counts[plain],
        )
    )
    if found.content.get("type") in ("integer", "number"):
        if special := found.content.get("special", {}) | special:
            found.content["special"] = dict(sorted(special.items()))
        found.remarks.append(f"labels in the file: {_shown(labels)}.")
    return found


def _are_names(labels: Labels) -> bool:
    """Return whether labels can replace values: distinct, non-empty and not too many."""
    names = set(labels.values())
    return len(names) == len(labels) <= _MOST_LABELS and "" not in names


def _codes(profile: Profile, labels: Labels) -> dict[int, str]:
    """Return labeled values that are usual codes and lie outside the range of unlabeled values.

    A scale from 0 to 10 with labels at both ends has no such codes.
    """
    numbers = [v for v in profile.values if v not in labels and isinstance(v, int | float)]
    if not numbers or not _are_names(labels):
        return {}
    low, high = min(numbers), max(numbers)
    return {
        int(value): name
        for value, name in labels.items()
        if (value in NEGATIVE and low >= 0) or (value in HIGH and float(value) > high + 1)
    }


def _shown(labels: Labels) -> str:
    """Format the first labels.

    Examples
    --------
    >>> _shown({1.0: "male", 2.0: "female"})
    '1 = male, 2 = female'
    """
    first = [
        f"{value if isinstance(value, str) else format(value, 'g')} = {name}"
        for value, name in list(labels.items())[:_MOST_SHOWN]
    ]
    return ", ".join([*first, "..."] if len(labels) > _MOST_SHOWN else first)
