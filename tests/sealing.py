"""Sealed tables for tests of parts of a method, outside a run."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hushtable.arrays import Integers
from hushtable.engine.sealed_table import seal
from hushtable.methods.partition.region_table import noisy_leaves
from hushtable.methods.partition.tree import GrowthRules, PartitionTree
from hushtable.methods.partition.tree import grow as grow_sealed
from hushtable.privacy.accounting.run_account import RunAccount, SpendingLimit
from hushtable.privacy.accounting.sealed import unseal
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.mechanisms.sealed_regions import OrderedCells, SealedRegions
from hushtable.privacy.noise.noise import Noise

PLENTY = SpendingLimit(Fraction(10**9), Fraction(10**9), aside=(Fraction(10**6), Fraction(1, 2)))
PLENTY_OF_RHO = SpendingLimit(Fraction(10**9), rho=Fraction(10**9))


def sealed(source: Any, promise: SpendingLimit = PLENTY) -> Any:
    """Seal a table or a graph with an account that admits every query."""
    return seal(source, RunAccount(promise, spends_all=False))


@dataclass(frozen=True)
class Leaves:
    """The leaves of a tree as in a run; their exact counts are read by bypassing the seal."""

    regions: SealedRegions
    numbers: list[int]

    @property
    def exact(self) -> Integers:
        counts: Integers = unseal(self.regions.class_counts(self.numbers))
        return counts

    def noisy(self, tree: PartitionTree, rules: GrowthRules, noise: Noise) -> Any:
        return noisy_leaves(tree, self.regions, self.numbers, rules.max_rows, noise)


def grow(rows: OrderedCells, rules: GrowthRules, noise: Noise) -> tuple[PartitionTree, Leaves]:
    """Grow a tree of regions with an account that admits every query."""
    account = RunAccount(PLENTY, spends_all=False)
    regions = SealedRegions(rows, Sensitivity(rows=rules.max_rows), account.root)
    tree, numbers = grow_sealed(regions, rows.axes, rules, noise)
    return tree, Leaves(regions, numbers)
