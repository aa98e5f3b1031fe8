"""Contract checks for authors of methods.

`check_spec` checks the parts of a method, `check_method` checks all laws on an `Example`, and
`check_audit` runs the auditor. `CHECKS` contains the laws individually, for test runners::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_the_contract(check, tmp_path):
        check(Example(MyMethod(epsilon=1)), tmp_path)

The methods of hushtable are tested with the same checks.
"""

from __future__ import annotations

import ast
import dataclasses
import errno
import inspect
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from hushtable.audit.cases import Case
from hushtable.audit.recorder import PlanWrapper
from hushtable.audit.report import Report
from hushtable.audit.run import audit
from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.engine.cells import WrittenParts
from hushtable.errors import DataError, HushtableError, PredicateError, Refused
from hushtable.methods.base import Method
from hushtable.methods.parameters import Parameters
from hushtable.methods.registry import estimator_kinds
from hushtable.methods.spec import MethodSpec
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.publishing.publish import publish
from hushtable.publishing.run import PublishRun
from hushtable.query.answers.estimator import Estimator
from hushtable.release.release import Release
from hushtable.release.statement import SEEDED
from hushtable.schema import Categorical, Identifier, Numeric, Schema

__all__ = [
    "CHECKS",
    "Case",
    "ContractError",
    "Example",
    "audit",
    "check_audit",
    "check_audit_sees",
    "check_estimator",
    "check_method",
    "check_proof",
    "check_source",
    "check_spec",
]


# Example inputs for the contract checks of a method.


@dataclass(frozen=True)
class Example:
    """A method with parameters, and the inputs it is checked on.

    Parameters
    ----------
    method : Method
        The method, with its parameters.
    schema : Schema
        A schema that the method supports. By default, that of the embedded sample.
    table : pyarrow.Table
        A few hundred artificial rows that match the schema. By default, the embedded sample.
    questions : tuple of str
        WHERE clauses that its releases must answer. By default, one or two for each column.
    n_counted : int, optional
        True value of ``count("TRUE")``. By default, the number of rows.
    has_rows : bool, default=True
        Whether a release has rows (`Release.frame`). If not, `Release.frame` must raise an error.
    refuses_few : str
        Regular expression that the error for a table with one row or none must match. Empty if
        every table is published, including an empty one.
    seed : int, default=7
        Seed of the run that is repeated.

    Examples
    --------
    >>> from hushtable import DiffGen
    >>> print(*Example(DiffGen(epsilon=1)).questions[:3], sep=", ")
    "age" >= 50, "sex" = 'F', "region" = 'harbor'
    """

    method: Method
    schema: Schema = dataclasses.field(default_factory=sample_schema)
    table: pa.Table = dataclasses.field(default_factory=sample)
    questions: tuple[str, ...] = ()
    n_counted: int | None = None
    has_rows: bool = True
    refuses_few: str = ""
    seed: int = 7

    def __post_init__(self) -> None:
        if not self.questions:
            object.__setattr__(self, "questions", tuple(_about_each_column(self.schema)))


def _about_each_column(schema: Schema) -> Iterator[str]:
    for name, column in schema.attributes.items():
        quoted = '"' + name.replace('"', '""') + '"'
        if column.type == "categorical":
            value = column.values[0].replace("'", "''")
            yield f"{quoted} = '{value}'"
        elif isinstance(column, Numeric):
            yield f"{quoted} >= {column.value(column.n_values // 2)}"
        if column.missing == "category":
            yield f"{quoted} IS NULL"


# Assertions of the contract checks.


class ContractError(AssertionError):
    """A method, or a part of it, violates the contract that every method must keep."""


def expect(holds: object, otherwise: str) -> None:
    """Raise `ContractError` with a message unless a condition holds.

    Unlike ``assert``, this check is not removed by ``python -O``.
    """
    if not holds:
        raise ContractError(otherwise)


@contextmanager
def expect_raised(kind: type[HushtableError], otherwise: str) -> Iterator[list[str]]:
    """Require that the block raises an error of this class; its message is added to the list."""
    said: list[str] = []
    try:
        yield said
    except kind as error:
        said.append(str(error))
        return
    raise ContractError(otherwise)


# Contract checks of estimators.

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
        abs(everyone.value - n_counted) <= FAR * everyone.reach + 1,
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


# Contract checks of the laws that every method must keep, each on one example.
#
# A check takes an `Example` and an empty folder, and raises `ContractError` if a law is violated.

