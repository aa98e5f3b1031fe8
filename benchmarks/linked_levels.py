"""Associations over three levels of linked tables: wards, costs of visits, and drugs.

``python -m benchmarks.linked_levels [--persons N] [--runs N] [--epsilon E]``

A generated hospital: persons with up to four visits, each with up to four prescriptions. For each
run, the benchmark prints the mean cost by ward, the shares of steps from ward to ward, and the
share of opioids by ward: the truth (of rows that count), in joined synthetic rows, and as answered
with intervals. The last lines are mean relative errors and the coverage of intervals.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import hushtable as ht
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish_linked
from hushtable.schema.linked_schema import LinkedSchema

WARDS = ("er", "icu", "ob", "sur")
DRUGS = ("opioid", "statin", "antibiotic", "other")
SCHEMA = LinkedSchema.parse("""
name: hospital
tables:
  persons:
    key: id
    columns:
      sex: {type: categorical, values: [F, M]}
      age: {type: integer, low: 0, high: 9}
  visits:
    parent: persons
    key: visit
    foreign_key: person
    max_children: 4
    order: day
    facts: {any_icu: ward = 'icu'}
    columns:
      day: {type: integer, low: 0, high: 51}
      ward: {type: categorical, values: [er, icu, ob, sur]}
      cost: {type: integer, low: 0, high: 9999}
  prescriptions:
    parent: visits
    foreign_key: visit
    max_children: 4
    facts: {any_opioid: drug = 'opioid'}
    columns:
      drug: {type: categorical, values: [opioid, statin, antibiotic, other]}
      days: {type: integer, low: 1, high: 14}
""")


def hospital(n: int, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Generate the three tables."""
    sex, age = rng.integers(0, 2, n), rng.integers(0, 10, n)
    n_visits = np.minimum(rng.poisson(0.6 + 0.2 * age), 6)
    person = np.repeat(np.arange(n), n_visits)
    day = rng.integers(0, 52, len(person))
    order = np.lexsort((day, person))
    person, day = person[order], day[order]
    ward = np.empty(len(person), np.int64)
    base = np.array([0.5, 0.1, 0.15, 0.25])
    for i, who in enumerate(person):
        chance = base * np.array([1, 0.4 + 0.15 * age[who], 2 * (sex[who] == 0), 1])
        if i and person[i - 1] == who:
            chance = 0.45 * chance / chance.sum()
            chance[ward[i - 1]] += 0.55
        ward[i] = rng.choice(4, p=chance / chance.sum())
    cost = np.minimum(rng.gamma(2, np.array([150, 1100, 400, 700])[ward]), 9999).astype(int)
    visits = pd.DataFrame({"visit": np.arange(len(person)), "person": person, "day": day,
                           "ward": np.array(WARDS)[ward], "cost": cost})  # fmt: skip
    n_drugs = np.minimum(rng.poisson(np.array([0.7, 2.0, 1.0, 1.5])[ward]), 6)
    visit = np.repeat(np.arange(len(person)), n_drugs)
    table = np.array(
        [[0.2, 0.2, 0.3, 0.3], [0.62, 0.1, 0.18, 0.1], [0.1, 0.1, 0.3, 0.5], [0.4, 0.1, 0.4, 0.1]]
    )
    drug = np.array([rng.choice(4, p=table[w]) for w in ward[visit]], np.int64)
    days = np.clip(rng.poisson(4 + 3 * (drug == 1)), 1, 14)
    prescriptions = pd.DataFrame({"visit": visit, "drug": np.array(DRUGS)[drug], "days": days})
    persons = pd.DataFrame({"id": np.arange(n), "sex": np.array(["F", "M"])[sex], "age": age})
    return {"persons": persons, "visits": visits, "prescriptions": prescriptions}


def figures(tables: dict[str, pd.DataFrame]) -> dict[str, float]:
    """Compute mean cost by ward, steps between wards, and the share of opioids by ward."""
    visits, drugs = tables["visits"], tables["prescriptions"]
    found = {f"mean cost {w}": visits.cost[visits.ward == w].mean() for w in WARDS}
    ordered = visits.sort_values(["person", "day"], kind="stable")
    same = (ordered.person.shift() == ordered.person).to_numpy()
    was = ordered.ward.shift()[same]
    now = ordered.ward[same]
    found |= {f"{w} to {w}": float((now[was == w] == w).mean()) for w in WARDS}
    joined = drugs.merge(visits[["visit", "ward"]], on="visit")
    found |= {f"opioid in {w}": float((joined.drug[joined.ward == w] == "opioid").mean())
              for w in WARDS}  # fmt: skip
    return found


def main() -> None:
    """Publish, compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--persons", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--epsilon", default="2")
    parser.add_argument("--first", type=int, default=1)
    given = parser.parse_args()
    errors, held = defaultdict(list), defaultdict(list)
    for run in range(given.first, given.first + given.runs):
        rng = np.random.default_rng(run)
        private = hospital(given.persons, rng)
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            release = publish_linked(
                {name: pa.Table.from_pandas(t) for name, t in private.items()}, SCHEMA,
                ht.Linked(epsilon=given.epsilon, delta="1e-6"), out=Path(folder) / "out",
                noise=SeededNoise(run),
            )  # fmt: skip
            took = time.process_time() - start
            rows = {name: release.table(name).to_pandas() for name in SCHEMA.tables}
            # A prescription names its visit, which has the key that the schema names.
            # Beyond four child rows, a random subset counts; the first four are as good as any.
            kept = {**private, "visits": private["visits"].groupby("person").head(4)}
            kept["prescriptions"] = private["prescriptions"].groupby("visit").head(4)
            kept["prescriptions"] = kept["prescriptions"][
                kept["prescriptions"].visit.isin(kept["visits"].visit)
            ]
            truth, drawn = figures(private), figures(rows)
            counted = figures(kept)
            exists = "persons.sex = 'F' AND EXISTS prescriptions.drug = 'opioid'"
            answer = release.count(exists)
            merged = private["prescriptions"].merge(private["visits"], on="visit")
            who = merged.person[merged.drug == "opioid"].unique()
            women = int((private["persons"].sex[private["persons"].id.isin(who)] == "F").sum())
            held["EXISTS"].append(answer.low <= women <= answer.high)
            print(f"run {run}: {took:.0f} CPU s; EXISTS {answer.value:.0f} "
                  f"({answer.low:.0f} to {answer.high:.0f}), truth {women}")  # fmt: skip
            for name, true in truth.items():
                off = abs(drawn[name] / true - 1)
                errors[name].append(off)
                told, last = "", name.split()[-1]
                if name.startswith("mean cost"):
                    found = release.of("visits").mean("cost", where=f"ward = '{last}'")
                elif name.startswith("opioid"):
                    found = release.of("prescriptions").share(
                        "drug = 'opioid'", where=f"\"visits.ward\" = '{last}'"
                    )
                else:
                    found = None
                if found is not None:
                    held[name.split(" in")[0][:9]].append(found.low <= counted[name] <= found.high)
                    told = f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
                print(f"  {name:18} {true:9.3f} {drawn[name]:9.3f} {off:7.1%} {told}")
    for name, found in errors.items():
        print(f"{name:18} mean error {np.mean(found):6.1%}, largest {np.max(found):6.1%}")
    for name, found in held.items():
        print(f"{name:18} covered {np.mean(found):6.1%} of {len(found)}")


if __name__ == "__main__":
    main()
