"""Audit of a method: tests of every promise on its worst known neighbors and on others."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from hushtable.audit import noise_check, pipeline_check, side_effects
from hushtable.audit.cases import CASES, Case
from hushtable.audit.claims import BEYOND_DELTA, LOG_RATIO, SingleTest, loss_claims
from hushtable.audit.code_constants import constants_of
from hushtable.audit.differences import (
    DifferenceTest,
    observations_of,
    plan_of,
    some_inputs,
    watched_for,
)
from hushtable.audit.inputs import Pair
from hushtable.audit.loss import LossClaim, LossTest, RepeatTest
from hushtable.audit.report import Finding, Report
from hushtable.audit.subject import Clock, Prepared, Subject, stopwatch
from hushtable.audit.white_box import WhiteBox
from hushtable.engine.output_guard import logged
from hushtable.errors import HushtableError, ParameterError
from hushtable.files.progress import Progress, silent
from hushtable.methods import registry
from hushtable.methods.parameters import Parameters
from hushtable.privacy.guarantee import (
    Guarantee,
    KAnonymity,
    NoGuarantee,
    Threshold,
    UncertainAnonymity,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema

CONFIDENCE = 1 - 1e-6
RUNS = 20_000
LARGEST = 3
SECONDS = 50.0

TESTS = ("generator", "elsewhere", "pipeline", "account", "differences", "repeats", "loss")
"""Names of the tests, fast ones first; the audit ends if a fast one finds a violation."""

Test = Callable[[float, Clock], Finding | list[Finding] | None]


@logged("audit")
def audit(
    method: Parameters,
    schema: Schema | None = None,
    *,
    runs: int = RUNS,
    confidence: float = CONFIDENCE,
    seconds: float | None = SECONDS,
    largest: int = LARGEST,
    pairs: Sequence[Pair] | None = None,
    noise: Noise | None = None,
    tests: Collection[str] = TESTS,
    progress: Progress = silent,
) -> Report:
    """Try to falsify the promises of a method.

    Fast tests come first: where noise comes from, and whether anything published differs with
    certainty between neighbors of many sizes. Then, for a promise about neighbors, half of the runs
    search for two neighbors and an event that distinguishes them, and the other half compute a
    lower bound on the loss from that event. All inputs are artificial, so a report contains no
    private data.

    Parameters
    ----------
    method : Parameters
        The method, with its parameters.
    schema : Schema, optional
        Public schema of the inputs. By default, a small one that fits the parameters.
    runs : int
        Runs on each side of a pair of neighbors, for each promise.
    confidence : float
        One minus the maximum probability that a method which keeps its promises is accused.
    seconds : float, optional
        Approximate limit on CPU time, and on a fourth of the elapsed time; fewer pairs and runs are
        tested to fit. None for no limit.
    largest : int
        Search all tables of up to this many rows (graphs of this many nodes) in addition to the
        worst cases registered by the method; 0 for none.
    pairs : sequence of Pair, optional
        Neighbors to try instead of all these.
    noise : Noise, optional
        Source of randomness, for tests of the audit itself. By default, that of a release.
    tests : collection of str
        Tests to run: "generator", "elsewhere", "pipeline", "account", "differences", "repeats" and
        "loss". By default, all.
    progress : Progress
        Callback for progress.

    Returns
    -------
    Report
        One or more findings for each promise.

    Raises
    ------
    ParameterError
        If a parameter is invalid, or the method has no registered audit case.

    Examples
    --------
    >>> from hushtable.methods import ContingencyTable
    >>> report = audit(ContingencyTable(epsilon=1), runs=400, largest=1, tests=["loss"])
    >>> report.verdict, report.findings[0].limit
    ('NO VIOLATION FOUND', 1.0)
    """
    problems = []
    if not 0 < confidence < 1:
        problems.append(f"confidence is {confidence}; it must be between 0 and 1.")
    if runs < 2:
        problems.append(f"runs is {runs}; it must be at least 2.")
    if seconds is not None and seconds <= 0:
        problems.append(f"seconds is {seconds}; it must be above 0.")
    if not 0 <= largest <= 5:
        problems.append(f"largest is {largest}; it must be from 0 to 5.")
    if unknown := sorted(set(tests) - set(TESTS)):
        problems.append(f"tests contains {', '.join(unknown)}; allowed are {', '.join(TESTS)}.")
    ParameterError.raise_if_any(problems)
    case = case_of(method.name)
    schema, prepared = _prepared(case, method, schema)
    subject = Subject(method, schema, prepared, noise or SecureNoise())
    started, used = time.monotonic(), stopwatch()
    claims = {
        promise: _claims(promise, case, subject, largest, pairs) for promise in prepared.guarantees
    }
    quick = _quick_tests(claims, case, subject, runs=runs, pairs=pairs, tests=tests)
    slow = [
        test
        for promise, its_claims in claims.items()
        for test in _tests(promise, its_claims, subject, runs=runs)
        if "loss" in tests
    ]
    n_tests = max(1, len(quick) + len(slow))
    quickly: list[Finding] = []
    slowly: list[Finding] = []
    for number, test in enumerate([*quick, *slow]):
        is_slow = number >= len(quick)
        if any(one.verdict == "VIOLATION" for one in quickly):
            break  # a violation is proved already
        allowed = _allowed(seconds, used(), n_tests - number, is_slow=is_slow)
        clock = Clock(allowed, progress, number / n_tests, 1 / n_tests)
        result = test((1 - confidence) / n_tests, clock)
        for one in result if isinstance(result, list) else [result]:
            (slowly if is_slow else quickly).extend([one] if one else [])
    progress("done", 1.0)
    outlook, findings = subject.outlook, [*slowly, *quickly]
    if outlook.refusal and not outlook.n_released:  # equal refusals are no evidence
        reason = f"every run was refused: {outlook.refusal}"
        findings = [
            dataclasses.replace(one, verdict="NOT TESTED", reason=reason, would_see="")
            if one.about_runs and one.verdict == "NO VIOLATION FOUND"
            else one
            for one in findings
        ]
    return Report(
        method=method.name,
        parameters=method.parameters(),
        confidence=confidence,
        n_runs=subject.n_runs,
        seconds=time.monotonic() - started,
        findings=tuple(findings),
    )


def _allowed(seconds: float | None, spent: float, n_left: int, *, is_slow: bool) -> float | None:
    """Return the CPU seconds that a test may take; None for no limit.

    A fast test gets 60% of what remains of the first half of `seconds` (at least 2% of `seconds`).
    A slow test gets an even share of the remaining time (of at least 10% of `seconds`).

    Examples
    --------
    >>> _allowed(50.0, 5.0, 3, is_slow=False), _allowed(50.0, 20.0, 3, is_slow=True)
    (12.0, 10.0)
    """
    if seconds is None:
        return None
    if is_slow:
        return max(0.1 * seconds, seconds - spent) / n_left
    return max(0.02 * seconds, 0.6 * (seconds / 2 - spent))


def case_of(name: str) -> Case[Any]:
    """Return the audit case of a built-in method, or the one that a method's `MethodSpec` names."""
    spec = registry.find(name)
    case: Case[Any] | None = CASES.get(name)
    if case is None and spec is not None and spec.audit:
        case = spec.load(spec.audit)
    if case is None:
        raise ParameterError(
            f"method {name!r} has no audit case; name one as `audit` in its MethodSpec."
        )
    return case


