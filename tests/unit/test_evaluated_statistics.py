"""Coverage by kind of answer, against a release whose intervals are right or wrong on purpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hushtable.evaluation.inputs import CodedRows
from hushtable.evaluation.utility.statistics import KINDS, N_WORST, ask_statistics
from hushtable.query.answers import Estimate
from hushtable.schema import Schema
from seeds import shifted

SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "x": {"type": "integer", "low": 10, "high": 60, "missing": "category"},
            "y": {"type": "integer", "low": 0, "high": 90},
            "g": {"type": "categorical", "values": ["it's", "b", "c"]},
        },
    }
)


@pytest.fixture
def rows() -> CodedRows:
    rng = np.random.default_rng(shifted(1))
    x = rng.integers(0, 52, 500)
    y = np.clip(x + rng.integers(0, 20, 500), 0, 90)
    return CodedRows.of(SCHEMA, {"x": x, "y": y, "g": rng.integers(0, 3, 500)})


class Answers:
    """Exact answers from the rows by SQL, moved by `off`, with half-width 1."""

    def __init__(self, rows: CodedRows, off: float) -> None:
        import duckdb

        names = SCHEMA.attributes
        self.db, self.off = duckdb.connect(), off
        table = {name: [names[name].value(int(c)) if c < names[name].n_values else None
                        for c in codes] for name, codes in rows.codes.items()}  # fmt: skip
        columns = ", ".join(f'"{name}" {"TEXT" if name == "g" else "DOUBLE"}' for name in table)
        self.db.execute(f"CREATE TABLE t ({columns})")
        self.db.executemany(
            "INSERT INTO t VALUES (?, ?, ?)", list(zip(*table.values(), strict=True))
        )

    def _ask(self, what: str, where: str | None = None) -> Estimate:
        found = self.db.execute(f"SELECT {what} FROM t WHERE {where or 'true'}").fetchall()  # noqa: S608
        value = float(found[0][0]) + self.off
        return Estimate(value=value, low=value - 1, high=value + 1, privacy_std=0.5, model_std=0.0)

    def mean(self, name: str, where: str) -> Estimate:
        return self._ask(f'avg("{name}")', where)

    def median(self, name: str, where: str) -> Estimate:
        return self._ask(f'quantile_disc("{name}", 0.5)', where)

    def share(self, part: str, where: str) -> Estimate:
        return self._ask(f"avg(CASE WHEN {part} THEN 1.0 ELSE 0.0 END)", where)

    def correlation(self, one: str, other: str) -> Estimate:
        return self._ask(f'corr("{one}", "{other}")', '"x" IS NOT NULL')

    def regression(self, formula: str) -> dict[str, Estimate]:
        outcome, _, regressor = formula.partition(" ~ ")
        return {regressor.strip('"'): self._ask(f"regr_slope({outcome}, {regressor})")}


@pytest.mark.parametrize(("off", "held"), [(0.0, 1.0), (-3.0, 0.0)])
def test_coverage_is_that_of_the_intervals(rows: CodedRows, off: float, held: float) -> None:
    release: Any = Answers(rows, off)
    found = ask_statistics(release, rows, np.random.default_rng(shifted(2)), [], n=4)
    assert found is not None
    assert [line.kind for line in found.lines] == list(KINDS)
    for line in found.lines:
        assert line.coverage is not None
        assert line.coverage.value == held, line.kind
        assert line.n >= 4
    assert len(found.worst) == (N_WORST if off else 0)
    for one in found.to_dict()["worst"]:
        assert not one["low"] <= one["truth"] <= one["high"]
