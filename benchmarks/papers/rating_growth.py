"""How the error of predicted ratings falls as there are more of them: paper 000 beyond its figures.

``python -m benchmarks.papers.rating_growth [MILLIONS ...]`` generates ratings of 500 movies with a
known structure (`columns_figures.generate`), publishes those of all but 5,000 people at epsilon 5,
k 10, and prints the error on the asked half of these people's ratings beside that of each movie's
average. The *limit* has the exact counts of all tuples, or of those that k people have, in the same
columns: what noise takes away is between it and the release, what the columns take away is between
it and what raw data gives. ``--movielens`` does the same for MovieLens 1M.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from benchmarks.papers.columns_figures import DATA, Ratings, Split, generate, movielens, try_columns
from numpy.typing import NDArray

from hushtable.learn import RatingModel

HELD_OUT = 5_000
K = 10
SETTINGS = {"epsilon": 5, "delta": "1e-5", "k": K}
RATED = 5.2  # ratings of a person that `generate` draws, on average


def of_size(millions: float) -> Split:
    """Generate ratings; hold out so many people that asking takes no longer than learning."""
    ratings = generate(n_people=round(millions * 1e6 / RATED))
    split = Split.of(ratings)
    people = np.unique(split.asked.user)[:HELD_OUT]
    return Split(split.train, *(part.take(np.isin(part.user, people))
                                for part in (split.known, split.asked)))  # fmt: skip


def movie_average(split: Split) -> float:
    """Give the error of each movie's average in the raw training data."""
    train, n = split.train, split.train.n_movies
    counts = np.bincount(train.movie, minlength=n)
    average = np.bincount(train.movie, train.rating, n) / np.maximum(counts, 1)
    return float(np.sqrt(np.mean((average[split.asked.movie] - split.asked.rating) ** 2)))


def limit(split: Split, columns: Sequence[Sequence[int]], k: int) -> float:
    """Learn from the exact counts of all tuples of columns that k people have."""
    place = np.full(split.train.n_movies, -1)
    for number, movies in enumerate(columns):
        place[list(movies)] = number
    tuples, counts = exact_tuples(split.train, place)
    kept = counts >= k
    X, y, weights = [], [], []
    for number in np.flatnonzero(kept):
        for movie, rating in tuples[number]:
            X.append((number, f"m{movie}"))
            y.append(rating)
            weights.append(counts[number])
    pairs = np.empty((len(X), 2), object)
    pairs[:] = X
    return split.score(RatingModel().fit(pairs, np.array(y, float), np.array(weights, float)))


def exact_tuples(
    ratings: Ratings, place: NDArray[np.int64]
) -> tuple[list[tuple[tuple[int, int], ...]], NDArray[np.int64]]:
    """Count what each person has in each column."""
    column = place[ratings.movie]
    order = np.lexsort((ratings.movie, column, ratings.user))
    user, movie, rating, column = (
        part[order] for part in (ratings.user, ratings.movie, ratings.rating, column)
    )
    starts = np.flatnonzero((np.diff(user, prepend=-1) != 0) | (np.diff(column, prepend=-1) != 0))
    seen: dict[tuple[tuple[int, int], ...], int] = {}
    for movies, values in zip(
        np.split(movie, starts[1:]), np.split(rating, starts[1:]), strict=True
    ):
        key = tuple(zip(movies.tolist(), values.tolist(), strict=True))
        seen[key] = seen.get(key, 0) + 1
    return list(seen), np.array(list(seen.values()), np.int64)
