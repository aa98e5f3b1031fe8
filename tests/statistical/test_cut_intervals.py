"""Coverage of conditions that split groups: random questions on 1 to 3 attributes.

Only the noise and the questions are random. If a method's intervals are right, the lower
bound is missed with probability 1e-6 at most: questions of one release share its noise and its
cuts, so the bound is that of a binomial with a fifth as many independent questions. With the 140
questions asked at least, intervals with 40% coverage pass with probability 3e-3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from hushtable.datasets import sample, sample_schema
from hushtable.engine import Engine, connect
from hushtable.engine.memory_engine import MemoryEngine
from hushtable.evaluation.inputs import CodedRows
from hushtable.evaluation.utility.workload import draw_questions
from hushtable.methods import DiffGen, NoisyCounts, Partition
from hushtable.methods.base import Method
from hushtable.methods.registry import estimator_for
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.query.answers import Estimator
from hushtable.schema import Schema
from hushtable_papers.adult import adult
from seeds import shifted

FALSE_ALARM = 1e-6
SHARED_NOISE = 5  # questions of one release that count as one
N_RELEASES = 3


def released(method: Method, engine: Engine, schema: Schema, noise: Any) -> Estimator:
    found = method.run(engine, noise)
    settings = {"kind": method.estimator_kind, **found.settings}
    return estimator_for(settings, schema, method.parameters(), found.tables)


def coverage(
    method: Method, table: pa.Table, schema: Schema, *, per_cell: int
) -> tuple[float, int, float]:
    """Ask questions of all arities and selectivities.

    Return coverage, number of questions, and the first quartile of the interval widths.
    """
    engine = connect(table, schema, engine="memory")
    assert isinstance(engine, MemoryEngine)
    codes = engine.codes(list(schema.attributes))
    rows = CodedRows.of(schema, codes)
    draw, noise, answers = np.random.default_rng(shifted(1)), SeededNoise(shifted(4)), []
    for _ in range(N_RELEASES):
        estimator = released(method, engine, schema, noise)
        questions = draw_questions(rows, draw, per_cell=per_cell)
        answers += [(estimator.count(question.sql), truth) for question, truth in questions]
    held = [answer.low <= truth <= answer.high for answer, truth in answers]
    widths = [(answer.high - answer.low) / table.num_rows for answer, _ in answers]
    return float(np.mean(held)), len(held), float(np.quantile(widths, 0.25))


def at_least(n: int) -> float:
    n //= SHARED_NOISE
    return float(binom.ppf(FALSE_ALARM, n, 0.95)) / n


METHODS = [
    DiffGen(epsilon=1, specializations=10),
    pytest.param(DiffGen(epsilon="1/10"), marks=pytest.mark.long),
    Partition(epsilon=1),
    pytest.param(Partition(epsilon="1/10"), marks=pytest.mark.long),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.name}-{method.epsilon}")
def test_adult(method: Method, shared_data: Path) -> None:
    """The model of the error was chosen on other tables (see `diffgen.md`)."""
    table, schema = adult(shared_data)
    held, n, width = coverage(method, table, schema, per_cell=6)
    assert n >= 140
    assert held >= at_least(n)
    assert width < 0.75  # an interval from 0 to all rows would contain the truth, too


@pytest.mark.parametrize(
    "method",
    [
        DiffGen(epsilon=1, specializations=4, target="diagnosis"),
        Partition(epsilon=1, target="sex"),
        NoisyCounts(epsilon=1, mechanism="pure", generalize={"age": 20, "region": 1}),
    ],
    ids=lambda method: method.name,
)
def test_the_sample(method: Method) -> None:
    held, n, _ = coverage(method, sample(), sample_schema(), per_cell=6)
    assert n >= 140
    assert held >= at_least(n)


def test_whole_groups_keep_the_interval_of_their_noise() -> None:
    """If no group is split, nothing is assumed: half-widths are those of the noise."""
    method = NoisyCounts(epsilon=1, mechanism="pure", generalize={"age": 20})
    engine = connect(sample(), sample_schema(), engine="memory")
    estimator = released(method, engine, sample_schema(), SecureNoise())
    whole, cut = estimator.count("age < 40"), estimator.count("age < 45")
    assert whole.model_std == 0
    assert (whole.high - whole.low) / 2 == pytest.approx(1.96 * whole.privacy_std, rel=0.05)
    assert cut.model_std > 0
    assert cut.high - cut.low > 2 * (whole.high - whole.low)
