"""Contract checks of a method's parts: its code, its proof and its listing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from hushtable.audit.cases.case import Case
from hushtable.methods.parameters import Parameters
from hushtable.methods.spec import MethodSpec
from hushtable.query.answers.estimator import Estimator
from hushtable.testing.expect import expect

_SOURCES = {"random", "secrets", "pandas", "duckdb", "ibis", "pyspark"}
_OPENERS = {"unseal", "paid", "add_noise", "CheckedEngine", "MemoryEngine"}
_DRAWS = {"discrete_laplace", "discrete_gaussian", "rounded_gaussian", "choose_top"}
_OF_A_PROOF = ("promise", "checks", "custodian", "algorithm", "proof", "paper")


def check_source(path: Path, *, draws: bool = False) -> None:
    """Check law 2: a module of a method uses neither other randomness nor data access.

    It must not import functions that open sealed counts, define its own mechanism, or draw noise
    for counts. `draws` allows the last for methods without differential privacy.
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
    """Load all parts that a listing names, and check the method's proof and code.

    Parameters
    ----------
    spec : MethodSpec
        Listing of the method in its package.

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