CANARY = "zebra-4711"
"""A value that is in no schema, and must not appear in any output."""

FEW = 600
"""Number of rows for checks that publish several times."""

_FIXED = ("parameters", "guarantees", "unprotected", "schema", "split", "method")


def check_promise(example: Example, folder: Path) -> None:
    """Check law 1: the promise depends on the schema only, and states its terms and limits."""
    method, schema = example.method, example.schema
    takes = list(inspect.signature(method.guarantee).parameters)
    expect(
        takes == ["schema"], f"guarantee has the parameters {takes}; it must only take the schema"
    )
    promised = method.guarantee(schema)
    expect(promised, "guarantee returns no promise; return NoGuarantee if there is none")
    expect(
        promised == method.guarantee(schema), "guarantee returns a different promise on each call"
    )
    for promise in promised:
        expect(promise.explain().endswith("."), f"explain() is not a sentence: {promise.explain()}")
        expect(promise.unprotected, f"unprotected is empty: state what {promise} does not cover")


def check_charge(example: Example, folder: Path) -> None:
    """Check law 4: the charge is recorded before data is read, and remains if reading fails."""
    counted = _counted(example)
    ledger = Ledger.create(
        folder / "ledger",
        epsilon=100,
        delta="1e-3",
        unit=example.schema.unit,
        neighbors=counted[0].neighbors if counted else "add-remove",
        allow_uncounted=not counted,
    )
    seen: list[list[str]] = []

    def read() -> Any:
        seen.append([entry.status for entry in ledger.entries()])
        raise DataError("stop here")

    plan, noise = example.method.plan(example.schema), SecureNoise()
    run = PublishRun(plan, noise=noise, out=folder / "out", paying={"ledger": ledger})
    with expect_raised(DataError, "the table is not read"):
        run.publish(read)
    expect(
        seen == [["charged"]], f"the ledger contains {seen} when the table is read, not a charge"
    )
    left = [entry.status for entry in ledger.entries()]
    expect(left == ["charged"], f"after a failure, the ledger contains {left}, not the charge")
    expect(not (folder / "out").exists(), "a failed run left a release behind")


def check_errors(example: Example, folder: Path) -> None:
    """Check law 5: an error about data names the column and rows, but no value."""
    columns = example.schema.attributes
    listed = [name for name, column in columns.items() if isinstance(column, Categorical)]
    name = listed[0] if listed else next(iter(columns))
    some = example.table.slice(0, 50)
    place = some.column_names.index(name)
    broken = some.set_column(place, name, pa.array([CANARY] * some.num_rows))
    strict = example.schema.to_dict()
    strict["columns"][name]["outside"] = "refuse"
    if not listed:  # a text in a numeric column is missing
        strict["columns"][name]["missing"] = "forbid"
    changed = dataclasses.replace(example, schema=Schema.from_dict(strict), table=broken)
    with expect_raised(
        DataError, f"values of {name!r} that the schema refuses are accepted"
    ) as said:
        _publish(changed, folder / "out")
    expect(CANARY not in said[0], f"an error quotes a value of {name!r}")
    for part in (repr(name), f"{some.num_rows} rows"):
        expect(part in said[0], f"an error about data does not contain {part}: {said[0]}")
    _expect_nothing_left(folder)


def check_every_row(example: Example, folder: Path) -> None:
    """Check that any row can be published, and that only the rows of the release depend on it."""
    rows = example.table.slice(0, FEW)
    names = rows.column_names
    texts = pa.table({name: rows[name].cast(pa.string()) for name in names})
    cells = [None, "", "nan", "-inf", "1e300", "2.55", CANARY]
    hostile: dict[str, str | None] = dict.fromkeys(names, CANARY)
    odd = [hostile | {name: cell} for name, cell in zip(names, cells, strict=False)]
    odd += [dict.fromkeys(names, cell) for cell in cells]
    with_odd = pa.concat_tables([texts, pa.Table.from_pylist(odd, texts.schema)])
    seen = []
    for private, engine in ((texts, "memory"), (with_odd, "memory"), (with_odd, "duckdb")):
        out = folder / f"{private.num_rows}-{engine}"
        release = _publish(dataclasses.replace(example, table=private), out, engine=engine)
        statement = release.statement.model_dump(mode="json", by_alias=True)
        kinds = [release.table(of).schema for of in release.statement.tables]
        seen.append((kinds, sorted(statement["estimator"]), [statement[key] for key in _FIXED]))
        texts_of = [path.read_text() for path in (*out.rglob("*.md"), out / "statement.json")]
        expect(CANARY not in "".join(texts_of), "the statement contains a private value")
    expect(
        all(one == seen[0] for one in seen),
        "unusual rows change the columns, parameters or promise of a release",
    )


