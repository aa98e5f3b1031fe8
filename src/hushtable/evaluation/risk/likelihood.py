"""Attack ``likelihood linkage`` on noisy records, see `hushtable.evaluation.risk.linkage`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hushtable.engine import connect
from hushtable.errors import HushtableError
from hushtable.evaluation.metric import Measured, share_metric
from hushtable.evaluation.risk.linkage import likelihood_linkage
from hushtable.evaluation.risk.outcome import Outcome, Rate
from hushtable.methods.uncertain.records import record_values
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.seeded_noise import SeededNoise
from hushtable.release import Release
from hushtable.schema import Schema

MOST_RECORDS = 20_000
"""Every record is compared with every other one."""

_ATTACKER = (
    "Someone holds all private records and knows the method; for each noisy record they name the "
    "private one that fits it best, among those that may have its published level."
)

POSTERIOR = share_metric(
    "mean posterior of the owner",
    "Probability that the attacker gives the right owner, on average.",
)
FEWER_THAN_K = share_metric(
    "records that fewer than k fit",
    "Share of noisy records that fewer than k private records fit as well as the owner.",
)
LEVEL_RATE = share_metric(
    "guessing within the level",
    "What naming any record of the published level would give.",
    better="neither",
)


def likelihood_attack(
    original: pa.Table, schema: Schema, release: Release, rng: np.random.Generator
) -> list[Outcome]:
    """Run the method anew on the private records, with noise of its own, and match the outcome.

    The release itself is in random order, so that nobody, the custodian included, could tell
    whether a match in it is right.
    """
    method = Uncertain(**release.statement.parameters)
    notes = ["The method was run anew, since only then is it known which match is right."]
    if original.num_rows > MOST_RECORDS:
        rows = rng.choice(original.num_rows, MOST_RECORDS, replace=False)
        original = original.take(pa.array(np.sort(rows)))
        notes.append(
            f"Run on {MOST_RECORDS:,} random rows; with fewer rows the noise is wider and there "
            "are fewer to tell apart."
        )
    names = [*method.plan(schema).names, *method.carry]
    if method.k_column is not None:
        names.append(method.k_column)
    # Seeded, since nothing of this run is published and a report must repeat.
    noise = SeededNoise(int(rng.integers(2**63)))
    try:
        values = record_values(connect(original, schema, engine="memory"), names)
        found = likelihood_linkage(method, values, schema, noise)
    except HushtableError as refusal:
        # Too few rows for k, or a value that the method cannot take: nothing to attack.
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
                Measured(metric=POSTERIOR, of="", value=found.mean_posterior),
                Measured(metric=FEWER_THAN_K, of="", value=found.fewer_than_k),
                Measured(metric=LEVEL_RATE, of="", value=found.level_rate),
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
