"""Uninformative releases are refused before they are charged, from public numbers only."""

import pyarrow as pa
import pytest

import hushtable as ht
from hushtable.cli.forecast import written
from hushtable.errors import Refused

WIDE = ht.Schema.from_dict(
    {
        "name": "wide",
        "columns": {
            f"c{i}": {"type": "categorical", "values": [f"v{j}" for j in range(8)]}
            for i in range(12)
        },
    }
)
TABLE = pa.table({f"c{i}": [f"v{(i * r) % 8}" for r in range(1000)] for i in range(12)})
NARROW = WIDE.of_rows(["c0", "c1"])
COUNTS = ht.NoisyCounts(epsilon=1, delta="1e-6", k=10)


def publish(tmp_path, method=COUNTS, schema=WIDE, table=TABLE, **more):
    ledger = tmp_path / "l.ledger"
    if not ledger.exists():
        ht.Ledger.create(ledger, epsilon=3, delta="1e-5", schema=schema)
    return ht.publish(table, schema, method, out=tmp_path / "out", ledger=ledger, **more)


def spent(tmp_path):
    return 3 - ht.Ledger.open(tmp_path / "l.ledger").remaining().epsilon


def test_an_empty_forecast_is_refused_before_the_charge(tmp_path):
    with pytest.raises(Refused, match="would be empty") as caught:
        publish(tmp_path, rows=1000)
    assert "--anyway" in str(caught.value)
    assert "Nothing was charged" in str(caught.value)
    assert spent(tmp_path) == 0
    assert not (tmp_path / "out").exists()


def test_anyway_publishes_and_counts_what_came_out(tmp_path):
    release = publish(tmp_path, rows=1000, anyway=True)
    assert spent(tmp_path) == 1
    assert release.n_rows == release.frame().num_rows


def test_the_number_of_rows_is_taken_from_public_knowledge_alone(tmp_path):
    """Two tables that differ in size get the same refusal, so it tells nothing about them."""
    said = []
    for table in (TABLE, TABLE.slice(0, 3)):
        with pytest.raises(Refused) as caught:
            publish(tmp_path, table=table)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "give the one to expect" in said[0]


def test_noise_larger_than_the_table_is_refused(tmp_path):
    schema = NARROW.model_copy(update={"rows": 40})
    partition = ht.Partition(epsilon="1/100", max_depth=2)
    with pytest.raises(Refused, match="no answer would tell anything"):
        publish(tmp_path, partition, schema, TABLE.select(["c0", "c1"]).slice(0, 40))


@pytest.mark.parametrize(
    "method", [ht.DiffGen(epsilon=1, target="c0"), ht.Partition(epsilon=1)], ids=lambda m: m.name
)
def test_cells_too_few_for_the_columns_are_refused_before_the_charge(tmp_path, method):
    """None of them divides most columns, so that intervals are as wide as the table."""
    two = {"type": "categorical", "values": ["v0", "v1"]}
    schema = ht.Schema.from_dict({"name": "wide", "columns": {f"c{i}": two for i in range(40)}})
    table = pa.table({f"c{i}": [f"v{(r >> i % 9) % 2}" for r in range(1000)] for i in range(40)})
    with pytest.raises(Refused, match=r"count by one of them is expected to be \d+% of the rows"):
        publish(tmp_path, method, schema, table, rows=1000)
    assert spent(tmp_path) == 0
    release = publish(tmp_path, method, schema, table, rows=1000, anyway=True)
    widths = sorted(
        one.high - one.low for one in (release.count(f"c{i} = 'v0'") for i in range(40))
    )
    assert widths[20] > 850
    # The same with few columns is worth its charge, and the forecast says that, too.
    few = schema.of_rows(["c0", "c1", "c2"])
    assert method.plan(few).typical_width(100_000) < 0.2
    lines = method.forecast(few, rows=100_000).lines
    assert "of the rows wide" in lines["interval of a count by one column, typically"]
    assert method.plan(few).hollow(100_000) == ""


def test_one_long_column_does_not_make_a_release_of_short_ones_hollow():
    """A typical column is judged, and of one with many values the sentence is not true of all."""
    schema = ht.Schema.from_dict({
        "name": "loans",
        "unit": {"kind": "person", "column": "member", "max_rows": 20},
        "columns": {
            "member": {"role": "identifier"},
            "fee": {"type": "integer", "low": 0, "high": 160},
            **{f"c{i}": {"type": "categorical", "values": ["a", "b", "c"]} for i in range(3)},
        },
    })  # fmt: skip
    plan = ht.Quilt(epsilon=1, delta="1e-6").plan(schema)
    expected = plan.count_error(rows=3000, share=0.5)
    assert expected.half_width > 1500 > expected.typical
    assert plan.hollow(3000) == ""
    assert "no answer would tell anything" in plan.hollow(500)


def test_a_useful_forecast_is_not_refused(tmp_path):
    assert publish(tmp_path, schema=NARROW, table=TABLE.select(["c0", "c1"]), rows=1000).n_rows > 0


@pytest.mark.parametrize("method", [
    ht.NoisyCounts(epsilon=1, mechanism="pure"),
    ht.Partition(epsilon=1, max_depth=2),
    ht.Quilt(epsilon=1, delta="1e-6"),
    ht.DiffGen(epsilon=1, target="c0"),
])  # fmt: skip
def test_rows_out_are_the_rows_of_the_frame(tmp_path, method):
    release = publish(tmp_path, method, NARROW, TABLE.select(["c0", "c1"]), rows=1000)
    assert release.n_rows == release.frame().num_rows


def test_figures_are_written_for_people():
    assert "e-" not in written(8.10545e-16)
    assert "e+" not in written(2.5e33)
    assert written(950_000) == "950,000"
