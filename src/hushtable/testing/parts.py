"""The parts of a method: its code, its proof, its listing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from hushtable.audit.cases.case import Case
from hushtable.estimate.base import Estimator
from hushtable.methods.listing import Listing
from hushtable.methods.parameters import Parameters
from hushtable.testing.expect import expect

_SOURCES = {"random", "secrets", "pandas", "duckdb", "ibis", "pyspark"}
_OPENERS = {"inside", "paid", "add_noise", "CheckedEngine", "MemoryEngine"}
_DRAWS = {"discrete_laplace", "discrete_gaussian", "rounded_gaussian", "choose_top"}
_OF_A_PROOF = ("promise", "checks", "custodian", "algorithm", "proof", "paper")


def check_source(path: Path, *, draws: bool = False) -> None:
    """Law 2: a module of a method reaches neither for randomness nor for data.

    Nor does it import what opens seals, bring a mechanism of its own, or draw noise for counts
    itself; `draws` allows the last to methods without differential privacy.
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
                yield node.lineno, f"{name} is not for methods: open counts by noise.open"
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
            if "_Seal__" in node.attr:
                yield node.lineno, "looks inside a seal"
            if node.attr in _DRAWS and not draws:
                yield node.lineno, f"draws {node.attr} itself: open counts by noise.open"
        elif isinstance(node, ast.ClassDef):
            bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
            if "Mechanism" in bases:
                yield node.lineno, f"{node.name} is a mechanism; these live in hushtable.privacy"
        for name in names:
            is_random = name.startswith(("numpy.random", "np.random"))
            if is_random or name.split(".")[0] in _SOURCES:
                yield getattr(node, "lineno", 0), f"uses {name}"


def check_proof(path: Path) -> None:
    """Law 3: the proof of a method lies beside its module, with all its parts."""
    proof = path.with_suffix(".md")
    expect(proof.is_file(), f"{path.name} has no proof beside it: {proof.name}")
    text = proof.read_text().lower()
    lacking = [part for part in _OF_A_PROOF if part not in text]
    expect(not lacking, f"{proof.name} does not speak of: {', '.join(lacking)}")


def check_listing(listing: Listing) -> None:
    """Load all parts that a listing names, and look at its proof and at its code.

    Parameters
    ----------
    listing : Listing
        What the method's package says of it.

    Examples
    --------
    >>> from hushtable.methods.registry import find
    >>> check_listing(find("diffgen"))
    """
    kind = listing.load(listing.method)
    expect(issubclass(kind, Parameters), f"{listing.method} is no method")
    expect(kind.name == listing.name, f"{listing.name} is called {kind.name} by its class")
    path = Path(inspect.getfile(kind))
    check_proof(path)
    check_source(path, draws=bool(kind.opens_bare))
    if listing.audit:
        case = listing.load(listing.audit)
        expect(isinstance(case, Case), f"{listing.audit} is no Case")
    if listing.kind:
        reader = listing.load(listing.estimator)
        expect(issubclass(reader, Estimator), f"{listing.estimator} is no Estimator")
