"""Budgets that do not add up, sensitivities that are too small, thresholds that are too low."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import hushtable.methods.counts.noisy_counts as noisy_counts_module
import hushtable.methods.quilt.budget as meter_module
import hushtable.methods.quilt.quilt as quilt_module
import hushtable.privacy.mechanisms.private_choice as choices_module
from audit.broken.kind import Broken, Patch, around, n_rows
from hushtable.methods import ContingencyTable, NoisyCounts, Quilt
from hushtable.methods.base import Released
from hushtable.methods.diffgen.contingency_table import ContingencyTablePlan
from hushtable.methods.quilt.budget import BudgetShares
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.privacy.accounting.sensitivity import PrivacyCost
from hushtable.privacy.gaussian_dp import gaussian_share
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace, RoundedGaussian
from hushtable.privacy.mechanisms.single_counts import OneSidedGeometric

QUILT = Quilt(epsilon=1, particles=1000)
GAUSSIAN = Quilt(epsilon=1, delta="1e-6", particles=1000)
CONCENTRATED = replace(GAUSSIAN, accounting="concentrated")
TIGHT = NoisyCounts(epsilon=1, delta="1/100", k=10)


def _unsettled(patch: Patch) -> None:
    """Disable the checks of the run's account."""
    patch.setattr(RunAccount, "settle", lambda self: None)
    patch.setattr(RunAccount, "_require_covered", lambda self, what, spent: None)


def two_budgets(patch: Patch) -> None:
    """Separate budgets for tables and for choices, each as large as the promise."""
    _unsettled(patch)
    real = BudgetShares.spend

    def spend(self: BudgetShares, step: str, share: Fraction) -> None:
        if "cho" not in step and "pair" not in step:
            real(self, step, share)

    patch.setattr(BudgetShares, "spend", spend)
    patch.setattr(
        BudgetShares, "count_noise",
        lambda self, share, moved=None, *, real=BudgetShares.count_noise: real(
            self, min(Fraction(1), 2 * share), moved
        ),
    )  # fmt: skip


def half_charged_choice(patch: Patch) -> None:
    _unsettled(patch)
    real = BudgetShares.choice_epsilon
    patch.setattr(BudgetShares, "choice_epsilon", lambda self, share: 2 * real(self, share))


def log10_for_ln(patch: Patch) -> None:
    """The conversion from rho with the wrong logarithm: a rho that is too large."""
    _unsettled(patch)

    def share(epsilon: Fraction, delta: Fraction) -> Fraction:
        tail = -math.log10(delta)
        root = math.sqrt(tail + float(epsilon)) - math.sqrt(tail)
        return Fraction(math.floor(root**2 * 2**40), 2**40)

    patch.setattr(quilt_module, "concentrated_share", share)
    patch.setattr(meter_module, "concentrated_share", share)


def tail_of_both_sides(patch: Patch) -> None:
    """The conversion from mu with half the tail: a mu that is too large."""
    _unsettled(patch)
    real = gaussian_share

    def share(epsilon: Fraction, delta: Fraction) -> Fraction:
        return real(epsilon, 2 * delta)

    patch.setattr(quilt_module, "gaussian_share", share)
    patch.setattr(meter_module, "gaussian_share", share)


def spent_beyond_mu(patch: Patch) -> None:
    """Spending mu**2 where mu**2 / 2 was promised."""
    _unsettled(patch)
    patch.setattr(
        quilt_module, "budget_of", lambda epsilon, delta, _: gaussian_share(epsilon, delta) ** 2
    )


def choices_as_in_rho(patch: Patch) -> None:
    """The cost of a choice in rho, which is lower than in mu**2 / 2."""
    for module in (choices_module, meter_module):
        patch.setattr(module, "CHOICE_FACTOR", Fraction(1, 16))


def rounded_without_two(patch: Patch) -> None:
    real = RoundedGaussian.cost

    def price(self: RoundedGaussian, sensitivity: Any) -> PrivacyCost:
        squared = real(self, sensitivity).mu_squared
        return PrivacyCost(rho=squared / 4, mu_squared=squared / 2)

    patch.setattr(RoundedGaussian, "cost", price)
    _sharpen(patch)


def discrete_for_rounded(patch: Patch) -> None:
    """Discrete Gaussian noise at the cost of rounded noise."""
    patch.setattr(
        RoundedGaussian, "draw",
        lambda self, exact, noise: Gaussian(self.variance).draw(exact, noise),
    )  # fmt: skip


def price_of_half(patch: Patch) -> None:
    """A cost that is too low by a factor of two."""
    real = Laplace.cost
    patch.setattr(
        Laplace, "cost",
        lambda self, sensitivity: PrivacyCost.pure(real(self, sensitivity).epsilon / 2),
    )  # fmt: skip
    _sharpen(patch)


def _sharpen(patch: Patch) -> None:
    real = BudgetShares.count_noise

    def count_noise(self: BudgetShares, share: Fraction, moved: Any = None) -> Any:
        noise = real(self, share, moved)
        return replace(noise, parameter=noise.parameter / 2)

    patch.setattr(BudgetShares, "count_noise", count_noise)


