"""Contract checks of estimators."""

from __future__ import annotations

import json

from hushtable.errors import HushtableError, PredicateError
from hushtable.release.release import Release
from hushtable.schema import Identifier
from hushtable.testing.example import Example
from hushtable.testing.expect import expect, expect_raised

FAR = 12
"""Maximum error of the estimated number of rows, in standard deviations.

A 95% interval would fail in 5% of the runs. An error above 12 standard deviations has a probability
below 1e-6, even with the exponential tails of Laplace noise.
"""


def check_estimator(release: Release, example: Example) -> None:
    """Check the answers that every release must give.

    Parameters
    ----------
    release : Release
        A release of the example's table, made with its method.
    example : Example
        Defines the queries to answer, and the true total.

    Raises
    ------
    ContractError
        If an answer is wrong or inconsistent, or an invalid query is answered.
    """
    n_counted = example.table.num_rows if example.n_counted is None else example.n_counted
    everyone = release.count("TRUE")
    expect(
        abs(everyone.value - n_counted) <= FAR * everyone.std + 1,
        f"count('TRUE') is {everyone}; the table has {n_counted}",
    )
    for where in example.questions:
        estimate = release.count(where)
        inside = 0 <= estimate.low <= estimate.value <= estimate.high
        expect(inside, f"{where}: the interval of {estimate} does not contain it, or is below 0")
        for part in ("privacy_std", "model_std"):
            std = getattr(estimate, part)
            expect(std >= 0, f"{where}: {part} is {std}; it must be at least 0")
        read = json.loads(json.dumps(estimate.to_dict()))["value"]
        expect(read == estimate.value, f"{where}: {estimate.value} is read from JSON as {read}")
    nobody = release.count("FALSE")
    nothing = nobody.value == nobody.low == nobody.high == 0
    expect(nothing, f"count('FALSE') is {nobody}; it must be exactly 0")
    _refuses_wrong_clauses(release)
    _gives_rows(release, example)


def _refuses_wrong_clauses(release: Release) -> None:
    columns = release.schema.columns
    first = next(iter(release.schema.attributes))
    hidden = [name for name, column in columns.items() if isinstance(column, Identifier)]
    absent = "x" * (1 + max(map(len, columns)))
    wrong = [f"\"{name}\" = 'v00001'" for name in hidden]
    wrong += [f"{absent} > 3", f'"{first}" >', f'"{first}" > (SELECT 1)', "1; DROP TABLE x"]
    for where in wrong:
        with expect_raised(PredicateError, f"{where} is answered; it must be refused"):
            release.count(where)


def _gives_rows(release: Release, example: Example) -> None:
    if not example.has_rows:
        with expect_raised(
            HushtableError, "the release has rows, but the example says it has none"
        ):
            release.frame()
        return
    columns = release.frame().column_names
    names = [name for name in columns if not name.endswith("_std")]
    published = list(release.schema.attributes)
    expect(names == published, f"rows have the columns {names}; the schema has {published}")
    beside = set(columns) - {*names, *(f"{name}_std" for name in names)}
    expect(not beside, f"rows have columns that are not in the schema: {sorted(beside)}")
