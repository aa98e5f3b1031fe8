"""Error of predicted ratings against the number of ratings (not in Li and Li 2009).

``python -m benchmarks.papers.rating_growth [MILLIONS ...]`` generates ratings of 500 movies with a
known structure (`columns_figures.generate`). It publishes the training ratings at epsilon 5 and k
10, with one column for each movie, and predicts ratings of at most 5,000 held-out people. It prints
the error of the release and these errors for comparison:

- each movie's average rating;
- *limit*: a model trained on the exact counts, of all ratings or of those that at least k people
  gave. Its distance from the release is the effect of noise; its distance from raw data is the
  effect of separate columns;
- raw data, if there are few enough to train on;
- the five schemas of the paper, whose columns contain several movies.

``--movielens`` does the same for MovieLens 1M.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from hushtable.learn import RatingModel
from hushtable_papers.li_2009 import (
    DATA,
    MAX_VALUES,
    SCHEMAS,
    Split,
    generate,
    movielens,
    try_columns,
)

HELD_OUT = 5_000
K = 10
STARS = 5
SETTINGS = {"epsilon": 5, "delta": "1e-5", "k": K}
RATED = 5.2  # mean number of ratings per person in `generate`
MOST_RAW = 4_000_000
"""Maximum number of raw ratings to train on; more take minutes."""


def of_size(millions: float) -> Split:
    """Generate and split ratings; only `HELD_OUT` of the held-out people are used, to save time."""
    ratings = generate(n_people=round(millions * 1e6 / RATED))
    split = Split.of(ratings)
    people = np.unique(split.asked.user)[:HELD_OUT]
    return Split(split.train, *(part.take(np.isin(part.user, people))
                                for part in (split.known, split.asked)))  # fmt: skip


def movie_average(split: Split) -> float:
    """Return the error of predicting each movie's average in the raw training data."""
    train, n = split.train, split.train.n_movies
    counts = np.bincount(train.movie, minlength=n)
    average = np.bincount(train.movie, train.rating, n) / np.maximum(counts, 1)
    return float(np.sqrt(np.mean((average[split.asked.movie] - split.asked.rating) ** 2)))


def limit(split: Split, k: int) -> float:
    """Return the error of a model trained on exact counts of ratings, of those that k people gave.

    A count below k is left out.
    """
    train, n = split.train, split.train.n_movies
    counts = np.bincount(train.movie * STARS + train.rating - 1, minlength=n * STARS)
    kept = np.flatnonzero(counts >= k)
    pairs = np.array([(number, f"m{number // STARS}") for number in kept.tolist()], object)
    model = RatingModel().fit(pairs, kept % STARS + 1.0, counts[kept].astype(float))
    return split.score(model)


def shown(split: Split, name: str) -> None:
    """Print the errors of one data set."""
    alone = [[f"m{movie}"] for movie in range(split.train.n_movies)]
    print(f"{name}: {len(split.train.user):,} ratings; movie average {movie_average(split):.4f}")
    if len(split.train.user) <= MOST_RAW:
        for level, error in split.baselines().items():
            print(f"  {level}: {error:.4f}", flush=True)
    for k in (1, K):
        found = limit(split, k)
        print(f"  limit, a column for each movie, k = {k}: {found:.4f}", flush=True)
    for max_columns in (10, 20, 40, 80):
        found = try_columns(split, **SETTINGS, columns=alone, max_columns=max_columns)
        print(
            f"  a column for each movie, c* = {max_columns}: {found['rmse']:.4f}, "
            f"{found['movies published']} movies published",
            flush=True,
        )
    for number, (clusters, max_columns) in SCHEMAS.items():
        found = try_columns(
            split, **SETTINGS, clusters=clusters, max_columns=max_columns, max_values=MAX_VALUES
        )
        print(
            f"  schema {number} of the paper: {found['rmse']:.4f}, "
            f"{found['movies published']} movies published",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers.rating_growth")
    parser.add_argument("millions", nargs="*", type=float, default=[])
    parser.add_argument("--movielens", action="store_true")
    given = parser.parse_args()
    if given.movielens:
        shown(Split.of(movielens(DATA)), "MovieLens 1M, 500 movies")
    for millions in given.millions:
        start = time.process_time()
        shown(of_size(millions), f"generated, {millions:g} million")
        print(f"  {time.process_time() - start:.0f} s of CPU", flush=True)


if __name__ == "__main__":
    main()
