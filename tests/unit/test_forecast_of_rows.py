"""Forecast of rows in `plan`: a note if they may be less accurate than single columns."""

from __future__ import annotations

import pytest

import hushtable as ht
from hushtable.methods import Frapp, Mondrian, RandomSampling, TopDownSpecialization
from hushtable.methods.base import Method
from hushtable.methods.count_error import ROWS

SAID = "published separately"


def schema_of(n_columns: int, *, values: int = 40) -> ht.Schema:
    lines = {f"x{i}": {"type": "integer", "low": 1, "high": values} for i in range(n_columns)}
    yes = {"type": "categorical", "values": ["no", "yes"], "role": "target"}
    return ht.Schema.from_dict({"name": "t", "columns": {**lines, "y": yes}})


@pytest.mark.parametrize(
    "method",
    [ht.Partition(epsilon=1), ht.DiffGen(epsilon=1), TopDownSpecialization(k=10), Mondrian(k=10)],
    ids=lambda method: method.name,
)
def test_rows_from_few_wide_cells_are_forecast_to_be_worse_than_columns(method: Method) -> None:
    wide = method.forecast(schema_of(20), rows=2_000).lines
    assert SAID in str(wide[ROWS])
    narrow = method.forecast(schema_of(1, values=8), rows=1_000_000).lines
    assert ROWS not in narrow


def test_suppressed_sampled_and_replaced_rows_are_reported() -> None:
    few, many = schema_of(3), schema_of(1, values=4)
    suppressing, sampling = ht.GeneralizeSuppress(k=5), RandomSampling(rate="1/10")
    assert SAID in str(suppressing.forecast(few, rows=5_000).lines[ROWS])
    assert ROWS not in suppressing.forecast(many, rows=5_000).lines
    assert SAID in str(sampling.forecast(few, rows=1_000).lines[ROWS])
    assert ROWS not in sampling.forecast(few, rows=1_000_000).lines
    apart = ht.Columns(epsilon=1, delta="1e-6", k=10, max_columns=1, columns=[["x0", "y"]])
    assert SAID in str(apart.forecast(schema_of(1), rows=2_000).lines[ROWS])
    assert ROWS not in apart.forecast(schema_of(1), rows=1_000_000).lines
    replaced = Frapp(retention="1/4").forecast(many, rows=5_000).lines[ROWS]
    assert str(replaced).startswith("about 75%")
    method = ht.AlphaBeta(prior_factor=1, n_public=1000, gamma="1/2")
    line = method.forecast(few, rows=5_000).lines
    true = float(line["share of true tuples among those published, about"])
    assert str(line[ROWS]).startswith(f"about {1 - true:.0%}")


def test_noise_over_much_of_a_range_is_reported() -> None:
    """Noise moves 1,600 records by 0.4 of a range in seven columns, by 0.05 in two columns."""
    number = {"type": "integer", "low": 0, "high": 999}

    def lines(n_columns: int) -> dict[str, object]:
        columns = {f"x{at}": number for at in range(n_columns)}
        schema = ht.Schema.from_dict({"name": "t", "columns": columns})
        return dict(ht.Uncertain(k=5).forecast(schema, rows=1600).lines)

    assert "published separately" in str(lines(7)[ROWS])
    assert ROWS not in lines(2)
