"""Proposals for columns of dates, timestamps, times of day and durations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from hushtable.drafting.profile import Profile
from hushtable.drafting.proposal import MOST_LISTED, Proposal, identifier
from hushtable.drafting.readings import day_format, days_of
from hushtable.engine.moment_codes import steps_of
from hushtable.schema.calendar import SHORT, Date, Timestamp, read_clock, read_time
from hushtable.schema.numeric import Duration

_MOST_PERIODS = 1000  # approximate maximum number of calendar steps proposed
_IN_UTC = re.compile(r"[+]00(:00)?$")  # text of a timestamp that was stored with a time zone


def propose_calendar(profile: Profile) -> Proposal | None:
    """Return the proposal for a column of dates, timestamps, times or durations, else None."""
    if profile.family not in ("text", "moment"):
        return None
    texts = [value for value in profile.values if isinstance(value, str)]
    if not texts or len(texts) < len(profile.values):
        return None
    if profile.family == "moment":
        texts = [_IN_UTC.sub("", text) for text in texts]
    for read in (_days, _moments, _clocks, _lengths):
        if (found := read(profile, texts)) is not None:
            return found
    return None


def _days(profile: Profile, texts: list[str]) -> Proposal | None:
    days = [text.removesuffix(" 00:00:00") for text in texts]
    spelling = day_format(days)
    if spelling is None:
        return None
    if spelling == "%Y-%m-%d":
        if len(days) == 1:  # a constant has no bounds
            return None
        ordered = sorted(days_of(days, spelling))
        bounds = {"low": ordered[0].isoformat(), "high": ordered[-1].isoformat()}
        return Proposal(
            {"type": "date", **bounds, "step": "day"}, ["dates; consider a coarser step."]
        )
    to_publish = "to publish them as dates, write them as 2024-12-31 and set type: date"
    if len(days) <= MOST_LISTED and not profile.is_dense:
        values = sorted(days, key=lambda text: days_of([text], spelling))
        remark = f"dates in the format {spelling}, kept as text; {to_publish}."
        return Proposal({"type": "categorical", "values": values}, [remark])
    return identifier(
        f"{len(days):,} distinct dates in the format {spelling}; {to_publish}, or convert them to "
        "years or months"
    )


def _moments(_: Profile, texts: list[str]) -> Proposal | None:
    seconds = _read(texts, read_time)
    if seconds is None or len(seconds) == 1:
        return None
    step = _step(seconds, ("second", "minute", "hour", "day"))
    if step == "day":
        low, high = Date.written(min(seconds)), Date.written(max(seconds))
        content = {"type": "date", "low": low, "high": high, "step": step}
        return Proposal(
            content, ["timestamps, proposed by day; use type: timestamp for finer steps."]
        )
    low, high = Timestamp.written(min(seconds)), Timestamp.written(max(seconds))
    grid = Timestamp(type="timestamp", low=low, high=high, step=step)
    content = {
        "type": "timestamp", "low": grid.value(0), "high": grid.value(grid.n_values - 1),
        "step": step,
    }  # fmt: skip
    return Proposal(content, [f"timestamps by {step}; consider a coarser step."])


def _clocks(_: Profile, texts: list[str]) -> Proposal | None:
    if _read(texts, read_clock) is None:
        return None
    return Proposal({"type": "time", "step": "hour"}, ["times of day, by hour."])


def _lengths(_: Profile, texts: list[str]) -> Proposal | None:
    by_second = Duration(type="duration", low=0, high=0, step="second")
    seconds = [steps_of(text, by_second) for text in texts]
    known = [second for second in seconds if second is not None]
    if len(known) < len(texts):
        return None
    step = _step(known, ("second", "minute", "hour", "day", "week"))
    low, high = min(known) // SHORT[step], max(known) // SHORT[step]
    content = {"type": "duration", "low": low, "high": high, "step": step}
    return Proposal(content, [f"durations in whole {step}s."])


def _read(texts: list[str], read: Callable[[str], int]) -> list[int] | None:
    try:
        return [read(text) for text in texts]
    except ValueError:
        return None


def _step(seconds: Sequence[int], steps: Sequence[str]) -> Any:
    """Return the coarsest lossless step, or a coarser one if it gives too many values."""
    span = max(seconds) - min(seconds)
    whole = [step for step in steps if all(second % SHORT[step] == 0 for second in seconds)]
    fine = [step for step in steps if span / SHORT[step] <= _MOST_PERIODS]
    exact = whole[-1] if whole else steps[0]
    coarse = fine[0] if fine else steps[-1]
    return max(exact, coarse, key=SHORT.__getitem__)
