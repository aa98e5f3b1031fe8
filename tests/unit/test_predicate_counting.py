"""Counting over domains far too large to enumerate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hushtable.errors import TooLarge
from hushtable.query.where import parse
from hushtable.schema import Schema
from hushtable.schema.recoding import recodings

FORTY = Schema.from_dict(
    {
        "name": "forty",
        "columns": {f"x{i}": {"type": "integer", "low": 0, "high": 39} for i in range(20)},
    }
)
WIDE = Schema.from_dict(
    {
        "name": "wide",
        "columns": {
            "income": {
                "type": "integer",
                "low": -(2**30),
                "high": 2**30 - 2,
                "missing": "category",
            },
            "price": {"type": "number", "low": 0, "high": 1_000_000, "step": 0.001},
            "age": {"type": "integer", "low": 0, "high": 99},
        },
    }
)
SIZE = {name: column.size for name, column in WIDE.attributes.items()}


def matrix_power(table: np.ndarray, power: int) -> int:
    """Sum of the entries of a power of a 0/1 matrix, in Python integers."""
    vector = [1] * len(table)
    for _ in range(power):
        vector = [sum(v for v, hit in zip(vector, row, strict=True) if hit) for row in table]
    return sum(vector)


CHAIN = np.arange(40)[:, None] < np.arange(40)[None, :]
ALL = 40**20


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("TRUE", ALL),
        ("x0 < x1", math.comb(40, 2) * 40**18),
        (" AND ".join(f"x{i} < x{i + 1}" for i in range(19)), math.comb(40, 20)),
        (" OR ".join(f"x{i} < x{i + 1}" for i in range(19)), ALL - math.comb(59, 20)),
        ("NOT (" + " OR ".join(f"x{i} < x{i + 1}" for i in range(19)) + ")", math.comb(59, 20)),
        (" OR ".join(f"x{i} = 3" for i in range(20)), ALL - 39**20),
        (" AND ".join(f"x{i} <> 3" for i in range(20)), 39**20),
        (
            " AND ".join(f"(x{i} < x{i + 1} OR x{i + 1} = 5)" for i in range(19)),
            matrix_power((CHAIN | (np.arange(40) == 5)), 19),
        ),
        (" OR ".join(f"x{2 * i} < x{2 * i + 1}" for i in range(10)), ALL - 820**10),
        (
            "NOT (" + " AND ".join(f"(x{i} < x{i + 1} OR x{i + 1} = 5)" for i in range(19)) + ")",
            ALL - matrix_power((CHAIN | (np.arange(40) == 5)), 19),
        ),
        ("x0 + x1 + x2 + x3 = 78", 42_680 * 40**16),
        ("x0 < x1 AND x1 < x2 AND x2 < x0", 0),
        ("x7 IS NULL", 0),
    ],
)
def test_forty_to_the_twenty(where: str, count: int) -> None:
    """Exact, without enumerating the combinations, which would take forever."""
    assert parse(where, FORTY).count() == count


def test_same_sums_by_convolution() -> None:
    """Check the number used above by another method of counting."""
    ways = np.convolve(np.ones(40, np.int64), np.ones(40, np.int64))
    assert int(np.convolve(ways, ways)[78]) == 42_680


def test_too_wide_is_refused_with_the_atom() -> None:
    with pytest.raises(TooLarge, match=r"'x0 \+ x1 .* > 50' links 102,400,000 comb.*x4 40"):
        parse("x0 + x1 + x2 + x3 + x4 > 50 OR x5 = 1", FORTY).count()
    pairs = " AND ".join(f"x{i} * x{j} % 7 < 5" for i in range(12) for j in range(i))
    with pytest.raises(TooLarge, match="is too complex: counting over x1, x0"):
        parse(pairs, FORTY).count()


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("income >= 5", (2**30 - 6) * SIZE["price"] * 100),
        ("NOT income >= 5", (2**30 + 5) * SIZE["price"] * 100),
        ("income IS NULL OR income < 10 - 2 * income", (2**30 + 4 + 1) * SIZE["price"] * 100),
        ("2 * income - 3 IN (5, 7, 8, NULL)", 2 * SIZE["price"] * 100),
        ("income NOT IN (1, 2, 10000000000)", (2**31 - 3) * SIZE["price"] * 100),
        ("income <> 3", (2**31 - 2) * SIZE["price"] * 100),
        ("income * 0 = 0", (2**31 - 1) * SIZE["price"] * 100),
        ("income - income = 0", (2**31 - 1) * SIZE["price"] * 100),
        ("price BETWEEN 0.1 AND 0.3", 201 * SIZE["income"] * 100),
        ("price / 3 <= 0.1", 301 * SIZE["income"] * 100),
        ("price BETWEEN 0.1 AND 0.3 AND NOT (income > 3 OR income / 3 < -7)", 201 * 25 * 100),
        (
            "price < 1 OR income = 7 AND age > 30",
            1000 * SIZE["income"] * 100 + (SIZE["price"] - 1000) * 69,
        ),
        ("price < 1 AND (age % 7 = 3 OR income = 1)", 1000 * (14 * SIZE["income"] + 86)),
    ],
)
def test_wide_columns(where: str, count: int) -> None:
    assert parse(where, WIDE).count() == count


@pytest.mark.parametrize(
    ("where", "part"),
    [
        ("age = 1 OR income % 2 = 0", r"'income % 2 = 0' needs each of the 2,147,483,648 codes"),
        ("income * income > 4", r"'income \* income > 4' needs each"),
        ("income > age", r"'income > age' needs each .* 'income'.* limit is 5,000,000"),
    ],
)
def test_wide_columns_in_other_ways_are_refused(where: str, part: str) -> None:
    predicate = parse(where, WIDE)
    with pytest.raises(TooLarge, match=part):
        predicate.count()
    codes = {name: np.arange(50) * 7 for name in WIDE.attributes}
    assert predicate.mask(codes).shape == (50,)  # rows can still be evaluated


def test_values_at_the_ends_of_wide_columns() -> None:
    huge = Schema.from_dict(
        {
            "name": "huge",
            "columns": {
                "x": {"type": "integer", "low": 2**80, "high": 2**80 + 9},
                "y": {"type": "number", "low": -1e12, "high": 1e12, "step": 1e3},
            },
        }
    )
    assert parse(f"x > {2**80 + 3}", huge).count(["x"]) == 6
    assert parse(f"x * x * x = {(2**80 + 4) ** 3}", huge).count(["x"]) == 1
    assert parse(f"x % 3 = {2**80 % 3}", huge).count(["x"]) == 4
    assert parse(f"x * 3 / 7 * 7 IN ({3 * (2**80 + 6)}, 1)", huge).count(["x"]) == 1
    assert parse(f"1 / x * {2**80} IN (1, 2)", huge).count(["x"]) == 1
    rows = {"x": np.array([0, 9]), "y": np.array([2 * 10**9, 0])}
    assert parse("x * y > 0", huge).mask(rows).tolist() == [True, False]
    assert parse("y = 1000000000000", huge).count(["y"]) == 1
    assert parse("y / 3 < -333333333333", huge).count(["y"]) == 1


def test_products_beyond_a_word_do_not_wrap() -> None:
    """Factors fit 64 bits, products and common denominators do not."""
    low = 2**33
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "x": {"type": "integer", "low": low, "high": low + 9},
                "y": {"type": "integer", "low": -low, "high": 9 - low},
            },
        }
    )
    assert parse(f"x * x = {(low + 4) ** 2}", schema).count(["x"]) == 1
    assert parse(f"x * x > {(low + 4) ** 2}", schema).count(["x"]) == 5
    assert parse("x * y < 0", schema).count() == 100
    assert parse("x / y < y / x", schema).count() == sum(
        Fraction(low + i, j - low) < Fraction(j - low, low + i)
        for i in range(10)
        for j in range(10)
    )
    assert parse(f"x + {2**62} + {2**62} > {2**63} + x - 1", schema).count() == 100
    assert parse(f"(x * x) % {low} = 16", schema).count(["x"]) == 1


def test_weighing_over_many_columns() -> None:
    density = {
        f"x{i}": np.append(np.full(39, 1 / (100 + i)), 1 - 39 / (100 + i)) for i in range(20)
    }
    product = math.prod(density[f"x{i}"][39] for i in range(20))
    every = " AND ".join(f"x{i} = 39" for i in range(20))
    assert parse(every, FORTY).weigh(density) == pytest.approx(product)
    some = " OR ".join(f"x{i} < 39" for i in range(20))
    assert parse(some, FORTY).weigh(density) == pytest.approx(1 - product)
    equal = parse(" AND ".join(f"x{i} = x{i + 1}" for i in range(19)), FORTY)
    rest = math.prod(density[f"x{i}"][0] for i in range(20))
    assert equal.weigh(density) == pytest.approx(product + 39 * rest)


def test_shares_of_wide_cells() -> None:
    recode = recodings(WIDE, {"income": 1_000_000, "price": 1000.0, "age": 10})
    size = {name: rule.size for name, rule in recode.items()}
    codes = {name: np.array([0, 1, size[name] - 1]) for name in recode}
    assert parse("income IS NULL", WIDE).shares(recode, codes).tolist() == [0, 0, 1]
    low = -(2**30)
    found = parse(f"income < {low + 1_250_000}", WIDE).shares(recode, codes)
    assert found.tolist() == [1, 0.25, 0]
    # A condition across two wide columns: more than 2**53 combinations per cell.
    coarse = recodings(WIDE, {"income": 2**30, "price": 500_000.0})
    both = f"(income < {low + 2**28} AND price < 125000) OR (income >= 0 AND price >= 125000)"
    cells = {"income": np.array([0, 0, 1, 1, 2]), "price": np.array([0, 1, 0, 1, 1])}
    found = parse(both, WIDE).shares(coarse, cells)
    assert found.tolist() == [1 / 16, 0, 0.75, 1, 0]


def test_shares_of_a_million_cells_are_quick() -> None:
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "score": {"type": "integer", "low": 0, "high": 999},
                "age": {"type": "integer", "low": 0, "high": 99},
                "sex": {"type": "categorical", "values": ["F", "M"]},
            },
        }
    )
    recode = recodings(schema, {"score": 50, "age": 10})
    rows = np.arange(1_000_000)
    codes = {"score": rows % 20, "age": rows // 20 % 10, "sex": rows // 200 % 2}
    found = parse("score < 3 * age AND sex = 'F' OR age > 38 AND sex = 'M'", schema).shares(
        recode, codes
    )
    value, age = np.meshgrid(np.arange(1000), np.arange(100), indexing="ij")
    tied = (value < 3 * age).reshape(20, 50, 10, 10).mean(axis=(1, 3))
    older = (np.arange(100) > 38).reshape(10, 10).mean(axis=1)
    meant = np.where(codes["sex"] == 0, tied[codes["score"], codes["age"]], older[codes["age"]])
    np.testing.assert_allclose(found, meant, atol=1e-15)


def test_shares_that_are_too_wide_are_refused() -> None:
    recode = recodings(FORTY, {f"x{i}": 2 for i in range(20)})
    codes = {name: np.zeros(2, np.int64) for name in FORTY.attributes}
    chain = " OR ".join(f"x{i} < x{i + 1}" for i in range(19))
    with pytest.raises(TooLarge, match="generalized combinations of x0, x1"):
        parse(chain, FORTY).shares(recode, codes)
    ties = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "x": {"type": "integer", "low": 0, "high": 99_999},
                "y": {"type": "integer", "low": 0, "high": 1},
            },
        }
    )
    rows = {"x": np.zeros(2, np.int64), "y": np.zeros(2, np.int64)}
    with pytest.raises(TooLarge, match="column 'x': 10,000 generalized codes times 100,000"):
        parse("x > y", ties).shares(recodings(ties, {"x": 10}), rows)
    assert parse("x > y", ties).shares({}, rows).tolist() == [0, 0]
    separate = " OR ".join(f"x{2 * i} < x{2 * i + 1}" for i in range(10))
    assert parse(separate, FORTY).shares(recode, codes).tolist() == pytest.approx(
        [1 - 0.75**10] * 2
    )
