"""What an audit found: a verdict for each promise, with the witness or the resolution reached."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from hushtable.audit.bounds import EventTally
from hushtable.audit.inputs import Input

Verdict = Literal["VIOLATION", "NO VIOLATION FOUND", "NOT TESTED"]


@dataclass(frozen=True)
class Witness:
    """Two made-up inputs and what was seen of them.

    Parameters
    ----------
    name : str
        What the inputs are.
    likelier, other : Input
        The input on which the event should be likelier, and the one it is compared with; None
        where a promise is about single inputs.
    event : str
        What happened.
    tally, other_tally : EventTally
        How often it happened on each.
    """

    name: str
    likelier: Input
    other: Input | None
    event: str
    tally: EventTally
    other_tally: EventTally | None

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        content: dict[str, Any] = {
            "name": self.name,
            "event": self.event,
            "input": self.likelier.describe(),
            "hits": self.tally.hits,
            "runs": self.tally.runs,
        }
        if self.other is not None:
            content["other_input"] = self.other.describe()
        if self.other_tally is not None:
            content |= {
                "other_hits": self.other_tally.hits,
                "other_runs": self.other_tally.runs,
            }
        return content


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found about one promise.

    Parameters
    ----------
    promise : str
        The promise in words.
    verdict : {"VIOLATION", "NO VIOLATION FOUND", "NOT TESTED"}
        Whether it was falsified, or could have been.
    would_see : str
        Where no violation was found: the smallest one that would have been, in words.
    reason : str
        Where it was not tested: why.
    measure : str
        What `limit`, `bound` and `resolution` are numbers of.
    limit : float, optional
        What was promised.
    bound : float, optional
        The bound that the runs prove.
    resolution : float, optional
        The least violation that would have been seen with a chance of 95 %, at an event as common
        as the one tested, or else at one that the neighbor never has.
    n_inputs : int
        Pairs of neighbors, or inputs, that were searched.
    witness : Witness, optional
        What was tested in the end.
    notes : tuple of str
        What else to know.
    """

    promise: str
    verdict: Verdict
    would_see: str = ""
    reason: str = ""
    measure: str = "epsilon"
    limit: float | None = None
    bound: float | None = None
    resolution: float | None = None
    n_inputs: int = 0
    witness: Witness | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def headline(self) -> str:
        """Say the verdict, with what makes it worth something."""
        if self.verdict == "NO VIOLATION FOUND":
            return f"{self.verdict} (would have seen {self.would_see})"
        return f"{self.verdict} ({self.reason})" if self.reason else self.verdict

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data; numbers without end are null."""
        return {
            "promise": self.promise,
            "verdict": self.verdict,
            "would_have_seen": self.would_see or None,
            "reason": self.reason or None,
            "measure": self.measure,
            "limit": _finite(self.limit),
            "bound": _finite(self.bound),
            "resolution": _finite(self.resolution),
            "n_inputs": self.n_inputs,
            "witness": None if self.witness is None else self.witness.to_dict(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class Report:
    """What an audit found.

    Parameters
    ----------
    method : str
        The method.
    parameters : dict
        Its parameters.
    confidence : float
        One minus the chance that a method which keeps all its promises is accused.
    n_runs : int
        How often the method was run, in all.
    seconds : float
        How long that took.
    findings : tuple of Finding
        One for each promise.
    """

    method: str
    parameters: dict[str, Any]
    confidence: float
    n_runs: int
    seconds: float
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all: a violation, or else a promise that was not tested."""
        found = {finding.verdict for finding in self.findings}
        if "VIOLATION" in found:
            return "VIOLATION"
        return "NO VIOLATION FOUND" if found == {"NO VIOLATION FOUND"} else "NOT TESTED"

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return {
            "method": self.method,
            "parameters": self.parameters,
            "verdict": self.verdict,
            "confidence": self.confidence,
            "n_runs": self.n_runs,
            "seconds": round(self.seconds, 3),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def lines(self) -> list[str]:
        """Say it for people, a line each; violations first."""
        said = []
        for finding in sorted(self.findings, key=lambda one: one.verdict != "VIOLATION"):
            said += [f"{finding.headline}: {finding.promise}", *_told(finding)]
        said.append(
            f"{self.n_runs:,} runs in {self.seconds:.1f} s. A method that keeps its promises is "
            f"accused with probability at most {1 - self.confidence:.2g}; one that is not accused "
            "is not proved right."
        )
        return said


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _told(finding: Finding) -> list[str]:
    said: list[str] = []
    witness = finding.witness
    if witness is not None:
        said.append(f"  tested: {witness.name}; event: {witness.event}")
        seen = f"  seen {witness.tally.hits:,} times in {witness.tally.runs:,} runs"
        if witness.other_tally is not None:
            seen += (
                f" on one input, {witness.other_tally.hits:,} times in "
                f"{witness.other_tally.runs:,} on its neighbor"
            )
        said.append(seen + ".")
    if finding.limit is not None and finding.bound is not None:
        bound = f"{finding.bound:.4g}" if math.isfinite(finding.bound) else "nothing"
        said.append(f"  {finding.measure}: promised {finding.limit:.4g}, proved at least {bound}.")
    if finding.verdict == "NO VIOLATION FOUND" and finding.resolution is not None:
        said.append(f"  {finding.n_inputs:,} inputs searched.")
    if finding.verdict == "VIOLATION" and witness is not None:
        said.append(f"  input: {_rows(witness.likelier)}")
        if witness.other is not None:
            said.append(f"  neighbor: {_rows(witness.other)}")
    return said + [f"  {note}" for note in finding.notes]


def _rows(given: Input) -> str:
    shown = "; ".join(
        ", ".join(f"{name} {value}" for name, value in row.items()) for row in given.describe()
    )
    return shown if len(shown) <= 600 else shown[:600] + " ... (all of it with --json)"
