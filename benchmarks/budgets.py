"""Number of releases that fit a budget cap, with basic composition only and with the ledger's rule.

Run it with ``python -m benchmarks.budgets``; it prints the table of
``docs/how-to/plan-a-budget.md``. The ledger uses both basic composition and zCDP composition. The
numbers are exact: no data is read, and no noise is sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from hushtable.datasets import sample_schema
from hushtable.methods.base import Method
from hushtable.methods.counts.noisy_counts import NoisyCounts
from hushtable.methods.partition.partition import Partition
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.ledger.budget import NOTHING, Budget, LedgerCap
from hushtable.privacy.ledger.state import LedgerState

CAPS = (("1", "1e-6"), ("3", "1e-5"), ("10", "1e-6"))
EPSILONS = ("0.1", "0.5", "1")
RELEASES: dict[str, Callable[[str], Method]] = {
    "`quilt`, delta 1e-6": lambda epsilon: Quilt(epsilon=epsilon, delta="1e-6"),
    "`quilt`, delta 1e-6, concentrated": lambda epsilon: Quilt(
        epsilon=epsilon, delta="1e-6", accounting="concentrated"
    ),
    "`quilt`, delta 1e-9": lambda epsilon: Quilt(epsilon=epsilon, delta="1e-9"),
    "`quilt`, delta 1e-9, concentrated": lambda epsilon: Quilt(
        epsilon=epsilon, delta="1e-9", accounting="concentrated"
    ),
    "`noisy-counts`, delta 1e-9": lambda epsilon: NoisyCounts(
        epsilon=epsilon, delta="1e-9", k=10, generalize={"age": 20}
    ),
    "`partition`": lambda epsilon: Partition(epsilon=epsilon),
}


def fitting(method: Method, cap: Budget) -> tuple[int, int]:
    """Return the number of releases that fit, with basic composition and with the ledger's rule."""
    loss = LedgerState(unit=sample_schema().unit).priced(method.guarantee(sample_schema())).cost
    alone = LedgerCap(basic=cap)
    return alone.remaining_charges(NOTHING, loss), LedgerCap.for_first(cap, loss).remaining_charges(
        NOTHING, loss
    )


def table() -> str:
    """Return the Markdown table."""
    caps = [Budget(epsilon=Fraction(e), delta=Fraction(d)) for e, d in CAPS]
    heads = " | ".join(f"cap ({epsilon}, {delta})" for epsilon, delta in CAPS)
    lines = [f"| each release | epsilon | {heads} |", "|---|---|" + "---|" * len(CAPS)]
    for name, release in RELEASES.items():
        for epsilon in EPSILONS:
            pairs = [fitting(release(epsilon), cap) for cap in caps]
            cells = " | ".join(
                f"{now:,}" if now == before else f"**{now:,}** instead of {before:,}"
                for before, now in pairs
            )
            lines.append(f"| {name} | {epsilon} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
