"""Attack ``likelihood-linkage``: match noisy records to people by how well they fit.

The observer holds all original records, knows the method and, at worst, which level each record
publishes. For each published record they keep the candidates of that level and rank them by
likelihood. The attack is run on the method, with noise of its own, since only then is the truth
known: a release is in random order. Its report is internal, for the custodian.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.evaluation.repeats import wilson
from hushtable.kernels.fits import rank_owners
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.noise import Noise
from hushtable.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Linkage:
    """Report how well records were matched.

    Parameters
    ----------
    n_records : int
        Records attacked.
    top1_rate, top1_low, top1_high : float
        Share whose owner is the best fit (ties broken at random), with a 95 % Wilson interval.
    mean_posterior : float
        Mean posterior probability of the owner, from equal prior ones.
    random_rate : float
        What guessing among all records gives.
    level_rate : float
        What guessing among the records of the published level gives.
    fewer_than_k : float
        Share of records that fewer than k fit.
    rank_quantiles : dict
        How many records fit at least as well as the owner: quantile to number.
    """

    n_records: int
    top1_rate: float
    top1_low: float
    top1_high: float
    mean_posterior: float
    random_rate: float
    level_rate: float
    fewer_than_k: float
    rank_quantiles: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return asdict(self)


def likelihood_linkage(
    method: Uncertain,
    values: NDArray[np.float64],
    schema: Schema,
    noise: Noise,
    *,
    uses_levels: bool = True,
) -> Linkage:
    """Run the method on private records and try to match the outcome to them.

    Parameters
    ----------
    method : Uncertain
        The method under attack.
    values : array
        The private records: noisy columns in the schema's order, then carried ones.
    schema : Schema
        The public schema.
    noise : Noise
        Where the method's randomness comes from.
    uses_levels : bool
        Whether the observer uses the published level to rule candidates out, or the likelihood
        alone.
    """
    geometry = method.plan(schema)
    perturbed = method.plan(schema).perturb(values, noise)
    d = len(geometry.names)
    told_apart = values[:, d : d + len(method.carry)]
    regions = perturbed.regions
    if uses_levels:
        told_apart = np.column_stack(
            (told_apart, perturbed.widths)
            if regions is None
            else (told_apart, regions.first, regions.last)
        )
    level = np.zeros(len(values), np.int64)
    if told_apart.shape[1]:
        level = np.unique(told_apart, axis=0, return_inverse=True)[1].reshape(-1)
    ruler = geometry.ruler
    steps = np.rint((values[:, :d] - geometry.low) / geometry.step)
    # In a region, whoever is in it reaches all of it; the middle and half the width say who is.
    noisy, reach = perturbed.steps.astype(np.float64), ruler.reach(perturbed.widths)
    if regions is not None:
        noisy = (regions.first + regions.last) / 2
        reach = (regions.last - regions.first) / 2 * ruler.step
    n_better, n_equal, posterior = rank_owners(
        steps * ruler.step,
        noisy * ruler.step,
        reach,
        level=level,
        is_gaussian=method.model == "gaussian",
        period=ruler.period,
    )
    n = len(values)
    ranks = n_better + n_equal
    hits = np.where(n_better == 0, 1.0 / n_equal, 0.0)
    low, high = wilson(float(hits.sum()), n)
    sizes = np.bincount(level)
    return Linkage(
        n_records=n,
        top1_rate=float(hits.mean()),
        top1_low=low,
        top1_high=high,
        mean_posterior=float(posterior.mean()),
        random_rate=1.0 / n,
        level_rate=float((1.0 / sizes[level]).mean()),
        fewer_than_k=float((ranks < method.k).mean()),
        rank_quantiles={f"{q:g}": float(np.quantile(ranks, q)) for q in (0, 0.05, 0.25, 0.5, 0.95)},
    )
