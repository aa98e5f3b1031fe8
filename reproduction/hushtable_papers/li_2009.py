"""Figures 1 to 3 of Li and Li: noise against frequency, and rating prediction from releases.

Run by ``hushtable reproduce li-2009``. The paper uses Netflix's ratings, which are no
longer available. MovieLens 1M and a generated data set of similar shape replace them.

The protocol of the rating experiments
--------------------------------------
- Movies: the first 100 or 500 by number, as in the paper; people who rated at least one of them.
- One person in ten is held out, sampled once with a fixed seed, and is in no training data.
- Training: the other people's ratings, raw or published. A release is padded as in section 7: each
  copy of a published tuple is a person who rated only the items of the tuple.
- A random half of the ratings of each held-out person (rounded down) is *known*. From these, the
  common level of all held-out people and the bias and factors of each person are folded in, with
  the model's items fixed. The other half is predicted. This is the same for raw data and releases.
- The model's penalties, and the decision to fold in unseen items and a common level, were chosen by
  the errors on another split of the same data (seed 5). The split reported here (seed 2026) was
  made afterwards and evaluated once. `max_values` = 6 was set before any error was known, and kept;
  1, 2, 4, 10 and 20 made little difference on the other split.
- All experiments use the same model: `RatingModel()` with its defaults (rank 8).
- Baselines: the average rating of each movie in the raw training data (unprotected, li-2009-13);
  the model with biases only, on raw training data; and the model without training data, which has
  only the folded-in ratings. The gain over this last baseline is the value of a release.
- Columns are chosen privately, with a fifth of the budget, from at most `max_values` ratings of
  each person. The paper chose them from raw data (li-2009-1).
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from hushtable import Columns, NoisyCounts, Release, Schema, publish
from hushtable.learn import RatingModel
from hushtable_papers.data_sets import folder
from hushtable_papers.figure import Curve, Figure, Panel, Point
from hushtable_papers.repetitions import setting

EPSILONS = {"1": "1", "ln 5": "ln(5)", "ln 10": "ln(10)"}
DELTAS = ("1e-3", "1e-5", "1e-7")
SCHEMAS = {1: ([5], 2), 2: ([10], 3), 3: ([50], 6), 4: ([5, 10], 4), 5: ([5, 10, 50], 8)}
"""Cluster sizes and c* of Table 2."""

PLACES = {"1": 1.0, "ln 5": math.log(5), "ln 10": math.log(10)}
MECHANISMS = ("paper", "tight")
DEFAULT: dict[str, Any] = {"epsilon": "ln(5)", "delta": "1e-5", "k": 10}
FREQUENCIES = (
    1,
    5,
    6,
    7,
    8,
    9,
    10,
    12,
    14,
    16,
    18,
    20,
    22,
    24,
    26,
    28,
    30,
    32,
    34,
    36,
    40,
    45,
    50,
    60,
    100,
)
READ = {
    "a": [Point.exact(30, 1), Point.exact(15, 1), Point.exact(50, 0.1)],
    "b": [Point.exact(f, 1) for f in (30, 23, 15)],
    "c": [Point.exact(f, 1) for f in (13, 35)],
}
"""Values from the paper's text on figure 1: the least released frequency, and a noise of 0.1 at 50.
"""

MAX_VALUES = 6
RUNS = setting(
    {"whole records": 3, "movielens": 3, "generated": 2},
    {"whole records": 1, "movielens": 1, "generated": 1},
)
"""Number of releases of each setting, chosen for a run time of ten minutes."""


@dataclass(frozen=True)
class Ratings:
    """Ratings of movies by users; movies are numbered from 0."""

    name: str
    user: NDArray[np.int64]
    movie: NDArray[np.int64]
    rating: NDArray[np.int64]
    n_movies: int

    def take(self, kept: NDArray[np.bool_]) -> Ratings:
        """Return the ratings that a mask selects."""
        return Ratings(
            self.name, self.user[kept], self.movie[kept], self.rating[kept], self.n_movies
        )

    @cached_property
    def pairs(self) -> NDArray[Any]:
        """User and movie of each rating, as input of the rating model."""
        names = np.array([f"m{i}" for i in range(self.n_movies)], object)
        return np.stack([self.user.astype(object), names[self.movie]], axis=1)

    @cached_property
    def table(self) -> pa.Table:
        """The private table."""
        names = pa.array([f"m{i}" for i in range(self.n_movies)])
        return pa.table({"user": self.user, "movie": names.take(pa.array(self.movie)),
                         "rating": self.rating})  # fmt: skip

    @cached_property
    def schema(self) -> Schema:
        """Schema of the table, from the public movies and rating scale."""
        return Schema.from_dict(
            {
                "name": self.name,
                "unit": {"kind": "person", "column": "user", "max_rows": self.n_movies},
                "columns": {
                    "user": {"role": "identifier"},
                    "movie": {
                        "type": "categorical", "values": [f"m{i}" for i in range(self.n_movies)]
                    },
                    "rating": {"type": "integer", "low": 1, "high": 5},
                },
            }
        )  # fmt: skip


def generate(n_people: int = 96_000, n_movies: int = 500, per_person: float = 6.0,
             seed: int = 11) -> Ratings:  # fmt: skip
    """Generate ratings similar to Netflix's: few per person, and a skewed popularity of movies.

    Ratings are low-rank with noise, rounded to 1 to 5. Movies belong to ten genres, and people are
    more likely to rate movies that they like.
    """
    draw = np.random.default_rng(seed)
    fame = 1 / (3 + np.arange(n_movies)) ** 0.9
    fame = draw.permutation(fame / fame.sum())
    genre = draw.integers(0, 10, n_movies)
    taste = draw.normal(0, 1, (n_people, 4))
    movie_side = draw.normal(0, 0.45, (10, 4))[genre] + draw.normal(0, 0.12, (n_movies, 4))
    quality = draw.normal(0, 0.45, n_movies)
    mood = draw.normal(0, 0.4, n_people)
    activity = draw.gamma(0.8, per_person / 0.8, n_people)
    users, movies, ratings = [], [], []
    for first in range(0, n_people, 4000):
        part = slice(first, min(first + 4000, n_people))
        liking = taste[part] @ movie_side.T
        chance = fame * np.exp(0.7 * liking)
        chance *= (activity[part] / chance.sum(axis=1))[:, None]
        who, what = np.nonzero(draw.random(chance.shape) < chance)
        noise = draw.normal(0, 0.75, len(who))
        value = 3.6 + quality[what] + mood[part][who] + liking[who, what] + noise
        users.append(who + first)
        movies.append(what)
        ratings.append(np.clip(np.rint(value), 1, 5).astype(np.int64))
    return Ratings(
        f"generated, {n_movies} movies", np.concatenate(users), np.concatenate(movies),
        np.concatenate(ratings), n_movies,
    )  # fmt: skip


def movielens(data: Path, n_movies: int = 500) -> Ratings:
    """Read the ratings of the first movies by number of MovieLens 1M."""
    table = pa_csv.read_csv(data / "ratings" / "ml-1m_ratings.csv.gz")
    user, movie, rating = (table[name].to_numpy() for name in ("user", "movie", "rating"))
    numbers = np.unique(movie)[:n_movies]
    kept = np.isin(movie, numbers)
    return Ratings(
        f"MovieLens 1M, {n_movies} movies", user[kept], np.searchsorted(numbers, movie[kept]),
        rating[kept], n_movies,
    )  # fmt: skip


@dataclass(frozen=True)
class Split:
    """Training ratings, and the known and the predicted half of each held-out person's ratings."""

    train: Ratings
    known: Ratings
    asked: Ratings

    @classmethod
    def of(cls, ratings: Ratings, seed: int = 2026) -> Split:
        """Split the ratings by the protocol."""
        draw = np.random.default_rng(seed)
        people = np.unique(ratings.user)
        held = np.isin(ratings.user, people[draw.random(len(people)) < 0.1])
        order = np.lexsort((draw.random(len(ratings.user)), ratings.user))
        starts = np.flatnonzero(np.diff(ratings.user[order], prepend=-1))
        sizes = np.diff(np.append(starts, len(order)))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(starts, sizes)
        size = np.empty(len(order), np.int64)
        size[order] = np.repeat(sizes, sizes)
        known = held & (place < size // 2)
        return cls(ratings.take(~held), ratings.take(known), ratings.take(held & ~known))

    def score(self, model: RatingModel) -> float:
        """Return the root mean squared error on the predicted half."""
        return model.score(
            self.asked.pairs, self.asked.rating, known_X=self.known.pairs, known_y=self.known.rating
        )

    def baselines(self) -> dict[str, float]:
        """Return the errors of raw data, of the movies' averages, and without training data."""
        train, n = self.train, self.train.n_movies
        sums, counts = (
            np.bincount(train.movie, train.rating, n),
            np.bincount(train.movie, minlength=n),
        )
        average = np.where(counts > 0, sums / np.maximum(counts, 1), train.rating.mean())
        errors = average[self.asked.movie] - self.asked.rating
        return {
            "raw": self.score(RatingModel().fit(train.pairs, train.rating)),
            "raw, biases only": self.score(RatingModel(rank=0).fit(train.pairs, train.rating)),
            "movie average": float(np.sqrt(np.mean(errors**2))),
            "nothing published": self.score(RatingModel().fit(np.empty((0, 2), object), [])),
        }


def survivors(release: Release) -> dict[str, int]:
    """Return the number of published tuples by length."""
    lengths = np.unique(release.table()["tuple"].to_numpy(), return_counts=True)[1]
    return {
        str(length): int(n)
        for length, n in zip(*np.unique(lengths, return_counts=True), strict=True)
    }


def try_columns(split: Split, **parameters: Any) -> dict[str, Any]:
    """Publish the training ratings, and train a model on the release."""
    method = Columns(item="movie", value="rating", **parameters)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        release = publish(split.train.table, split.train.schema, method, out=Path(folder) / "r")
        seconds = time.perf_counter() - start
        table = release.table()
        ratings = int(table["count"].to_numpy().sum())
        rmse = split.score(RatingModel().fit_release(release))
        lengths = survivors(release)
    movies = len(set(table["movie"].to_pylist()))
    return {"rmse": rmse, "tuples by length": lengths, "movies published": movies,
            "ratings published": ratings, "seconds": round(seconds, 1)}  # fmt: skip


# --- the figures --------------------------------------------------------------------------------


def noise_curve(name: str, frequencies: Iterable[int], **change: Any) -> Curve:
    """Return the curve of noise(f), computed exactly from the formula."""
    method = NoisyCounts(**{**DEFAULT, **change})
    return Curve(name, [Point.exact(f, method.of_one_row.noise_level(int(f))) for f in frequencies])


def figure_1() -> Figure:
    """Compute noise(f) for all panels.

    In panel (d), only the range of f depends on the number of users.
    """
    kinds = {
        "a": {f"epsilon {name}": {"epsilon": e} for name, e in EPSILONS.items()},
        "b": {f"delta {delta}": {"delta": delta} for delta in DELTAS},
        "c": {f"k {k}": {"k": k} for k in (3, 10, 20)},
    }
    panels = [
        Panel(
            f"({part}) {mechanism}",
            [
                noise_curve(name, FREQUENCIES, mechanism=mechanism, **change)
                for name, change in changes.items()
            ]
            + [Curve("the paper's text", READ[part], printed=True)] * (mechanism == "paper"),
        )
        for part, changes in kinds.items()
        for mechanism in MECHANISMS
    ]
    everyone = generate(n_movies=100, per_person=2.5)
    uniform = np.random.default_rng(3).random(int(everyone.user.max()) + 1)
    for mechanism in MECHANISMS:
        curves = []
        for share in (0.25, 0.5, 1.0):  # of 96,000 people: 5%, 10% and 20% of the subscribers
            counts = _whole_tuples(everyone.take(uniform[everyone.user] < share))
            seen = np.unique(counts[counts >= 1])
            kept = np.unique(seen[np.unique(np.geomspace(1, len(seen), 30).astype(int)) - 1])
            curves.append(noise_curve(f"{share:.0%} of the people", kept, mechanism=mechanism))
        panels.append(Panel(f"(d) {mechanism}", curves))
    return Figure(
        "1", "Noise level against the frequency of a tuple", "frequency", "noise level",
        "exact, by the formula of the mechanism", 1, panels, x_log=True,
    )  # fmt: skip


def _whole_tuples(ratings: Ratings) -> NDArray[np.int64]:
    """Return the frequency of each distinct whole record."""
    order = np.lexsort((ratings.movie, ratings.user))
    key = ratings.movie[order] * 5 + ratings.rating[order] - 1
    starts = np.flatnonzero(np.diff(ratings.user[order], prepend=-1))
    records = [tuple(part.tolist()) for part in np.split(key, starts[1:])]
    seen: dict[tuple[int, ...], int] = {}
    for record in records:
        seen[record] = seen.get(record, 0) + 1
    return np.array(list(seen.values()), np.int64)


@cache
def whole_records() -> Split:
    """Return the generated ratings of 100 movies."""
    return Split.of(generate(n_movies=100, per_person=2.5))


@cache
def data_set(name: str) -> Split:
    """Return the ratings of 500 movies."""
    return Split.of(generate() if name == "generated" else movielens(folder()))


@cache
def levels(name: str) -> dict[str, float]:
    """Return the errors of the baselines."""
    return (whole_records() if name == "whole records" else data_set(name)).baselines()


def whole_error(split: Split, k: int, epsilon: str, delta: str, mechanism: str) -> float:
    """Publish whole records (one column) as in section 7.1, and return the error."""
    found = try_columns(
        split, epsilon=epsilon, delta=delta, k=k, max_columns=1,
        columns=[[f"m{i}" for i in range(split.train.n_movies)]], mechanism=mechanism,
    )  # fmt: skip
    return float(found["rmse"])


def whole_errors(*setting: Any) -> list[float]:
    return [whole_error(whole_records(), *setting) for _ in range(RUNS["whole records"])]


def figure_2() -> Figure:
    """Measure the error of whole records of 100 movies."""
    panels = [
        Panel(
            f"k = {k}, {mechanism}",
            [
                Curve(
                    f"delta {delta}",
                    [
                        Point.of_runs(
                            at,
                            whole_errors(k, EPSILONS[name], delta, mechanism),
                        )
                        for name, at in PLACES.items()
                    ],
                )
                for delta in DELTAS
            ],
            {name: levels("whole records")[name] for name in ("raw", "movie average")},
        )
        for k in (10, 3)
        for mechanism in MECHANISMS
    ]
    return Figure(
        "2", "Error of predicted ratings, whole records of 100 movies (generated)", "epsilon",
        "RMSE", f"mean of {RUNS['whole records']} releases, with one standard error",
        RUNS["whole records"], panels,
    )  # fmt: skip


def column_error(name: str, number: int | None, epsilon: str, delta: str, mechanism: str) -> float:
    """Publish with one of the five schemas, or whole records, and return the error."""
    if number is None:
        return whole_error(data_set(name), 10, epsilon, delta, mechanism)
    clusters, max_columns = SCHEMAS[number]
    found = try_columns(
        data_set(name), epsilon=epsilon, delta=delta, k=10, clusters=clusters,
        max_columns=max_columns, max_values=MAX_VALUES, mechanism=mechanism,
    )  # fmt: skip
    return float(found["rmse"])


@cache
def column_errors(name: str, *setting: Any) -> list[float]:
    return [column_error(name, *setting) for _ in range(RUNS[name])]


def figure_3(name: str, part: Literal["a", "b"]) -> Figure:
    """Measure the error of whole records and the five schemas, (a) by epsilon or (b) by delta."""
    settings = (
        {at: (EPSILONS[title], "1e-5") for title, at in PLACES.items()}
        if part == "a"
        else {float(delta): ("ln(5)", delta) for delta in DELTAS}
    )
    panels = [
        Panel(
            f"({part}) {mechanism}",
            [
                Curve(
                    f"schema {number}" if number else "whole records",
                    [
                        Point.of_runs(at, column_errors(name, number, *setting, mechanism))
                        for at, setting in settings.items()
                    ],
                )
                for number in (None, *SCHEMAS)
            ],
            levels(name),
        )
        for mechanism in MECHANISMS
    ]
    return Figure(
        f"3{part}-{name}", f"Error of predicted ratings, five schemas, {name}",
        "epsilon" if part == "a" else "delta", "RMSE",
        f"mean of {RUNS[name]} releases, with one standard error", RUNS[name], panels,
        x_log=part == "b",
    )  # fmt: skip


DATA_OF_FIGURES = {"3a-movielens": "movielens", "3b-movielens": "movielens"}
FIGURES: dict[str, Callable[[], Figure]] = {
    "1": figure_1,
    "2": figure_2,
    "3a-movielens": partial(figure_3, "movielens", "a"),
    "3b-movielens": partial(figure_3, "movielens", "b"),
    "3a-generated": partial(figure_3, "generated", "a"),
    "3b-generated": partial(figure_3, "generated", "b"),
}