def _prepared(
    case: Case[Any], method: Parameters, schema: Schema | None
) -> tuple[Schema, Prepared]:
    """Plan the method for the given schema, or for a small one that fits it."""
    if schema is not None:
        return schema, case.prepare(method, schema)
    try:
        schema = case.schema(method)
        return schema, case.prepare(method, schema)
    except HushtableError as error:
        raise ParameterError(
            ["these parameters need a specific schema; pass one.", *error.problems]
        ) from error


def _claims(
    promise: Guarantee,
    case: Case[Any],
    subject: Subject,
    largest: int,
    pairs: Sequence[Pair] | None,
) -> list[LossClaim]:
    """Return the claims of a promise about neighbors, restricted to `pairs` if given."""
    claims = list(loss_claims(promise, case, subject, largest))
    if pairs is None:
        return claims
    return [
        dataclasses.replace(claim, pairs=list(pairs))
        for claim in claims
        if claim.measure != BEYOND_DELTA
    ]


def _quick_tests(
    claims: dict[Guarantee, list[LossClaim]],
    case: Case[Any],
    subject: Subject,
    *,
    runs: int,
    pairs: Sequence[Pair] | None,
    tests: Collection[str],
) -> list[Test]:
    """Return the fast tests (all except "loss"); none if no promise is about neighbors."""
    listed: list[Test] = []
    about_neighbors = [claim for its in claims.values() for claim in its if not claim.about_delta]
    if not about_neighbors:
        return []
    is_given = pairs is not None
    boxes = [
        WhiteBox(
            watched_for(claim, case, subject, is_given=is_given),
            is_counted=not claim.measure.startswith(LOG_RATIO),
            coins=constants_of(plan_of(subject)).unlikely(),
        )
        for claim in about_neighbors
    ]
    if "generator" in tests:
        listed.append(lambda error, clock: noise_check.checked(subject.noise, error=error))
    if "elsewhere" in tests:
        inputs = some_inputs(about_neighbors[0])
        listed.append(lambda error, clock: side_effects.checked(subject, inputs))
    if "pipeline" in tests:
        listed.append(lambda error, clock: pipeline_check.checked(subject, clock))
    if "account" in tests:
        listed += [lambda error, clock, box=box: box.findings(error, clock) for box in boxes]  # type: ignore[misc]
    for claim, box in zip(about_neighbors, boxes, strict=True):
        if "differences" in tests:
            listed.append(
                lambda error, clock, claim=claim, box=box: DifferenceTest(  # type: ignore[misc]
                    claim,
                    observations_of(
                        claim, case, subject, is_given=is_given, is_watched=bool(box.n_draws)
                    ),
                    runs,
                    error,
                    clock,
                ).finding()
            )
        if "repeats" in tests:
            listed.append(
                lambda error, clock, claim=claim: RepeatTest(  # type: ignore[misc]
                    subject, claim, runs, error, clock
                ).finding()
            )
    return listed


def _tests(
    promise: Guarantee, claims: list[LossClaim], subject: Subject, *, runs: int
) -> list[Test]:
    """Return the tests of a promise; each takes its share of the error probability and a clock."""
    if isinstance(promise, NoGuarantee):
        said = Finding(
            promise=promise.explain(), verdict="NOT TESTED", reason="the method makes no promise"
        )
        return [lambda error, clock: said]
    single = {
        Threshold: SingleTest.threshold,
        KAnonymity: SingleTest.k_anonymity,
        UncertainAnonymity: SingleTest.uncertain_anonymity,
    }.get(type(promise))
    if single is not None:
        return [lambda error, clock: single(SingleTest(subject, promise, runs, error, clock))]
    return [
        lambda error, clock, claim=claim: LossTest(subject, claim, runs, error, clock).finding()  # type: ignore[misc]
        for claim in claims
    ]
