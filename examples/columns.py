"""Example of columns: publish ratings, query the release, and train a rating model on it.

Run it with ``python examples/columns.py``; it uses generated data and a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from hushtable import Columns, Release, Schema, publish
from hushtable.learn import RatingModel

MOVIES = [f"m{i}" for i in range(12)]


def ratings(n_people: int = 20_000) -> pa.Table:
    """Generate ratings: half of the people like the first six movies, half the others."""
    draw = np.random.default_rng(7)
    first_half = draw.random(n_people) < 0.5
    watches = draw.random((n_people, len(MOVIES))) < 0.25
    liked = first_half[:, None] == (np.arange(len(MOVIES)) < 6)
    user, movie = np.nonzero(watches)
    rating = np.where(liked[user, movie], 4, 2) + draw.integers(-1, 2, len(user))
    return pa.table({"user": user, "movie": [MOVIES[m] for m in movie], "rating": rating})


def main() -> None:
    """Plan, publish, query, and train a model."""
    schema = Schema.from_dict(
        {
            "name": "ratings (generated)",
            "unit": {"kind": "person", "column": "user", "max_rows": 12},
            "columns": {
                "user": {"role": "identifier"},
                "movie": {"type": "categorical", "values": MOVIES},
                "rating": {"type": "integer", "low": 1, "high": 5},
            },
        }
    )
    method = Columns(
        epsilon=2,
        delta="1e-6",
        k=10,
        item="movie",
        value="rating",
        max_values=4,  # maximum number of ratings per person
        max_columns=3,  # maximum number of columns per person
        clusters=[4],  # sizes of the columns, which are chosen privately with a fifth of the budget
        count_share="1/50",
    )
    print("The promise, before any data is read:")
    for promise in method.guarantee(schema):
        print(" ", promise.explain())
    print("What to expect:")
    for name, figure in method.forecast(schema).lines.items():
        print(f"  {name}: {figure}")

    with tempfile.TemporaryDirectory() as folder:
        publish(ratings(), schema, method, out=Path(folder) / "release")
        release = Release.load(Path(folder) / "release")  # an analyst has only this folder
        print("The columns:", release.statement.estimator["columns"])
        for question in ("m0 = 5", "m0 IS NULL", "m0 >= 4 AND m7 >= 4"):
            print(f"{question}: {release.count(question)}")
        model = RatingModel(rank=2).fit_release(release)
        guess = model.predict([["new", "m1"]], known_X=[["new", "m0"]], known_y=[5])
        print(f"predicted rating of m1 by a person who gave m0 five stars: {guess[0]:.1f}")


if __name__ == "__main__":
    main()
