"""Coverage and width of 95% intervals on tables that break the assumptions of models.

``python -m benchmarks.stress [--families ...] [--methods ...] [--epsilons ...] [--runs N]
[--rows N ...] [--columns N] [--misses N]``

Each family of generated tables violates one assumption: dependence of three columns without any
dependence of two (*xor*, *products*), reversal within groups (*simpson*), latent classes, chains
and colliders, heavy tails, heaps, sentinel codes, many zeros, nearly collinear columns, rare
classes and categories with many values. Every release has a new table and new random questions.
Other columns (`--columns` in all) are noise or weakly dependent.

A line is printed for each family, method, epsilon and kind of answer; coverage is never pooled over
families. *unknown* are answers whose interval contains all that the measured tables allow (support
"untested"). *refused* are questions without an answer. The last columns are the median half-width,
and its median ratio to the half-width without privacy (sampling error only).
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.answer_coverage import Truth, released
from hushtable.errors import HushtableError, Refused
from hushtable.methods import METHODS, Method
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.questions import ReleaseQuestions, quoted
from hushtable.schema import Categorical, Schema

Rng = np.random.Generator
Ints = NDArray[Any]
KINDS = (
    "count of 1", "count of 2", "count of 3", "mean", "mean where", "mean where 2", "group mean",
    "share", "median", "correlation", "slope",
)  # fmt: skip
FEW = 12
"""Maximum number of values of a column that groups are made by."""


def _bits(rng: Rng, n: int, share: float = 0.5) -> Ints:
    return (rng.random(n) < share).astype(int)


def _coarse(x: NDArray[Any], low: int, high: int) -> Ints:
    return np.clip(np.rint(x), low, high).astype(int)


def xor(rng: Rng, n: int) -> dict[str, Ints]:
    """Every pair of a, b and y is independent; together they are determined."""
    a, b = _bits(rng, n), _bits(rng, n)
    return {
        "a": a,
        "b": b,
        "y": a ^ b,
        "x": _coarse(50 + 20 * (a ^ b) + rng.normal(0, 10, n), 0, 99),
    }


def products(rng: Rng, n: int) -> dict[str, Ints]:
    """Numbers and their product."""
    u, v = rng.integers(-9, 10, n), rng.integers(-9, 10, n)
    return {"u": u + 9, "v": v + 9, "p": _coarse(50 + u * v / 2 + rng.normal(0, 4, n), 0, 99),
            "g": (u * v > 0).astype(int)}  # fmt: skip


def simpson(rng: Rng, n: int) -> dict[str, Ints]:
    """Treatment helps in each group and harms overall."""
    group = rng.integers(0, 3, n)
    treated = _bits(rng, n, 0.0) | (rng.random(n) < np.array([0.1, 0.5, 0.9])[group])
    well = rng.random(n) < np.array([0.85, 0.5, 0.1])[group] + 0.1 * treated
    score = _coarse(60 - 20 * group + 8 * treated + rng.normal(0, 8, n), 0, 99)
    return {
        "grp": group,
        "treated": treated.astype(int),
        "well": well.astype(int),
        "score": score,
    }


def mixture(rng: Rng, n: int) -> dict[str, Ints]:
    """Three latent classes, one of them rare."""
    z = rng.choice(3, n, p=[0.5, 0.45, 0.05])
    made = {f"k{i}": (rng.random(n) < np.array([0.1, 0.5, 0.95])[(z + i % 2) % 3]).astype(int)
            for i in range(4)}  # fmt: skip
    return {**made, "x": _coarse(np.array([20, 60, 90])[z] + rng.normal(0, 6, n), 0, 99)}


def chain(rng: Rng, n: int) -> dict[str, Ints]:
    """A causal chain and a collider of its ends."""
    a = rng.normal(0, 1, n)
    b = a + rng.normal(0, 0.7, n)
    c = b + rng.normal(0, 0.7, n)
    other = rng.normal(0, 1, n)
    made = {
        name: _coarse(50 + 12 * v, 0, 99) for name, v in zip("abco", (a, b, c, other), strict=True)
    }
    return {**made, "hit": (a + other > 1).astype(int)}


def tails(rng: Rng, n: int) -> dict[str, Ints]:
    """Log-normal income that depends on a group; the public range is far wider."""
    group = rng.integers(0, 8, n)
    income = np.exp(rng.normal(10 + 0.25 * group, 0.9, n))
    hours = _coarse(30 + group + rng.normal(0, 8, n), 0, 80)
    return {"income": 100 * _coarse(income / 100, 0, 14_000), "edu": group, "hours": hours,
            "sex": _bits(rng, n)}  # fmt: skip


def heaps(rng: Rng, n: int) -> dict[str, Ints]:
    """Rounded answers."""
    hours = np.where(rng.random(n) < 0.6, 40, _coarse(rng.normal(35, 12, n), 0, 80))
    age = _coarse(rng.gamma(6, 7, n), 0, 99)
    age = np.where(rng.random(n) < 0.4, 5 * (age // 5), age)
    pay = 1000 * _coarse(hours * rng.gamma(4, 0.3, n), 0, 400)
    pay = np.where(rng.random(n) < 0.7, 5000 * (pay // 5000), pay)
    return {"hours": hours, "age": age, "pay": pay, "sex": _bits(rng, n)}


def sentinels(rng: Rng, n: int) -> dict[str, Ints]:
    """Codes such as 999 among the numbers."""
    group = rng.integers(0, 4, n)
    days = np.where(rng.random(n) < 0.15 * group + 0.2, 999, _coarse(rng.gamma(2, 40, n), 0, 400))
    visits = np.where(rng.random(n) < 0.1, 98, rng.poisson(3 + group))
    return {"days": days, "visits": np.clip(visits, 0, 98), "grp": group, "sex": _bits(rng, n)}


def zeros(rng: Rng, n: int) -> dict[str, Ints]:
    """Amounts that are mostly 0."""
    group = rng.integers(0, 5, n)
    there = rng.random(n) < 0.02 + 0.03 * group
    gain = np.where(there, _coarse(np.exp(rng.normal(7, 1.2, n)), 1, 99_999), 0)
    claims = np.where(rng.random(n) < 0.85, 0, rng.poisson(2, n))
    return {
        "gain": gain,
        "claims": np.clip(claims, 0, 20),
        "grp": group,
        "owner": there.astype(int),
    }


def collinear(rng: Rng, n: int) -> dict[str, Ints]:
    """A column that is nearly the sum of two others."""
    a, b = rng.normal(50, 12, n), rng.normal(50, 12, n)
    y = a / 2 + rng.normal(0, 5, n)
    both = {"a": a, "b": b, "s": (a + b) / 2 + rng.normal(0, 1, n), "y": y + 20}
    return {name: _coarse(v, 0, 99) for name, v in both.items()} | {"sex": _bits(rng, n)}


def rare(rng: Rng, n: int) -> dict[str, Ints]:
    """An outcome of one in a hundred that three columns determine."""
    age, dose = rng.integers(0, 100, n), rng.integers(0, 10, n)
    smokes = _bits(rng, n, 0.2)
    sick = rng.random(n) < np.where((age > 70) & (dose > 6) & (smokes == 1), 0.7, 0.003)
    return {"age": age, "dose": dose, "smokes": smokes, "sick": sick.astype(int)}


def categories(rng: Rng, n: int) -> dict[str, Ints]:
    """A category with 150 values of Zipf frequency that shifts a number."""
    share = 1 / np.arange(1, 151)
    job = rng.choice(150, n, p=share / share.sum())
    pay = _coarse(40 + 30 * np.sin(job) + rng.normal(0, 10, n), 0, 199)
    return {"job": job, "pay": pay, "big": (job % 3 == 0).astype(int), "kind": job % 6}


@dataclass(frozen=True)
class Family:
    """A generator of tables, with its categorical columns."""

    make: Callable[[Rng, int], dict[str, Ints]]
    sizes: dict[str, int]  # number of values of each categorical column
    highs: dict[str, tuple[int, int, int]]  # low, high and step of each number


_HUNDRED = (0, 99, 1)
FAMILIES = {
    "xor": Family(xor, {"a": 2, "b": 2, "y": 2}, {"x": _HUNDRED}),
    "products": Family(products, {"g": 2}, {"u": (0, 18, 1), "v": (0, 18, 1), "p": _HUNDRED}),
    "simpson": Family(simpson, {"grp": 3, "treated": 2, "well": 2}, {"score": _HUNDRED}),
    "mixture": Family(mixture, {f"k{i}": 2 for i in range(4)}, {"x": _HUNDRED}),
    "chain": Family(chain, {"hit": 2}, dict.fromkeys("abco", _HUNDRED)),
    "tails": Family(tails, {"edu": 8, "sex": 2},
                    {"income": (0, 1_400_000, 100), "hours": (0, 80, 1)}),
    "heaps": Family(heaps, {"sex": 2},
                    {"hours": (0, 80, 1), "age": _HUNDRED, "pay": (0, 400_000, 1000)}),
    "sentinels": Family(sentinels, {"grp": 4, "sex": 2},
                        {"days": (0, 999, 1), "visits": (0, 98, 1)}),
    "zeros": Family(zeros, {"grp": 5, "owner": 2}, {"gain": (0, 99_999, 1), "claims": (0, 20, 1)}),
    "collinear": Family(collinear, {"sex": 2}, dict.fromkeys("absy", _HUNDRED)),
    "rare": Family(rare, {"smokes": 2, "sick": 2}, {"age": _HUNDRED, "dose": (0, 9, 1)}),
    "categories": Family(categories, {"job": 150, "big": 2, "kind": 6}, {"pay": (0, 199, 1)}),
}  # fmt: skip


def made(name: str, seed: int, n: int, n_columns: int) -> tuple[pa.Table, Schema]:
    """Generate a table of a family and its schema, with other columns that hardly matter."""
    rng, family = np.random.default_rng(seed), FAMILIES[name]
    columns: dict[str, Any] = dict(family.make(rng, n))
    described: dict[str, Any] = {
        name: {"type": "integer" if step == 1 else "number", "low": low, "high": high, "step": step}
        for name, (low, high, step) in family.highs.items()
    }
    for one in described.values():
        if one["type"] == "integer":
            del one["step"]
    sizes = dict(family.sizes)
    lead = next(iter(columns.values()))
    for place in range(n_columns - len(columns)):
        size = (2, 4, 60)[place % 3]
        mixed = np.where(rng.random(n) < 0.2, lead % size, rng.integers(0, size, n))
        columns[f"f{place}"] = mixed
        if size < FEW:
            sizes[f"f{place}"] = size
        else:
            described[f"f{place}"] = {"type": "integer", "low": 0, "high": size - 1}
    for key, size in sizes.items():
        values = [f"v{i}" for i in range(size)]
        described[key] = {"type": "categorical", "values": values}
        columns[key] = np.array(values)[columns[key]]
    for key, one in described.items():
        if one["type"] == "number":
            columns[key] = columns[key].astype(float)
    ordered = {key: described[key] for key in columns}
    return pa.table(columns), Schema.from_dict({"name": name, "columns": ordered})


def _cuts(schema: Schema) -> dict[str, list[float]]:
    """Return public cuts of numbers with many values: seven, of equal width."""
    found = {}
    for name, column in schema.attributes.items():
        if not isinstance(column, Categorical) and column.n_values > FEW:
            low, high = (float(column.value(code)) for code in (0, column.n_values - 1))  # type: ignore[arg-type]
            found[name] = [int(low + (high - low) * k / 8) for k in range(1, 8)]
    return found


def _pairs(schema: Schema) -> list[list[str]]:
    names = list(schema.attributes)
    return [names[i : i + 2] for i in range(0, len(names), 2)]


METHODS_MADE: dict[str, Callable[[str, Schema], Method]] = {
    "quilt": lambda e, _: METHODS["quilt"](epsilon=e, delta="1e-9", particles=20_000),
    "noisy-counts": lambda e, s: METHODS["noisy-counts"](
        epsilon=e, delta="1e-6", k=10, generalize=_cuts(s), row_count_share="1/20"),
    "columns": lambda e, s: METHODS["columns"](
        epsilon=e, delta="1e-6", k=10, max_columns=2, generalize=_cuts(s), count_share="1/20",
        columns=_pairs(s)),
    "partition": lambda e, _: METHODS["partition"](epsilon=e),
    "diffgen": lambda e, s: METHODS["diffgen"](
        epsilon=e, target=next(n for n, c in s.attributes.items() if isinstance(c, Categorical))),
    "alpha-beta": lambda _, __: METHODS["alpha-beta"](alpha="1/4", beta="1/1000"),
    "mondrian": lambda _, __: METHODS["mondrian"](k=10),
    "generalize-suppress": lambda _, s: METHODS["generalize-suppress"](k=10, generalize=_cuts(s)),
    "random-sampling": lambda _, __: METHODS["random-sampling"](rate="1/10"),
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """Outcome of one question."""

    kind: str
    held: bool = True
    unknown: bool = False
    refused: bool = False
    half: float = math.nan
    plain: float = math.nan  # half-width without privacy
    text: str = ""


def _condition(rng: Rng, table: pa.Table, schema: Schema, name: str) -> str:
    """Return a condition on a column with values of random rows."""
    some = [table.column(name)[int(i)].as_py() for i in rng.integers(0, table.num_rows, 2)]
    if isinstance(schema.attributes[name], Categorical):
        return f"{quoted(name)} = '{some[0]}'"
    if rng.random() < 0.5:
        return f"{quoted(name)} BETWEEN {min(some)!r} AND {max(some)!r}"
    return f"{quoted(name)} >= {some[0]!r}"


def asked(  # noqa: PLR0915, PLR0917 - one block for each kind of answer
    answers: ReleaseQuestions, table: pa.Table, schema: Schema, core: list[str], rng: Rng, n: int
) -> Iterator[Result]:
    """Ask n random questions of each kind, about columns that matter more often than others."""
    truth, names = Truth(table, schema), list(schema.attributes)
    done = set[tuple[str, str]]()
    numeric = [x for x in names if not isinstance(schema.attributes[x], Categorical)]
    groups = [x for x in names if schema.attributes[x].n_values <= FEW]

    def some(among: list[str], k: int) -> list[str]:
        weights = np.array([4.0 if name in core else 1.0 for name in among])
        return rng.choice(
            among, min(k, len(among)), replace=False, p=weights / weights.sum()
        ).tolist()

    def where(k: int, but: str | None = None) -> str:
        chosen = some([name for name in names if name != but], k)
        return " AND ".join(_condition(rng, table, schema, name) for name in chosen)

    def compare(
        kind: str, ask: Callable[[], Any], true: Callable[[tuple[Any, ...]], tuple[float, float]],
        what: str,
    ) -> Iterator[Result]:  # fmt: skip
        if (kind, what) in done:
            return
        done.add((kind, what))
        try:
            found = ask()
        except Refused as refusal:
            yield Result(kind, refused=True, text=f"{what}: {refusal}")
            return
        pairs = [((), found)] if isinstance(found, Estimate) else list(found)
        for key, one in pairs:
            if kind == "slope" and key[0] == "(intercept)":
                continue
            value, std = true(key)
            if math.isnan(value):
                continue
            if math.isnan(one.value):
                yield Result(kind, refused=True, text=f"{what} {key}: {one.notes}")
                continue
            slack = 1e-9 * max(1.0, abs(value))
            yield Result(
                kind,
                one.low - slack <= value <= one.high + slack,
                getattr(one, "support", "") == "untested",
                half=(one.high - one.low) / 2,
                plain=NORMAL * std,
                text=f"{what} {key}: true {value:.6g}, {one}",
            )

    def values(name: str, clause: str | None) -> NDArray[Any]:
        found: NDArray[Any] = truth.frame[name][truth.mask(clause)].astype(float)
        return found

    def mean(v: NDArray[Any]) -> tuple[float, float]:
        return (float(v.mean()), float(v.std() / len(v) ** 0.5)) if len(v) else (math.nan, math.nan)

    def median(v: NDArray[Any]) -> tuple[float, float]:
        if not len(v):
            return math.nan, math.nan
        v, at, reach = np.sort(v), math.ceil(len(v) / 2) - 1, int(NORMAL * len(v) ** 0.5 / 2)
        width = v[min(at + reach, len(v) - 1)] - v[max(at - reach, 0)]
        return float(v[at]), float(width / 2 / NORMAL)

    for _ in range(n):
        for k in (1, 2, 3):
            clause = where(k)
            yield from compare(f"count of {k}", lambda c=clause: answers.count(c, "people"),
                               lambda _, c=clause: truth.count(c), clause)  # fmt: skip
        y = some(numeric, 1)[0]
        for kind, k in (("mean", 0), ("mean where", 1), ("mean where 2", 2)):
            clause = where(k, y) if k else None
            yield from compare(
                kind, lambda y=y, c=clause: answers.statistic("mean", y, c, (), "people"),
                lambda _, y=y, c=clause: mean(values(y, c)), f"mean {y} {clause}")  # fmt: skip
        clause = where(1, y)
        yield from compare(
            "median", lambda y=y, c=clause: answers.quantile(y, 0.5, c, (), "people"),
            lambda _, y=y, c=clause: median(values(y, c)), f"median {y} {clause}")  # fmt: skip
        part, of = _condition(rng, table, schema, y), where(1, y)

        def share(_: Any, part: str = part, of: str = of) -> tuple[float, float]:
            both, base = truth.count(f"{part} AND {of}")[0], max(1.0, truth.count(of)[0])
            return both / base, (both / base * (1 - both / base) / base) ** 0.5

        yield from compare("share", lambda p=part, o=of: answers.share(p, o, (), "people"),
                           share, f"{part} among {of}")  # fmt: skip
        if groups:
            g = some(groups, 1)[0]
            yield from compare(
                "group mean",
                lambda y=y, g=g: answers.statistic("mean", y, None, (g,), "people"),
                lambda key, y=y, g=g: mean(values(y, _is(g, key[0]))),
                f"mean {y} by {g}",
            )
        if len(numeric) > 1:
            one, two = sorted(some(numeric, 2))
            pair = np.corrcoef(values(one, None), values(two, None))[0, 1]
            yield from compare(
                "correlation",
                lambda o=one, t=two: answers.correlation(o, t, None, (), "people"),
                lambda _, r=pair: (r, (1 - r**2) / table.num_rows**0.5),
                f"{one}, {two}",
            )
            others = [g for g in groups if schema.attributes[g].n_values < 5]
            extra = [f"C({some(others, 1)[0]})"] if others and rng.random() < 0.5 else []
            formula = f"{one} ~ {' + '.join([two, *extra])}"

            def slopes(key: Any, o: str = one, f: str = formula) -> tuple[float, float]:
                terms = ["(intercept)", key[0]]
                for term in f.split("~")[1].split("+"):
                    name = term.strip().removeprefix("C(").removesuffix(")")
                    column: Any = schema.attributes[name]
                    terms += (
                        [name]
                        if isinstance(column, Categorical) is False
                        else [f"C({name})[{column.value(c)}]" for c in range(1, column.n_values)]
                    )
                terms = list(dict.fromkeys(["(intercept)", *terms[2:]]))
                try:
                    found, std = truth.slopes(terms, o)
                except np.linalg.LinAlgError:
                    return math.nan, math.nan
                return found.get(key[0], math.nan), std.get(key[0], math.nan)

            yield from compare(
                "slope",
                lambda f=formula: answers.regression(f, None, logistic=False, scope="people"),
                slopes,
                formula,
            )


def _is(name: str, value: Any) -> str:
    return f"{quoted(name)} = {value!r}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stress")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--methods", nargs="+", choices=METHODS_MADE, default=["quilt"])
    parser.add_argument("--epsilons", nargs="+", default=["1"])
    parser.add_argument("--runs", type=int, default=3, help="releases of each cell")
    parser.add_argument("--first", type=int, default=0, help="number of the first release")
    parser.add_argument("--questions", type=int, default=4, help="questions of each kind")
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 10_000],
                        help="numbers of rows, by turns")  # fmt: skip
    parser.add_argument("--columns", type=int, default=7)
    parser.add_argument("--misses", type=int, default=0, help="misses to print for each cell")
    given = parser.parse_args()
    print("| family | method | epsilon | answers | n | hold | unknown | refused | half-width | "
          "ratio |")  # fmt: skip
    print("|" + " --- |" * 10)
    started = time.process_time()
    for name in given.families:
        for label in given.methods:
            for epsilon in given.epsilons:
                _cell(given, name, label, epsilon)
    print(f"{time.process_time() - started:.0f} CPU s")


def _cell(given: argparse.Namespace, name: str, label: str, epsilon: str) -> None:
    """Publish and ask; print the lines of one family, method and epsilon."""
    seen: dict[str, list[Result]] = defaultdict(list)
    for run in range(given.first, given.first + given.runs):
        table, schema = made(name, run, given.rows[run % len(given.rows)], given.columns)
        core = [*FAMILIES[name].sizes, *FAMILIES[name].highs]
        try:
            release = released(METHODS_MADE[label](epsilon, schema), table, schema)
        except HushtableError as error:
            print(f"| {name} | {label} | {epsilon} | no release: {str(error)[:80]} |")
            continue
        if release.counted == "distinct tuples":
            table = table.group_by(table.column_names).aggregate([])
        rng = np.random.default_rng([run, len(name)])
        for one in asked(ReleaseQuestions(release), table, schema, core, rng, given.questions):
            seen[one.kind].append(one)
    for kind in KINDS:
        found = [one for one in seen[kind] if not one.refused]
        n_refused = len(seen[kind]) - len(found)
        if not seen[kind]:
            continue
        held = 100 * np.mean([one.held for one in found]) if found else math.nan
        unknown = 100 * np.mean([one.unknown for one in found]) if found else math.nan
        halves = np.median([one.half for one in found]) if found else math.nan
        ratios = [one.half / one.plain for one in found if one.plain > 0]
        print(
            f"| {name} | {label} | {epsilon} | {kind} | {len(found)} | {held:.0f}% | "
            f"{unknown:.0f}% | {n_refused} | {halves:.3g} | "
            f"{np.median(ratios) if ratios else math.nan:.3g} |",
            flush=True,
        )
        for one in [one for one in found if not one.held][: given.misses]:
            print("    ", one.text[:300])


if __name__ == "__main__":
    main()
