"""Likelihood linkage: match noisy records to people by likelihood.

The observer has all original records and knows the method and, in the worst case, the level (noise
width or region) that is published with each record. For each published record, the observer ranks
the candidates of that level by likelihood. The attack runs the method with new noise, because a
release is in random order and its correct links are not known. The report is internal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats
from hushtable.engine import connect
from hushtable.errors import HushtableError
from hushtable.evaluation.findings import TEXTS, MetricValue, Plain, metric_named, wilson
from hushtable.evaluation.risk.attack import Outcome, Rate
from hushtable.kernels.nearest import rank_owners
from hushtable.methods.uncertain.grid import record_values
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.release.release import Release
from hushtable.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Linkage(Plain):
    """Success of linking records."""

    n_records: int
    # share whose owner is the best fit (ties broken at random), with a 95% Wilson interval
    top1_rate: float
    top1_low: float
    top1_high: float
    mean_posterior: float  # of the owner, from a uniform prior
    random_rate: float  # success of guessing among all records
    level_rate: float  # success of guessing among the records of the published level
    # share of records for which fewer than k records fit at least as well as the owner
    fewer_than_k: float
    # quantiles of the number of records that fit at least as well as the owner
    rank_quantiles: dict[str, float]


def likelihood_linkage(
    method: Uncertain,
    values: Floats,
    schema: Schema,
    noise: Noise,
    *,
    uses_levels: bool = True,
) -> Linkage:
    """Run the method on private records and try to link its output to them.

    The columns of `values` are the noisy columns in the schema's order, then the carried ones. With
    `uses_levels`, the observer excludes candidates of other published levels.
    """
    geometry = method.plan(schema)
    perturbed = geometry.perturb(values, noise)
    d = len(geometry.names)
    known = values[:, d : d + len(method.carry)]
    regions = perturbed.regions
    if uses_levels:
        level_of = (perturbed.widths,) if regions is None else (regions.first, regions.last)
        known = np.column_stack((known, *level_of))
    level = np.zeros(len(values), np.int64)
    if known.shape[1]:
        level = np.unique(known, axis=0, return_inverse=True)[1].reshape(-1)
    ruler = geometry.ruler
    steps = np.rint((values[:, :d] - geometry.low) / geometry.step)
    # All records of a region fit it equally; its center and half-width determine which they are.
    noisy, noise_range = perturbed.steps.astype(np.float64), ruler.noise_range(perturbed.widths)
    if regions is not None:
        noisy = (regions.first + regions.last) / 2
        noise_range = (regions.last - regions.first) / 2 * ruler.step
    n_better, n_equal, posterior = rank_owners(
        steps * ruler.step,
        noisy * ruler.step,
        noise_range,
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


# Likelihood linkage as one of the attacks of an evaluation.

MOST_RECORDS = 20_000
"""Maximum number of records, because every record is compared with every other one."""

_ATTACKER = TEXTS["attacker in likelihood linkage"]

POSTERIOR = metric_named("mean posterior of the owner")
FEWER_THAN_K = metric_named("records that fewer than k fit")
LEVEL_RATE = metric_named("guessing within the level")


def likelihood_attack(
    original: pa.Table, schema: Schema, release: Release, rng: np.random.Generator
) -> list[Outcome]:
    """Run the method again on the private records and try to link the noisy records.

    The release itself is in random order, so even the custodian does not know which links are
    correct.
    """
    method = Uncertain(**release.statement.parameters)
    notes = [TEXTS["links not known"]]
    if original.num_rows > MOST_RECORDS:
        rows = rng.choice(original.num_rows, MOST_RECORDS, replace=False)
        original = original.take(pa.array(np.sort(rows)))
        notes.append(TEXTS["fewer rows linked"].format(n=MOST_RECORDS))
    names = [*method.plan(schema).names, *method.carry]
    if method.k_column is not None:
        names.append(method.k_column)
    # Seeded, because reports must be reproducible and this run is not published.
    noise = SeededNoise(int(rng.integers(2**63)))
    try:
        values = record_values(connect(original, schema, engine="memory"), names)
        found = likelihood_linkage(method, values, schema, noise)
    except HushtableError as refusal:
        # Too few rows for k, or a value that the method does not support.
        return [_outcome(Rate.of(0, 0), None, note=f"Not run: {refusal}")]
    n = found.n_records
    return [
        _outcome(
            Rate(value=found.top1_rate, low=found.top1_low, high=found.top1_high, n=n),
            Rate.of(found.random_rate * n, n),
            note=" ".join(notes),
            details=(
                POSTERIOR.at(found.mean_posterior),
                FEWER_THAN_K.at(found.fewer_than_k),
                LEVEL_RATE.at(found.level_rate),
            ),
        )
    ]


def _outcome(
    attack: Rate, naive: Rate | None, *, note: str, details: tuple[MetricValue, ...] = ()
) -> Outcome:
    return Outcome(
        name="likelihood linkage",
        attacker=_ATTACKER,
        attack=attack,
        naive=naive,
        note=note,
        details=details,
    )