def check_shape(example: Example, folder: Path) -> None:
    """Check laws 6 and 8: columns, parameters and promise depend on the schema only."""
    whole = _publish(example, folder / "all")
    first = whole.statement
    expect(first.parameters == example.method.parameters(), "the statement has wrong parameters")
    for n_rows in (1, 0):
        few = dataclasses.replace(example, table=example.table.slice(0, n_rows))
        out = folder / str(n_rows)
        if example.refuses_few:
            with expect_raised(Refused, f"a table of {n_rows} rows is published") as said:
                _publish(few, out)
            told = re.search(example.refuses_few, said[0])
            expect(told, f"the error does not match {example.refuses_few!r}: {said[0]}")
            expect([path.name for path in folder.iterdir()] == ["all"], "a refused run left files")
            continue
        release = _publish(few, out)
        for part in ("parameters", "split", "guarantees", "unprotected"):
            same = getattr(release.statement, part) == getattr(first, part)
            expect(same, f"{part} in the statement depends on the rows")
        for name in first.tables:
            same = release.table(name).schema == whole.table(name).schema
            expect(same, f"the columns of table {name!r} depend on the rows")
        expect(
            set(release.statement.estimator) == set(first.estimator),
            "the names of estimator settings depend on the rows",
        )


def check_seed(example: Example, folder: Path) -> None:
    """Check law 7: a seeded release is marked as not private, and is reproducible."""
    ledger = Ledger.create(
        folder / "ledger",
        epsilon=100,
        delta="1e-3",
        unit=example.schema.unit,
        allow_uncounted=True,
    )
    release = _publish(example, folder / "a", noise=SeededNoise(example.seed), ledger=ledger)
    expect(release.statement.guarantee == SEEDED, "a seeded release is not marked as seeded")
    families = [promise.family for promise in release.statement.guarantees]
    expect(families == ["none"], f"a seeded release promises {families}; it must promise none")
    told = "not private" in (folder / "a" / "STATEMENT.md").read_text()
    expect(told, "STATEMENT.md of a seeded release does not say that it is not private")
    again = _publish(example, folder / "b", noise=SeededNoise(example.seed))
    for name in release.statement.tables:
        same = release.table(name).equals(again.table(name))
        expect(same, f"table {name!r} differs with the same seed: there is other randomness")
    fields = [field.name for field in dataclasses.fields(example.method)]
    expect(not any("seed" in name for name in fields), "a method must not have a seed")


def check_parameters(example: Example, folder: Path) -> None:
    """Check that parameters are frozen, documented, and preserved by the statement."""
    method, kind = example.method, type(example.method)
    fields = dataclasses.fields(method)
    frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    expect(frozen, f"{kind.__name__} is not frozen")
    for field in fields:
        expect(field.kw_only, f"{field.name} is not keyword-only")
        expect(kind.help().get(field.name), f"the docstring does not describe {field.name}")
    read = kind(**json.loads(json.dumps(method.parameters())))
    expect(read == method, f"{method} is read from its statement as {read}")
    known = estimator_kinds()
    expect(
        method.estimator_kind in known,
        f"no listing has the estimator {method.estimator_kind!r}; known are {', '.join(known)}",
    )


def check_forecast(example: Example, folder: Path) -> None:
    """Check that the forecast needs no data, and that its split adds up to the promise."""
    forecast = example.method.forecast(example.schema, example.table.num_rows)
    expect(forecast.n_cells >= 1, f"n_cells is {forecast.n_cells}; it must be at least 1")
    expect(forecast.memory_mb > 0, f"memory_mb is {forecast.memory_mb}; it must be above 0")
    expect(forecast.lines, "the forecast has no lines")
    spent = [promise.epsilon for promise in _counted(example)] or [Fraction(0)]
    shares = sum(forecast.split.values())
    expect([shares] == spent, f"the split adds up to {shares}; the promise is {spent}")
    example.method.forecast(example.schema)  # with an unknown number of rows


