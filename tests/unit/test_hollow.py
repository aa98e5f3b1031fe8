"""Uninformative releases are refused before they are charged, from public numbers only."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import hushtable as ht
from hushtable.cli.plan import written
from hushtable.errors import HushtableWarning, Refused
from hushtable.methods.quilt.model import LogLinearModel
from seeds import shifted

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
    """Two tables that differ in size get the same refusal, so it reveals nothing about them."""
    said = []
    for table in (TABLE, TABLE.slice(0, 3)):
        with pytest.raises(Refused) as caught:
            publish(tmp_path, table=table)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "give an approximate one" in said[0]


def test_noise_larger_than_the_table_is_refused(tmp_path):
    schema = NARROW.model_copy(update={"rows": 40})
    partition = ht.Partition(epsilon="1/100", max_depth=2)
    with pytest.raises(Refused, match="answers would be uninformative"):
        publish(tmp_path, partition, schema, TABLE.select(["c0", "c1"]).slice(0, 40))


@pytest.mark.parametrize(
    "method", [ht.DiffGen(epsilon=1, target="c0"), ht.Partition(epsilon=1)], ids=lambda m: m.name
)
def test_cells_too_few_for_the_columns_are_refused_before_the_charge(tmp_path, method):
    """None of them splits most columns, so that intervals cover the whole table."""
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
    # With few columns the release is informative, and the forecast says so, too.
    few = schema.of_rows(["c0", "c1", "c2"])
    assert method.plan(few).typical_width(100_000) < 0.2
    lines = method.forecast(few, rows=100_000).lines
    assert "of the rows wide" in lines["interval of a count by one column, typically"]
    assert method.plan(few).uninformative(100_000) == ""


def test_the_calibration_of_a_paper_is_published_with_a_warning(tmp_path):
    """Its experiments include settings that the forecast would refuse otherwise."""
    method = replace(COUNTS, mechanism="paper")
    with pytest.warns(HushtableWarning, match="Forecast"):
        publish(tmp_path, method, rows=1000)
    assert spent(tmp_path) == 1


def test_one_long_column_does_not_make_a_release_of_short_ones_hollow():
    """The forecast is about a typical column, and may be wrong for one with many values."""
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
    expected = plan.count_error(rows=8000, share=plan.judged_share)
    assert expected.half_width > 800 > expected.typical
    assert plan.uninformative(8000) == ""
    assert "answers would be uninformative" in plan.uninformative(500)


# --- a small table with many columns --------------------------------------------------------------


def hospital(n_rows):
    """Make a table of the shape of a hospital file: 50 columns, most of them almost constant."""
    draw = np.random.default_rng(shifted(5))
    long = {"age": 100, "stay": 14, "tests": 132, "drugs": 81, "ward": 72, "diagnosis": 700}
    columns, table = {}, {"patient": draw.integers(0, max(n_rows * 3 // 5, 1), n_rows)}
    for name, size in long.items():
        values = [f"v{value}" for value in range(size)]
        columns[name] = {"type": "categorical", "values": values}
        table[name] = np.array(values)[draw.integers(0, size, n_rows)]
    values = ["No", "Steady", "Up", "Down"]
    for number in range(50 - len(long)):
        columns[f"drug{number}"] = {"type": "categorical", "values": values}
        table[f"drug{number}"] = draw.choice(values, n_rows, p=[0.9, 0.08, 0.01, 0.01])
    schema = ht.Schema.from_dict({
        "name": "stays",
        "unit": {"kind": "person", "column": "patient", "max_rows": 9},
        "columns": {"patient": {"role": "identifier"}, **columns},
    })  # fmt: skip
    return schema, pa.table(table)


def test_a_small_wide_table_is_refused_before_the_charge(tmp_path):
    schema, table = hospital(4999)
    method = ht.Quilt(epsilon=1, delta="1e-6")
    said = []
    for rows in (table, table.slice(0, 30)):  # the content of the table does not matter
        with pytest.raises(Refused, match="every count would be mostly noise") as caught:
            publish(tmp_path, method, schema, rows, rows=4999)
        said.append(str(caught.value))
    assert said[0] == said[1]
    for advice in ("Raise epsilon", "fewer columns", "lower max_rows (it is 9)", "--anyway"):
        assert advice in said[0]
    assert spent(tmp_path) == 0
    assert not (tmp_path / "out").exists()


def test_fewer_columns_or_rows_of_a_person_make_it_worth_its_charge():
    schema, _ = hospital(1)
    method = ht.Quilt(epsilon=1, delta="1e-6")
    assert method.plan(schema).uninformative(4999)
    assert not method.plan(schema).uninformative(100_000)
    assert not replace(method, epsilon=Fraction(5)).plan(schema).uninformative(4999)
    once = schema.model_copy(update={"unit": schema.unit.model_copy(update={"max_rows": 1})})
    assert not method.plan(once).uninformative(4999)
    # Without a number of rows, the forecast states how many rows are needed.
    needed = method.forecast(schema).lines["rows below which every count is mostly noise, about"]
    assert method.plan(schema).uninformative(int(0.97 * needed))
    assert not method.plan(schema).uninformative(needed)


@pytest.mark.parametrize("epsilon", ["1/10", 1, 30, 100])
def test_needed_rows_are_found_however_few_they_are(epsilon):
    plan = ht.Quilt(epsilon=epsilon, delta="1e-6").plan(NARROW)
    needed = plan.needed_rows()
    assert not plan.uninformative(needed)
    assert needed == 2 or plan.uninformative(needed - max(1, needed // 50))


def test_a_fit_that_fails_all_the_same_is_told_in_statement_and_warning(tmp_path, monkeypatch):
    """The command line writes such warnings to standard error."""
    monkeypatch.setattr(LogLinearModel, "lost_columns", lambda self: {0: 0.5})
    schema = NARROW.model_copy(update={"rows": 1000})
    with pytest.warns(HushtableWarning, match="The model could not be fitted"):
        release = publish(
            tmp_path, ht.Quilt(epsilon=1, delta="1e-6"), schema, TABLE.select(["c0", "c1"])
        )
    assert "The model could not be fitted" in release.statement.for_people()


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