def gaussian_without_two(patch: Patch) -> None:
    real = Gaussian.cost
    patch.setattr(Gaussian, "cost", lambda self, s: PrivacyCost(rho=real(self, s).rho / 2))
    _sharpen(patch)


def half_the_draw(patch: Patch) -> None:
    """Noise other than recorded."""
    real = Laplace.draw
    patch.setattr(
        Laplace, "draw", lambda self, exact, noise: real(replace(self, scale=self.scale / 2),
                                                         exact, noise)
    )  # fmt: skip


def threshold_one_too_low(patch: Patch) -> None:
    real = OneSidedGeometric.noisy
    patch.setattr(
        OneSidedGeometric, "noisy", lambda self, counts, noise: real(self, counts + 1, noise)
    )


def sensitivity_of_two(patch: Patch) -> None:
    """Persons with up to three rows, but noise for two."""
    real = ContingencyTable.plan

    def plan(self: Any, schema: Any) -> Any:
        made = real(self, schema)
        rows = schema.unit.max_rows or 1
        groups = replace(made.groups, rate=made.groups.rate * Fraction(rows, max(1, rows - 1)))
        return replace(made, groups=groups)

    patch.setattr(ContingencyTable, "plan", plan)
    _unsettled(patch)


def free_row_count(patch: Patch) -> None:
    """The number of rows with noise for all of epsilon."""
    _unsettled(patch)
    real = noisy_counts_module._row_total

    def unpaid(plan: Any, source: Any, noise: Any) -> Any:
        generous = replace(plan, rows_epsilon=Fraction(1))
        return real(generous, source, noise)

    patch.setattr(noisy_counts_module, "_row_total", unpaid)


def unbooked(patch: Patch) -> None:
    """A query without a recorded cost."""
    real = noisy_counts_module._row_total

    def looked(plan: Any, source: Any, noise: Any) -> Any:
        told = real(plan, source, noise)
        drawn = n_rows(source) + int(noise.discrete_laplace(Fraction(1), size=1)[0])
        return {**told, "check": drawn}

    patch.setattr(noisy_counts_module, "_row_total", looked)


def opened_twice(patch: Patch) -> None:
    """Two queries for one charge, and their mean."""
    real = Laplace.draw

    def draw(self: Laplace, exact: Any, noise: Any) -> Any:
        return (real(self, exact, noise) + real(self, exact, noise)) // 2

    patch.setattr(Laplace, "draw", draw)


def scale_from_n(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Noise that decreases with the number of rows."""
    groups = replace(plan.groups, rate=plan.groups.rate * (1 + Fraction(n_rows(source), 1000)))
    return real(replace(plan, groups=groups), source, noise)


def fivefold_delta(patch: Patch) -> None:
    real = noisy_counts_module.make_count_mechanism

    def leaky(kind: str, *, epsilon: Fraction, delta: Any = None, k: Any = None) -> Any:
        return real(kind, epsilon=epsilon, delta=5 * delta if delta else None, k=k)

    patch.setattr(noisy_counts_module, "make_count_mechanism", leaky)
    _unsettled(patch)


BROKEN = (
    Broken("two budgets in quilt", QUILT, two_budgets, True),
    Broken("two budgets in quilt, Gaussian", GAUSSIAN, two_budgets),
    Broken("a half-charged choice", QUILT, half_charged_choice, True),
    Broken("a half-charged choice, Gaussian", GAUSSIAN, half_charged_choice),
    Broken("log10 for ln in the conversion", CONCENTRATED, log10_for_ln, True, True),
    Broken("half a tail in the conversion", GAUSSIAN, tail_of_both_sides, True, True),
    Broken("the whole square of mu", GAUSSIAN, spent_beyond_mu, True),
    Broken("choices at a sixteenth in mu", GAUSSIAN, choices_as_in_rho),
    Broken("rounded noise at half its price", GAUSSIAN, rounded_without_two, True),
    Broken("discrete noise for rounded", GAUSSIAN, discrete_for_rounded, True),
    Broken("a price list at half the price", QUILT, price_of_half),
    Broken("Gaussian noise without its two", CONCENTRATED, gaussian_without_two),
    Broken("half the noise that was booked", QUILT, half_the_draw),
    Broken("two looks for one payment", QUILT, opened_twice),
    Broken("a threshold one too low", TIGHT, threshold_one_too_low, True),
    Broken("five times delta", TIGHT, fivefold_delta),
    Broken("sensitivity of one row too few", ContingencyTable(epsilon=1), sensitivity_of_two),
    Broken("a number of rows that is free", NoisyCounts(epsilon=1, delta="1/100", k=5,
           row_count_share="1/10"), free_row_count, True),
    Broken("a look that is not booked", NoisyCounts(epsilon=1, delta="1/100", k=5,
           row_count_share="1/10"), unbooked),
    Broken("noise that shrinks with the table", ContingencyTable(epsilon=1),
           around(ContingencyTablePlan, scale_from_n)),
)  # fmt: skip
