"""Likelihood linkage of noisy records, see `hushtable.evaluation.risk.likelihood_linkage`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hushtable.engine import connect
from hushtable.errors import HushtableError
from hushtable.evaluation.metric import MetricValue, share_metric
from hushtable.evaluation.risk.likelihood_linkage import likelihood_linkage
from hushtable.evaluation.risk.outcome import Outcome, Rate
from hushtable.methods.uncertain.records import record_values
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.noise.seeded_noise import SeededNoise
from hushtable.release.release import Release
from hushtable.schema import Schema

MOST_RECORDS = 20_000
"""Limit, because every record is compared with every other one."""

_ATTACKER = (
    "An attacker has all private records and knows the method. For each noisy record, the attacker "
    "names the most likely private record among those that may have its published level."
)

POSTERIOR = share_metric(
    "mean posterior of the owner",
    "Mean posterior probability of the correct owner.",
)
FEWER_THAN_K = share_metric(
    "records that fewer than k fit",
    "Share of noisy records that fewer than k private records fit as well as the owner does.",
)
LEVEL_RATE = share_metric(
    "guessing within the level",
    "Success rate of naming a random record of the published level.",
    better="neither",
)


def likelihood_attack(
    original: pa.Table, schema: Schema, release: Release, rng: np.random.Generator
) -> list[Outcome]:
    """Run the method again on the private records and try to link the noisy records.

    The release itself is in random order, so even the custodian cannot tell whether a link is
    correct.
    """
    method = Uncertain(**release.statement.parameters)
    notes = ["The method was run again, because the correct links of the release are not known."]
    if original.num_rows > MOST_RECORDS:
        rows = rng.choice(original.num_rows, MOST_RECORDS, replace=False)
        original = original.take(pa.array(np.sort(rows)))
        notes.append(
            f"Run on {MOST_RECORDS:,} random rows. With fewer rows, the noise is larger and there "
            "are fewer candidates."
        )
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
        return [_refused(str(refusal))]
    return [
        Outcome(
            name="likelihood linkage",
            of="",
            attacker=_ATTACKER,
            attack=Rate(
                value=found.top1_rate, low=found.top1_low, high=found.top1_high, n=found.n_records
            ),
            control=None,
            naive=Rate.of(found.random_rate * found.n_records, found.n_records),
            n=found.n_records,
            note=" ".join(notes),
            details=(
                MetricValue(metric=POSTERIOR, of="", value=found.mean_posterior),
                MetricValue(metric=FEWER_THAN_K, of="", value=found.fewer_than_k),
                MetricValue(metric=LEVEL_RATE, of="", value=found.level_rate),
            ),
        )
    ]


def _refused(why: str) -> Outcome:
    return Outcome(
        name="likelihood linkage",
        of="",
        attacker=_ATTACKER,
        attack=Rate.of(0, 0),
        control=None,
        naive=None,
        n=0,
        note=f"Not run: {why}",
    )
