"""Self-test of an installation.

It compares noise with exact probabilities and methods with numbers from their papers, audits
methods briefly, and tests the ledger with concurrent and killed processes. It reads no private
data.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hushtable.errors import HushtableError
from hushtable.files.progress import Progress, silent
from hushtable.files.yaml_text import read_packaged
from hushtable.kernels.anonymity_sets import gaussian_scales, uniform_scales
from hushtable.kernels.graph_edges import projected_degrees
from hushtable.kernels.split_scores import split_score
from hushtable.methods import AlphaBeta, Degrees, DiffGen, NoisyCounts, Partition, Quilt, Uncertain
from hushtable.methods.alpha_beta.frapp import same_privacy_retention
from hushtable.methods.parameters import Parameters
from hushtable.privacy.bounded_adversary import Ratios
from hushtable.privacy.guarantee import PureDP
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.mechanisms.scored_splits import Max, exponent
from hushtable.privacy.mechanisms.single_counts import ThresholdMatrix
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.privacy.unit import Unit
from hushtable.schema import Schema

_DATA: dict[str, Any] = read_packaged("hushtable", "selftest.yaml")

# Checks and their results.

Word = Literal["holds", "FAILS", "not tested"]


@dataclass(frozen=True)
class CheckResult:
    """Outcome of a check, with the figures behind it."""

    word: Word
    said: str


@dataclass(frozen=True)
class SelfCheck:
    """A check: its group, its name, and the function that runs it."""

    group: str
    name: str
    run: Callable[[], CheckResult]


@dataclass(frozen=True)
class CheckRow:
    """Result of a check, with its duration in seconds."""

    group: str
    name: str
    word: Word
    said: str
    seconds: float


def held(found: bool, said: str) -> CheckResult:
    """Return the result of a check that was run: it holds or fails."""
    return CheckResult("holds" if found else "FAILS", said)


# This machine's randomness: words of the operating system, and samplers of compiled code.

ALPHA = 1e-8
"""Probability that a correct installation fails the checks of randomness."""


def _randomness() -> CheckResult:
    from hushtable.audit.noise_check import checked  # noqa: PLC0415 - slow to import

    found = checked(SecureNoise(), error=ALPHA)
    said = " ".join(found.notes) or f"would have detected {found.would_see}"
    return held(found.verdict != "VIOLATION", said)


NOISE_CHECKS = (SelfCheck("noise", "random words and samplers", _randomness),)


# Short audits of one method per family.
#
# These audits include only tests that need few runs: of sources of randomness, recorded costs, and
# certain differences between neighbors. A promise that is not about neighbors (`MEASURED`) has no
# such tests, so it is tested by simulation. `hushtable audit` also measures the loss of all
# methods, which takes longer.

SECONDS = 3.0
"""Approximate CPU seconds of each audit."""

TESTS = ("account", "elsewhere", "differences")
MEASURED = ("uncertain",)

METHODS: dict[str, Callable[[], Parameters]] = {
    "counts": lambda: NoisyCounts(epsilon=1, delta="1e-3", k=3),
    "partition": lambda: Partition(epsilon=1),
    "degrees": lambda: Degrees(epsilon=1, max_degree=2),
    "uncertain": lambda: Uncertain(k=2),
    "diffgen": lambda: DiffGen(epsilon=1, specializations=2),
    "alpha_beta": lambda: AlphaBeta(alpha="9/20", beta="1/20"),
    "quilt": lambda: Quilt(epsilon=1, delta="1e-6", particles=1000),
}


def _families_check(family: str) -> CheckResult:
    from hushtable.audit import audit  # noqa: PLC0415 - slow to import

    method = METHODS[family]()
    tests = (*TESTS, "loss") if family in MEASURED else TESTS
    report = audit(method, seconds=SECONDS, tests=tests)
    if report.verdict == "VIOLATION":
        return CheckResult("FAILS", f"{method.name}: see hushtable audit {method.name}")
    tested = f"{method.name}: {report.n_runs:,} runs"
    if report.verdict == "NOT TESTED":
        left = [one for one in report.findings if one.verdict == "NOT TESTED"]
        return CheckResult(
            "not tested", f"{tested}, {len(left)} of {len(report.findings)} tests not run"
        )
    return CheckResult("holds", f"{tested}, no violation found")


METHOD_CHECKS = tuple(
    SelfCheck("promises", f"audit of {name}", partial(_families_check, name)) for name in METHODS
)


# Tests of the ledger on this machine's disk: concurrent and killed processes, forged records.

N_CHARGES = 40
"""Number of charges that fit under the cap."""

N_KILLED = 3


@contextlib.contextmanager
def _book() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hushtable-selftest-") as folder:
        path = Path(folder) / "table.ledger"
        Ledger.create(path, epsilon=Fraction(N_CHARGES, 10))
        yield path


def _spender(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - this program itself
        [sys.executable, "-c", _DATA["spender"], str(path)], stdout=subprocess.PIPE, text=True
    )


def _race() -> CheckResult:
    """Run processes that charge until they are refused; kill some of them."""
    with _book() as path:
        doomed = [_spender(path) for _ in range(N_KILLED)]
        told = 0
        for process in doomed:
            assert process.stdout is not None  # noqa: S101 - stdout is a pipe
            told += process.stdout.readline().startswith("charged")
            process.kill()
            told += process.stdout.read().count("charged")
            process.wait()
            process.stdout.close()
        last = [_spender(path) for _ in range(2)]
        said = [process.communicate()[0] for process in last]
        told += sum(text.count("charged") for text in said)
        book = Ledger.open(path)
        book.verify()
        entries = len(book.entries())
        # A killed process may have recorded a charge without reporting it.
        kept = entries == N_CHARGES and told <= entries <= told + N_KILLED
        refused = all(text.endswith("refused\n") for text in said)
        return held(
            kept and refused,
            f"{entries} of {N_CHARGES} charges, {told} reported, {N_KILLED} processes killed",
        )


def _forged() -> CheckResult:
    """Change a record, and delete the last one: the ledger must detect both."""
    with _book() as path:
        book = Ledger.open(path)
        promise = PureDP(epsilon=Fraction(1, 10), unit=Unit(kind="row"), neighbors="add-remove")
        for _ in range(3):
            book.charge([promise], purpose="selftest")
        noticed = 0
        for change in (
            "UPDATE records SET body = replace(body, '1/10', '1/99') WHERE seq = 2",
            "DELETE FROM records WHERE seq = (SELECT max(seq) FROM records)",
        ):
            copy = path.with_name("copy.ledger")
            shutil.copy(path, copy)
            with contextlib.closing(sqlite3.connect(copy)) as forger:
                changed = forger.execute(change).rowcount
                forger.commit()
            try:
                Ledger.open(copy).verify()
            except HushtableError:
                noticed += changed
            copy.unlink()
        return held(noticed == 2, f"{noticed} of 2 forgeries detected")


LEDGER_CHECKS = (
    SelfCheck("ledger", "concurrent and killed processes", _race),
    SelfCheck("ledger", "forged records", _forged),
)


# Numbers from the papers and their corrections, compared with this implementation.
#
# `selftest.yaml` has the numbers; the tests contain the full lists.

_DOUBLE = 1e-12


def _close(
    found: Sequence[float | Fraction], wanted: Sequence[str], tolerance: float = _DOUBLE
) -> CheckResult:
    off = max(abs(float(x) / float(y) - 1) for x, y in zip(found, wanted, strict=True))
    return held(off <= _DOUBLE, f"{len(wanted)} numbers, relative error at most {off:.1g}")


def _release_probabilities() -> CheckResult:
    wanted = _DATA["release_probabilities"]
    paper = ThresholdMatrix(epsilon=Fraction(1), delta=Fraction(1, 1000), k=3)
    return _close([paper.release_probability(count) for count in wanted], list(wanted.values()))


def _partitions_and_degrees() -> CheckResult:
    ends = np.array([[0, 1], [0, 2], [0, 3], [0, 4], [1, 2], [3, 4]], np.int32)
    degrees = projected_degrees(ends[:, 0], ends[:, 1], 5, 2).tolist()
    left, right = np.array([1, 0], np.int64), np.array([0, 2], np.int64)
    found = int(split_score(left, left + right, True))  # twice quality (3)
    return held(degrees == [2, 2, 2, 1, 1] and found == 5, "projected degrees, quality of a split")


def _uncertain_scales() -> CheckResult:
    points = np.array([[0, 0], [1, 0], [0, 1], [2, 2], [3, 1], [-1, 2]], np.float64)
    two = np.full(6, 2.0)
    solved = [*gaussian_scales(points, two), *uniform_scales(points, two)]
    exact = map(float, _DATA["scales"])
    # The search approaches scales from above: never too small, and at most 0.5% too large.
    off = [x / y - 1 for x, y in zip(solved, exact, strict=True)]
    safe = min(off) >= -_DOUBLE and max(off) <= 0.005
    return held(safe, f"12 scales, at most {100 * max(off):.2g}% too large, none too small")


def _budgets() -> CheckResult:
    numbers = {f"x{i}": {"type": "integer", "low": 0, "high": 99} for i in range(6)}
    target = {"type": "categorical", "values": ["Y", "N"], "role": "target"}
    schema = Schema.from_dict({"name": "t", "columns": {**numbers, "class": target}})
    method = DiffGen(epsilon=Fraction(1, 10), specializations=4, score="max", calibration="paper")
    plan = method.plan(schema)
    prime = plan.round_epsilon(4)
    paper = exponent(Max(), epsilon=prime, sensitivity=1, monotone=False)
    found = [prime, plan.structure_epsilon, paper]
    return _close(found, _DATA["budgets"])


def _posteriors() -> CheckResult:
    d, gamma = Fraction(10 * 30162, 648023040), Fraction(1, 5)
    twice = Ratios.of_repeated_views(keep=Fraction(1, 2), insert=d / gamma, views=2)
    retention = same_privacy_retention(d=d, gamma=gamma, n_tuples=30162, n_domain=648023040)
    found = [twice.high, twice.posterior(d, "independent"), twice.low, retention]
    return _close(found, _DATA["posteriors"])


PAPER_CHECKS = tuple(
    SelfCheck("papers", name, look)
    for name, look in {
        "Li and Li (2009), release probabilities": _release_probabilities,
        "Qardaji and Li (2012), regions and degrees": _partitions_and_degrees,
        "Aggarwal (2008), scales of uncertain records": _uncertain_scales,
        "Mohammed et al. (2011), budgets and exponents": _budgets,
        "Rastogi et al. (2007), posteriors of a bounded adversary": _posteriors,
    }.items()
)


# Execution of all checks.

CHECKS: tuple[SelfCheck, ...] = (
    *NOISE_CHECKS,
    *PAPER_CHECKS,
    *LEDGER_CHECKS,
    *METHOD_CHECKS,
)


def run_checks(
    checks: Sequence[SelfCheck] = CHECKS, *, progress: Progress = silent
) -> list[CheckRow]:
    """Run checks and return their results; an error counts as a failure."""
    rows = []
    for number, check in enumerate(checks):
        progress(check.name, number / len(checks))
        begun = time.monotonic()
        try:
            found = check.run()
        except HushtableError as error:
            found = CheckResult("FAILS", str(error))
        except Exception as error:  # any error is a failed check
            found = CheckResult("FAILS", f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - begun
        rows.append(CheckRow(check.group, check.name, found.word, found.said, seconds))
    progress("done", 1.0)
    return rows