def check_account(example: Example, folder: Path) -> None:
    """Check that a run is charged as promised, and in full if the plan spends everything."""
    plan = example.method.plan(example.schema)
    engine = connect(example.table, example.schema)
    account = plan.accounted(engine, SecureNoise()).account
    expect(account.records, "a run opens no sealed counts, but publishes something")
    if example.method.sees_exact_counts:
        prices = [opening.cost for opening in account.records]
        expect(prices == [None], f"a method that sees exact counts is charged {prices}")
        expect(account.promise is None, "a method that sees exact counts promises DP")
        return
    promise, spent = account.promise, account.spent()
    expect(
        promise is not None and promise.covers(spent),
        f"the run spent {spent}; the promise is {promise}",
    )
    if promise is not None and plan.spends_all:
        expect(
            spent.epsilon == promise.epsilon, f"spent epsilon {spent.epsilon} of {promise.epsilon}"
        )
        least = promise.delta * (1 - Fraction(1, 2**40))
        expect(
            least <= spent.delta <= promise.delta, f"spent delta {spent.delta} of {promise.delta}"
        )
    for opening in account.records:
        price = opening.mechanism.cost(opening.sensitivity)
        expect(opening.cost == price, f"{opening} was recorded with a cost other than {price}")


def check_release(example: Example, folder: Path) -> None:
    """Check that the release folder alone is sufficient for analysis."""
    made = _publish(example, folder / "made")
    made.folder.rename(folder / "copy")
    check_estimator(Release.load(folder / "copy"), example)


def check_full_disk(example: Example, folder: Path) -> None:
    """Check that nothing is left behind if a release cannot be written."""
    plan: Any = _FullDiskPlan(example.method.plan(example.schema))
    run = PublishRun(plan, noise=SecureNoise(), out=folder / "out")
    with expect_raised(HushtableError, "a full disk is not detected") as said:
        run.publish(lambda: connect(example.table, example.schema))
    expect("disk is full" in said[0], f"the error does not say that the disk is full: {said[0]}")
    _expect_nothing_left(folder)


class _FullDiskPlan(PlanWrapper):
    """A plan whose tables cannot be written, because the disk is full."""

    def accounted(self, source: Any, noise: Noise, **options: Any) -> Any:
        """Run the plan, and replace its tables."""

        def write(folder: Path) -> list[str]:
            raise OSError(errno.ENOSPC, "No space left on device")

        result = super().accounted(source, noise, **options)
        tables = dict.fromkeys(result.released.tables, WrittenParts(write))
        return dataclasses.replace(
            result, released=dataclasses.replace(result.released, tables=tables)
        )


Check = Callable[[Example, Path], None]

CHECKS: tuple[Check, ...] = (
    *(check_promise, check_parameters, check_forecast, check_account, check_charge, check_errors),
    *(check_every_row, check_shape, check_seed, check_release, check_full_disk),
)
"""All checks of one example, in order."""


def check_method(example: Example) -> None:
    """Check all laws on an example; raise one `ContractError` with all violations.

    Parameters
    ----------
    example : Example
        The method with its parameters, and the inputs it is checked on. The method must be
        registered, by hushtable or by an entry point of an installed package.

    Raises
    ------
    ContractError
        If any law is violated. All violations are listed.

    Examples
    --------
    >>> from hushtable import DiffGen, sample
    >>> check_method(Example(DiffGen(epsilon=1), table=sample().slice(0, 600)))
    """
    problems = []
    for check in CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(example, Path(folder))
            except (ContractError, HushtableError) as error:
                problems.append(f"{check.__name__}: {error}")
    expect(not problems, "\n".join(problems))


def _publish(example: Example, out: Path, **options: Any) -> Release:
    return publish(example.table, example.schema, example.method, out=out, **options)


def _counted(example: Example) -> list[PureDP | ApproxDP]:
    """Return the promises that a ledger counts."""
    promised = example.method.guarantee(example.schema)
    return [promise for promise in promised if isinstance(promise, PureDP | ApproxDP)]


def _expect_nothing_left(folder: Path) -> None:
    left = [path.name for path in folder.iterdir()]
    expect(not left, f"a failed run left {', '.join(left)} behind")


# Checks that use the auditor: it accepts a method, and detects a broken one.


def check_audit(method: Parameters, **options: Any) -> Report:
    """Audit a method; raise unless it was tested and no violation was found.

    Parameters
    ----------
    method : Parameters
        The method. It must have an audit case: built-in, or named by its `MethodSpec`.
    **options
        Options of `hushtable.audit.audit`, such as ``runs`` and ``seconds``. By default, a method
        that keeps its promise is accused with probability at most 1e-6 (``confidence``).

    Returns
    -------
    Report
        The audit report.

    Raises
    ------
    ContractError
        If the auditor found a violation, or could not test a promise.

    Examples
    --------
    >>> from hushtable.methods import ContingencyTable
    >>> check_audit(ContingencyTable(epsilon=1), runs=400, largest=1, tests=["loss"]).verdict
    'NO VIOLATION FOUND'
    """
    report = audit(method, **options)
    expect(report.verdict == "NO VIOLATION FOUND", "\n".join(report.lines()))
    return report


