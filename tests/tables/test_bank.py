"""Bank marketing, from schema to answers, with every method."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hushtable as ht
from hushtable.methods import Method, TopDownSpecialization
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.query.where.rules import rules_of
from hushtable.schema.codes import to_codes
from seeds import shifted
from tables.bank import SCHEMA, table

pytestmark = pytest.mark.filterwarnings("ignore:this release is not private")

METHODS: list[Method] = [
    ht.Quilt(epsilon=4, delta="1e-6", particles=20_000),
    ht.NoisyCounts(epsilon=4, delta="1e-6", k=2, generalize={"called": "year", "age": 41}),
    ht.DiffGen(epsilon=4, specializations=8, consistent=True),
    ht.Partition(epsilon=4),
    ht.GeneralizeSuppress(k=2),
    TopDownSpecialization(k=5),
]
RULE = SCHEMA.rules[0]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_bank(method: Method, tmp_path: Path) -> None:
    rows = table()
    release = ht.publish(rows, SCHEMA, method, out=tmp_path / "out", noise=SeededNoise(shifted(1)))
    release = ht.Release.load(tmp_path / "out")
    frame = release.frame()
    assert {"day", "age_group"} <= set(frame.column_names)
    assert len({hash(column) for column in SCHEMA.attributes.values()}) == len(SCHEMA.attributes)
    for where in ("pdays = 'never'", "pdays >= 999", "default", "NOT default", "day = 'Monday'",
                  "education >= 'secondary'", "called >= '2009-01-01'", "age_group = '17 to 24'",
                  "pdays IN (3, 'unknown')", f"NOT ({RULE})"):  # fmt: skip
        answer = release.count(where)
        assert answer.low <= answer.value <= answer.high, where
    assert release.count("pdays >= 999").high == 0
    assert release.count(f"NOT ({RULE})").high == 0
    if method.name in ("quilt", "diffgen", "partition"):
        never = release.count("pdays = 'never'")
        truth = pc.sum(pc.equal(rows["pdays"], 999)).as_py()
        assert never.value == pytest.approx(truth, rel=0.35), never
    _rows_keep_the_rule(release)
    release.export(tmp_path / "seeded.csv")
    assert (tmp_path / "seeded.csv").stat().st_size > 0


def test_means_leave_special_values_out(tmp_path: Path) -> None:
    rows = table()
    method = ht.Quilt(epsilon=4, delta="1e-6", particles=20_000)
    noise = SeededNoise(shifted(5))
    release = ht.publish(rows, SCHEMA, method, out=tmp_path / "out", noise=noise)
    pdays = np.asarray(rows["pdays"])
    truth = pdays[(pdays >= 0) & (pdays < 999)].mean()
    found = release.mean("pdays")
    assert isinstance(found, ht.Estimate)
    assert found.value == pytest.approx(truth, rel=0.3)


def _rows_keep_the_rule(release: ht.Release) -> None:
    frame = release.frame()
    if any(name in release.recode for name in ("pdays", "y", "age")):
        return  # bins have no single value
    predicate = rules_of(SCHEMA)[0].kept
    codes = {n: to_codes(SCHEMA.attributes[n], frame[n]) for n in predicate.columns}
    if frame.num_rows:
        assert predicate.mask(codes).all()


def test_special_values_are_written_as_their_codes(tmp_path: Path) -> None:
    method = ht.Quilt(epsilon=4, delta="1e-6", particles=20_000)
    release = ht.publish(
        table(), SCHEMA, method, out=tmp_path / "out", noise=SeededNoise(shifted(2))
    )
    pdays = np.asarray(release.frame()["pdays"].drop_null())
    assert set(pdays.tolist()) <= {*range(31), 999, -1}
    assert (pdays == 999).mean() == pytest.approx(0.9, abs=0.1)
    assert pa.types.is_boolean(release.frame().schema.field("default").type)
    assert pa.types.is_date(release.frame().schema.field("called").type)
