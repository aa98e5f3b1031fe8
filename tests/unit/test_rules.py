"""Rules between columns: rows satisfy them, counts use them, and they depend on nothing private."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hushtable as ht
from hushtable.engine import connect
from hushtable.errors import SchemaError
from hushtable.methods import Method
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.query.where.rules import is_impossible, kept_rows, rules_of, with_derived
from hushtable.schema import Schema
from hushtable.schema.recoding import recodings
from seeds import shifted

pytestmark = pytest.mark.filterwarnings("ignore:this release is not private")

WHOLE = {"type": "integer", "low": 0, "high": 9, "missing": "other"}
COLUMNS = {"a": WHOLE, "b": WHOLE, "sex": {"type": "categorical", "values": ["F", "M"],
           "missing": "other"}, "pregnant": {"type": "boolean", "missing": "category"}}  # fmt: skip
RULES = ["a <= b", "pregnant = false OR sex = 'F'"]
SCHEMA = Schema.from_dict({"name": "toy", "columns": COLUMNS, "rules": RULES})


def rows(n: int = 3000) -> pa.Table:
    rng = np.random.default_rng(shifted(5))
    a = rng.integers(0, 10, n)
    sex = rng.integers(0, 2, n)
    pregnant = (sex == 0) & (rng.random(n) < 0.3)
    return pa.table({"a": a, "b": np.minimum(a + rng.integers(0, 10, n), 9),
                     "sex": np.array(["F", "M"])[sex],
                     "pregnant": pa.array(pregnant, mask=rng.random(n) < 0.1)})  # fmt: skip


METHODS: list[Method] = [
    ht.Quilt(epsilon="1/2", delta="1e-6", particles=10_000),
    ht.NoisyCounts(epsilon="1/2", mechanism="pure"),
    ht.DiffGen(epsilon="1/2", target="sex", specializations=12, consistent=True),
    ht.Partition(epsilon="1/2"),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_no_published_row_breaks_a_rule(method: Method, tmp_path: Path) -> None:
    """With this noise, each method makes hundreds of such rows if rules are not enforced."""
    out = tmp_path / "out"
    noise = SeededNoise(shifted(6))
    release = ht.publish(rows(), SCHEMA, method, out=out, noise=noise)
    free = SCHEMA.model_copy(update={"rules": ()})
    loose = ht.publish(rows(), free, method, out=tmp_path / "free", noise=SeededNoise(shifted(6)))
    without = kept_rows(loose.frame(), SCHEMA, loose.recode)
    assert without is not None
    assert (~without).sum() > 20
    kept = kept_rows(release.frame(), SCHEMA, release.recode)
    assert kept is not None
    assert kept.all()
    if method.name == "quilt":
        stored = release.table()
        assert stored.num_rows == loose.table().num_rows
        assert not pc.any(pc.greater(stored["a"], stored["b"])).as_py()
    for where in ("a > b", "sex = 'M' AND pregnant", "a = 9 AND b < 9"):
        assert release.count(where).to_dict()["high"] == 0.0
    assert loose.count("a > b").high > 0
    if method.name != "quilt":  # its answers come from rows, to which other values contribute
        assert release.count("a = b").value == loose.count("a = b").value


def test_a_rule_that_is_null_holds() -> None:
    table = pa.table({"a": [1, 2, 5], "b": [5, 2, 1], "sex": ["M", "M", "M"],
                      "pregnant": pa.array([None, True, False])})  # fmt: skip
    kept = kept_rows(table, SCHEMA)
    assert kept is not None
    assert kept.tolist() == [True, False, False]


def test_a_generalized_row_stays_if_it_may_keep_the_rules() -> None:
    cut = recodings(SCHEMA, {"a": 5, "b": 5})
    table = pa.table({"a": ["5 to 9", "5 to 9"], "b": ["0 to 4", "5 to 9"], "sex": ["F", "F"],
                      "pregnant": [True, True]})  # fmt: skip
    kept = kept_rows(table, SCHEMA, cut)
    assert kept is not None
    assert kept.tolist() == [False, True]


def test_rules_reach_a_question_by_way_of_others() -> None:
    chain = Schema.from_dict({"name": "t", "columns": dict.fromkeys("abc", WHOLE),
                              "rules": ["a < b", "b < c"]})  # fmt: skip
    assert is_impossible("c < 2", chain)
    assert is_impossible("a >= c - 1", chain)
    assert not is_impossible("c = 2", chain)


def test_rules_that_cannot_be_read_are_refused_before_anything_is_paid(tmp_path: Path) -> None:
    content = {"name": "t", "columns": COLUMNS, "rules": ["a <= z", "a +"],
               "derived": {"day": "weekday(a)", "x": "a + b"}}  # fmt: skip
    wrong = Schema.from_dict(content)
    with pytest.raises(SchemaError) as error:
        rules_of(wrong)
    said = str(error.value)
    for part in ("'a <= z'", "'a +'", "weekday(a)", "derived column 'x'"):
        assert part in said
    ledger = ht.Ledger.create(tmp_path / "l", epsilon=2, delta="1e-5", unit=wrong.unit)
    with pytest.raises(SchemaError):
        ht.publish(rows(), wrong, METHODS[0], out=tmp_path / "out", ledger=ledger)
    assert not ledger.entries()


def test_derived_columns_follow_from_published_values() -> None:
    schema = Schema.from_dict({
        "name": "t",
        "columns": {"age": WHOLE | {"bins": [0, 3, 6]},
                    "day": {"type": "date", "low": "2024-01-01", "high": "2024-12-31"}},
        "derived": {"group": "band(age)", "weekday": "weekday(day)", "q": "quarter(day)"},
    })  # fmt: skip
    table = pa.table({"age": [0, 5, 9], "day": ["2024-01-01", "2024-02-29", "2024-12-31"]})
    days = table["day"].cast(pa.date32())
    found = with_derived(table.set_column(1, "day", days), schema)
    assert found["group"].to_pylist() == ["0 to 2", "3 to 5", "6 to 9"]
    assert found["weekday"].to_pylist() == ["Monday", "Thursday", "Tuesday"]
    assert found["q"].to_pylist() == [1, 1, 4]
    cut = recodings(schema, {"age": 5, "day": "quarter"})
    coarse = pa.table({"age": ["0 to 4", "5 to 9"], "day": ["2024-Q1", "2024-Q3"]})
    found = with_derived(coarse, schema, cut)
    assert found["group"].to_pylist() == [None, None]
    assert found["q"].to_pylist() == [1, 3]


def test_a_column_of_the_data_that_is_derived_is_not_read() -> None:
    schema = SCHEMA.model_copy(update={"derived": {"c": "band(a)"}})
    with_c = rows(10).append_column("c", pa.array(["x"] * 10))
    engine = connect(with_c, schema)
    assert engine.n_rows() == 10