def check_audit_sees(broken: Parameters, **options: Any) -> Report:
    """Audit an intentionally broken method; raise unless the violation is found.

    An audit that passes proves little if its neighbors would pass any method. Break the method
    where a mistake is likely, in a subclass of the same name, and check that its neighbors detect
    it. Insufficient noise needs no audit: the account of the run refuses it, and nothing is
    published.

    Parameters
    ----------
    broken : Parameters
        The broken method.
    **options
        As for `check_audit`.

    Returns
    -------
    Report
        The audit report.

    Raises
    ------
    ContractError
        If the auditor did not find a violation.
    """
    report = audit(broken, **options)
    expect(report.verdict == "VIOLATION", f"not detected: {chr(10).join(report.lines())}")
    return report


# Contract checks of a method's parts: its code, its proof and its `MethodSpec`.

_SOURCES = {"random", "secrets", "pandas", "duckdb", "ibis", "pyspark"}
_OPENERS = {"unseal", "add_noise", "MemoryEngine", "SqlEngine"}
_DRAWS = {"discrete_laplace", "discrete_gaussian", "rounded_gaussian"}
_OF_A_PROOF = ("promise", "checks", "custodian", "algorithm", "proof", "paper")


def check_source(path: Path, *, draws: bool = False) -> None:
    """Check law 2: a module of a method uses neither other randomness nor data access.

    It must not import engines or functions that open sealed counts, define its own mechanism, or
    draw noise for counts. `draws` allows the last for methods without differential privacy.
    """
    problems = [
        f"{path.name}, line {line}: {told}"
        for line, told in _reaches(ast.parse(path.read_text()), draws)
    ]
    expect(not problems, "\n".join(problems))


def _reaches(tree: ast.Module, draws: bool) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in sorted(_OPENERS & {alias.name for alias in node.names}):
                yield (
                    node.lineno,
                    f"{name} must not be used in methods: open counts with noise.open",
                )
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
            if "_SealedValue__" in node.attr:
                yield node.lineno, "accesses the content of a sealed value"
            if node.attr in _DRAWS and not draws:
                yield node.lineno, f"draws {node.attr} directly: open counts with noise.open"
        elif isinstance(node, ast.ClassDef):
            bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
            if "Mechanism" in bases:
                yield node.lineno, f"{node.name} is a mechanism; define it in hushtable.privacy"
        for name in names:
            is_random = name.startswith(("numpy.random", "np.random"))
            if is_random or name.split(".")[0] in _SOURCES:
                yield getattr(node, "lineno", 0), f"uses {name}"


def check_proof(path: Path) -> None:
    """Check law 3: the proof of a method is stored with its module, and has all required parts."""
    proof = path.with_suffix(".md")
    expect(proof.is_file(), f"{path.name} has no proof in the same folder: {proof.name}")
    text = proof.read_text().lower()
    lacking = [part for part in _OF_A_PROOF if part not in text]
    expect(not lacking, f"{proof.name} does not mention: {', '.join(lacking)}")


def check_spec(spec: MethodSpec) -> None:
    """Load all parts that a `MethodSpec` names, and check the method's proof and code.

    Parameters
    ----------
    spec : MethodSpec
        Specification of the method in its package.

    Raises
    ------
    ContractError
        If a part is missing or violates a law.

    Examples
    --------
    >>> from hushtable.methods.registry import find
    >>> check_spec(find("diffgen"))
    """
    kind = spec.load(spec.method)
    expect(issubclass(kind, Parameters), f"{spec.method} is not a method")
    expect(kind.name == spec.name, f"the class of {spec.name} has the name {kind.name}")
    path = Path(inspect.getfile(kind))
    check_proof(path)
    check_source(path, draws=bool(kind.sees_exact_counts))
    if spec.audit:
        case = spec.load(spec.audit)
        expect(isinstance(case, Case), f"{spec.audit} is not a Case")
    if spec.kind:
        reader = spec.load(spec.estimator)
        expect(issubclass(reader, Estimator), f"{spec.estimator} is not an Estimator")
