"""Results of an audit: a verdict for each promise, with a witness or a detection limit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from hushtable.audit.bounds import EventTally
from hushtable.audit.inputs import Input

Verdict = Literal["VIOLATION", "NO VIOLATION FOUND", "NOT TESTED"]


@dataclass(frozen=True)
class Witness:
    """Two artificial inputs, and how often an event occurred on each."""

    name: str  # description of the inputs
    likelier: Input  # input on which the event should be more likely
    other: Input | None  # its neighbor; None for a promise about single inputs
    event: str
    tally: EventTally
    other_tally: EventTally | None

    def to_dict(self) -> dict[str, Any]:
        """Return the witness as plain data."""
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
    """Result for one promise.

    Attributes
    ----------
    promise : str
        The promise in words.
    verdict : {"VIOLATION", "NO VIOLATION FOUND", "NOT TESTED"}
        Whether the promise was falsified, or could have been.
    would_see : str
        If no violation was found: the smallest violation that would have been detected, in words.
    reason : str
        If the promise was not tested: why.
    measure : str
        Quantity that `limit`, `bound` and `resolution` refer to.
    limit : float, optional
        Promised value.
    bound : float, optional
        Lower bound proved by the runs.
    resolution : float, optional
        Smallest violation that would have been detected with probability 95%, at an event as
        frequent as the one tested or, if that is not possible, at one that never occurs on the
        neighbor.
    n_inputs : int
        Number of pairs of neighbors, or of inputs, that were searched.
    witness : Witness, optional
        Inputs and event of the final test.
    notes : tuple of str
        Further remarks.
    about_runs : bool
        False for what surrounds the method's runs: noise, engines, the ledger and side effects.
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
    about_runs: bool = True

    @property
    def headline(self) -> str:
        """The verdict with its detection limit or reason."""
        if self.verdict == "NO VIOLATION FOUND":
            return f"{self.verdict} (would have detected {self.would_see})"
        return f"{self.verdict} ({self.reason})" if self.reason else self.verdict

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data; infinite numbers become None."""
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
    """Results of an audit.

    Attributes
    ----------
    method : str
        Name of the method.
    parameters : dict
        Its parameters.
    confidence : float
        One minus the maximum probability that a method which keeps all its promises is accused.
    n_runs : int
        Total number of runs of the method.
    seconds : float
        Wall-clock time.
    findings : tuple of Finding
        Results of the tests of each promise.
    """

    method: str
    parameters: dict[str, Any]
    confidence: float
    n_runs: int
    seconds: float
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The overall verdict: a violation if there is one; "NOT TESTED" only if nothing was.

        Tests of what surrounds the method's runs, such as the source of noise, do not count as
        tests of its promises.
        """
        if any(finding.verdict == "VIOLATION" for finding in self.findings):
            return "VIOLATION"
        tested = any(one.verdict != "NOT TESTED" for one in self.findings if one.about_runs)
        return "NO VIOLATION FOUND" if tested else "NOT TESTED"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
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
        """Return the report as lines of text, violations first."""
        said = []
        for finding in sorted(self.findings, key=lambda one: one.verdict != "VIOLATION"):
            said += [f"{finding.headline}: {finding.promise}", *_lines(finding)]
        said.append(
            f"{self.n_runs:,} runs in {self.seconds:.1f} s. The probability of a false alarm is at "
            f"most {1 - self.confidence:.2g}. An audit without violations does not prove that the "
            "promises hold."
        )
        return said


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _lines(finding: Finding) -> list[str]:
    said: list[str] = []
    witness = finding.witness
    if witness is not None:
        said.append(f"  tested: {witness.name}; event: {witness.event}")
        seen = f"  occurred {witness.tally.hits:,} times in {witness.tally.runs:,} runs"
        if witness.other_tally is not None:
            seen += (
                f" on one input and {witness.other_tally.hits:,} times in "
                f"{witness.other_tally.runs:,} runs on its neighbor"
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
    return shown if len(shown) <= 600 else shown[:600] + " ... (use --json for all)"
