"""Answers of a dossier, taken only from the evidence."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

import hushtable
from hushtable import __version__
from hushtable.dossier.content import (
    NOT_STATED,
    SECTIONS,
    STANDARDS,
    AnswerSource,
    Dossier,
    DossierAnswer,
    Figures,
    Section,
)
from hushtable.dossier.evidence import Evidence, gather
from hushtable.errors import HushtableError
from hushtable.evaluation.figures import best_accuracies
from hushtable.methods.registry import specs
from hushtable.privacy.guarantee import ApproxDP, Guarantee, NoGuarantee, PureDP, compose
from hushtable.privacy.ledger.summary import ACCOUNTS
from hushtable.privacy.values import rounded, shown
from hushtable.release.release import Release

MOST_GROUPS = 30
WORST_CASE = "The bound holds for every data set and every unit: it is a maximum, not an average."
LEAST_SHARE = 0.01  # share of the rows; smaller groups have large relative errors in any release


@dataclass(frozen=True)
class DraftAnswer:
    """An answer before it is combined with its question."""

    lines: tuple[str, ...]
    source: AnswerSource
    figures: Figures | None = None


def answer_all(evidence: Evidence) -> tuple[Section, ...]:
    """Answer every question from the evidence."""
    drafts = {
        **_from_statements(evidence),
        **_about_spending(evidence),
        **_about_every_release(evidence),
        **_measured(evidence),
    }
    for name, lines in evidence.facts.items():
        recorded = drafts.get(name, DraftAnswer((), "custodian"))
        # Recorded answers come first; a file of facts can add to them but not replace them.
        drafts[name] = DraftAnswer((*recorded.lines, *lines), recorded.source)
    unknown = DraftAnswer((NOT_STATED,), "none")
    sections = []
    for title, questions in SECTIONS.items():
        answers = []
        for name, text in questions.items():
            draft = drafts.get(name, unknown)
            answers.append(
                DossierAnswer(
                    id=name,
                    question=text,
                    answer=draft.lines,
                    source=draft.source,
                    figures=draft.figures,
                )
            )
        sections.append(Section(title=title, answers=tuple(answers)))
    return tuple(sections)


def _each(evidence: Evidence, describe: Callable[[Release], Iterable[str]]) -> tuple[str, ...]:
    """Collect lines about each release; lines that do not apply to all are prefixed with names."""
    names_of: dict[str, list[str]] = {}
    for name, release in evidence.releases.items():
        for line in describe(release):
            names_of.setdefault(line, []).append(name)
    return tuple(
        line if len(names) == len(evidence.releases) else f"{', '.join(names)}: {line}"
        for line, names in names_of.items()
    )


def _stated(lines: Mapping[str, Sequence[str]], source: AnswerSource) -> dict[str, DraftAnswer]:
    """Wrap the answers that are not empty."""
    return {name: DraftAnswer(tuple(some), source) for name, some in lines.items() if some}


# --- from the statements --------------------------------------------------------------------------


def _from_statements(evidence: Evidence) -> dict[str, DraftAnswer]:
    of_release = {name: _each(evidence, describe) for name, describe in _OF_RELEASE.items()}
    of_promise = {
        name: _each(evidence, lambda r, d=describe: filter(None, map(d, r.statement.guarantees)))  # type: ignore[misc]
        for name, describe in _OF_PROMISE.items()
    }
    proofs = {"proof": _each(evidence, _proof)}
    return _stated(of_release | of_promise, "statement") | _stated(proofs, "hushtable")


def _domain(column: Mapping[str, Any]) -> str:
    if "type" not in column:
        return f"{column.get('role', 'not published')}, not published"
    if column["type"] == "categorical":
        values = list(map(str, column.get("values", ())))
        listed = ", ".join(values[:12]) + (", ..." if len(values) > 12 else "")
        what = f"{len(values)} values ({listed})" if values else "a taxonomy of values"
    else:
        step = f" in steps of {column['step']}" if "step" in column else ""
        bounds = f" from {column['low']} to {column['high']}" if "low" in column else ""
        what = f"{column['type']}{bounds}{step}"
    return f"{what}, role {column['role']}" if "role" in column else what


def _neighbors(promise: Guarantee) -> str | None:
    if not isinstance(promise, PureDP | ApproxDP):
        return None
    unit = promise.unit.describe()
    if promise.neighbors == "replace":
        return f"{unit} is replaced by another; the number of units is assumed to be public"
    return f"{unit} is present in one and absent from the other; presence is protected"


def _formula(promise: Guarantee) -> str | None:
    if not isinstance(promise, PureDP | ApproxDP):
        return None
    delta = f", delta = {shown(promise.delta)}" if isinstance(promise, ApproxDP) else ""
    return (
        f"P[S] <= exp(epsilon) P'[S]{' + delta' if delta else ''} for all neighboring data sets "
        "and every set S of outcomes, where P and P' are their probabilities; "
        f"epsilon = {shown(promise.epsilon)}{delta}"
    )


def _variant(promise: Guarantee) -> str:
    if isinstance(promise, PureDP):
        return f"Pure DP: epsilon {shown(promise.epsilon)}"
    if isinstance(promise, ApproxDP):
        by = f"; from zero-concentrated DP with rho {rounded(promise.rho)}" if promise.rho else ""
        by = f"; from Gaussian DP with mu {rounded(promise.mu)}" if promise.mu else by
        return f"Approximate DP: epsilon {shown(promise.epsilon)}, delta {shown(promise.delta)}{by}"
    if isinstance(promise, NoGuarantee):
        return "None: the release has no privacy guarantee"
    return f"Not differential privacy: {promise.family}"


_OF_RELEASE: dict[str, Callable[[Release], Iterable[str]]] = {
    "data-set": lambda r: [str(r.statement.public_schema["name"])],
    "columns": lambda r: [
        f"{name}: {_domain(column)}"
        for name, column in r.statement.public_schema["columns"].items()
    ],
    "cells": lambda r: [line.replace("`", "") for line in r.statement.cells_in_words()],
    "size": lambda r: [
        f"table {n}: {table.rows:,} rows" for n, table in r.statement.tables.items()
    ],
    "product": lambda r: [
        f"published on {r.statement.created} with the method {r.statement.method}"
    ],
    "left-out": lambda r: r.statement.unprotected,
    "mechanism": lambda r: [f"{r.statement.method} ({r.statement.paper})"],
    "parameters": lambda r: [f"{n} = {value}" for n, value in r.statement.parameters.items()],
    "split": lambda r: [f"{step}: {share}" for step, share in r.statement.split.items()],
    "versions": lambda r: [f"{name} {number}" for name, number in r.statement.versions.items()],
}
_OF_PROMISE: dict[str, Callable[[Guarantee], str | None]] = {
    "unit": lambda p: p.unit.describe() if isinstance(p, PureDP | ApproxDP) else None,
    "neighbors": _neighbors,
    "promise": lambda p: p.explain(),
    "formula": _formula,
    "variant": _variant,
    "worst-case": lambda p: WORST_CASE if isinstance(p, PureDP | ApproxDP) else None,
}
"""By question: functions of a release, or of one of its promises, that return the answer."""


def _proof(release: Release) -> Iterable[str]:
    """Return the path and digest of a method's proof; methods of other packages are left out."""
    spec = specs().get(release.statement.method)
    module = spec.method.partition(":")[0] if spec else ""
    if not module.startswith("hushtable."):
        return []
    package, _, name = module.rpartition(".")
    text = (files(package) / f"{name}.md").read_bytes()
    digest, made_by = hashlib.sha256(text).hexdigest(), release.statement.versions.get("hushtable")
    other = "" if made_by == __version__ else f"; the release was made by version {made_by}"
    path = f"{package.replace('.', '/')}/{name}.md"
    return [f"{path} of hushtable {__version__} (sha256 {digest}){other}"]


# --- from the ledger ------------------------------------------------------------------------------


def _about_spending(evidence: Evidence) -> dict[str, DraftAnswer]:
    found = _decided(evidence)
    book = evidence.ledger
    if book is None:
        return found | _sum_of_releases(evidence)
    given = {r.statement.ledger.receipt for r in evidence.releases.values() if r.statement.ledger}
    counted = [e for e in evidence.entries.values() if e.counted and e.status != "void"]
    others = sum(entry.receipt not in given for entry in counted)
    cap, spent = (
        {name: rounded(Fraction(number)) for name, number in book[part].items()}
        for part in ("cap", "spent")
    )
    total = [
        f"All releases charged to the ledger, now and later, together satisfy epsilon "
        f"{cap['epsilon']} and delta {cap['delta']}, for {book['protects']}.",
        f"So far the ledger has charged {len(counted)} releases or attempts, {others} of them not "
        f"in this dossier. Their epsilons sum to {spent['epsilon']}, their deltas to "
        f"{spent['delta']}.",
    ]
    unpaid = [name for name, r in evidence.releases.items() if r.statement.ledger is None]
    if unpaid:
        total.append(
            f"WARNING: not recorded in a ledger, and not included in this total: "
            f"{', '.join(unpaid)}."
        )
    if book["holds_uncounted"]:
        total.append(
            "WARNING: the ledger also records releases whose cost it cannot count; they are not "
            f"included in this total ({book['n_uncounted']} so far)."
        )
    found["total"] = DraftAnswer(tuple(total), "ledger")
    accounting = ["Basic composition: the sums of epsilons and of deltas stay within the cap."]
    names = {
        "zero-concentrated differential privacy (zCDP)": ("concentrated", "rho"),
        "Gaussian differential privacy": ("gaussian", "mu_squared"),
    }
    if filters := {name: of for name, of in names.items() if book[of[0]]}:
        accounting = [
            f"By privacy filters: basic composition and {' and '.join(filters)}. The charges must "
            "satisfy at least one of them. Each has a share of delta that was fixed before any "
            "data was read (hushtable/privacy/ledger/ledger.md)."
        ]
    for account, number in filters.values():
        limit, used = (Fraction(book[account][part][number]) for part in ("limit", "spent"))
        symbol = ACCOUNTS[account][number]
        accounting.append(f"{symbol} spent: {float(used):.4g} of {float(limit):.4g}.")
    found["accounting"] = DraftAnswer(tuple(accounting), "ledger")
    found["further-releases"] = DraftAnswer((book["left"]["in_words"],), "ledger")
    return found


def _decided(evidence: Evidence) -> dict[str, DraftAnswer]:
    """Collect names, reasons and review dates for the cap and each release.

    They come from the ledger or, for a release without an entry, from its statement.
    """
    decisions = {}
    if evidence.ledger is not None:
        decisions["the cap"] = evidence.ledger["decision"]
    for name, release in evidence.releases.items():
        receipt = release.statement.ledger
        entry = evidence.entries.get(receipt.receipt) if receipt else None
        decision = entry.decision if entry else release.statement.decision
        decisions[name] = decision.to_dict() if decision else {}
    lines = {
        question: [f"for {what}: {made[part]}" for what, made in decisions.items() if part in made]
        for part, question in (
            ("responsible", "responsible"),
            ("reason", "reason"),
            ("review_by", "review"),
        )
    }
    return _stated(lines, "statement" if evidence.ledger is None else "ledger")


def _sum_of_releases(evidence: Evidence) -> dict[str, DraftAnswer]:
    """Compose the promises of the given releases, if they compose."""
    promises = [p for r in evidence.releases.values() for p in r.statement.guarantees]
    unknown = "No ledger was given, so releases that are not in this dossier are not counted."
    try:
        together = compose(promises)
    except HushtableError as error:
        return {"total": DraftAnswer((f"No total: {error}", unknown), "statement")}
    return {
        "total": DraftAnswer((f"The given releases: {_variant(together)}.", unknown), "statement"),
        "accounting": DraftAnswer(
            ("Basic composition: epsilons and deltas are added.",), "statement"
        ),
    }


# --- what holds for every release -----------------------------------------------------------------


def _about_every_release(evidence: Evidence) -> dict[str, DraftAnswer]:
    """Return answers that hold for every release, and further ones if all promises are DP."""
    found = {
        "access": (
            "A release is a fixed set of files; recipients cannot query the private data. Every "
            "answer is computed from the files alone, at no privacy cost.",
        ),
        "side-channels": (
            "The run time, the use of memory and disk, and whether a run fails depend on the "
            "private data. Outsiders must not observe them.",
            "Anyone who can read the memory, swap or temporary files of the machine can read "
            "private rows.",
        ),
        "trust": (
            "Central model: only the custodian and the machine that made the release need access "
            "to the private data.",
        ),
    }
    seeded = [name for name, r in evidence.releases.items() if r.statement.seeded]
    if seeded:
        warning = f"WARNING: the noise of {', '.join(seeded)} is seeded and gives no protection."
        found["randomness"] = (warning,)
    promises = [p for r in evidence.releases.values() for p in r.statement.guarantees]
    if all(isinstance(promise, PureDP | ApproxDP) for promise in promises):
        found |= {
            "attackers": (
                "Anyone who receives the releases, with unlimited computing power and any prior "
                "knowledge, including the data of all other people.",
            ),
            "post-processing": (
                "Rows, estimates and intervals are computed from the noisy counts without the "
                "private data; the proof of the method describes each step.",
            ),
            "randomness": (
                "The operating system's generator, or OpenDP's samplers; no seed was used.",
            ),
            "arithmetic": (
                "Noise is sampled exactly, in integers, with rational parameters. The protection "
                "does not depend on floating-point arithmetic.",
            ),
        }
    return _stated(found, "hushtable")


# --- from evaluations and audits ------------------------------------------------------------------


def _measured(evidence: Evidence) -> dict[str, DraftAnswer]:
    found = _audited(evidence)
    if not evidence.evaluations:
        return found
    parts: dict[str, list[str]] = {}
    groups: list[tuple[float, tuple[str, ...]]] = []
    for name, evaluation in evidence.evaluations:
        mark = "" if len(evidence.releases) == 1 else f"{name}: "
        for part, lines in _of_evaluation(evaluation).items():
            parts.setdefault(part, []).extend(f"{mark}{line}" for line in lines)
        groups += [(off, (name, *row)) for off, row in _groups(evaluation)]
    found |= _stated(parts, "evaluation")
    if groups:
        found["subgroups"] = DraftAnswer(
            (
                f"The {min(len(groups), MOST_GROUPS)} groups with the largest relative errors, "
                f"among groups with at least {LEAST_SHARE:.0%} of the data. A group is one value "
                "or range of a column.",
            ),
            "evaluation",
            Figures(
                head=("release", "group", "share in the data", "in the release", "relative error"),
                rows=tuple(row for _, row in sorted(groups, reverse=True)[:MOST_GROUPS]),
            ),
        )
    return found


def _audited(evidence: Evidence) -> dict[str, DraftAnswer]:
    lines = []
    for report in evidence.audits:
        of = [
            name
            for name, release in evidence.releases.items()
            if release.statement.method == report["method"]
            and release.statement.parameters == report["parameters"]
        ]
        settings = f"the settings of {', '.join(of)}" if of else "settings of no release here"
        for finding in report["findings"]:
            what = f" ({finding['reason']})" if finding.get("reason") else ""
            if seen := finding.get("would_have_seen"):
                what = f" (would have detected {seen})"
            lines.append(
                f"{report['method']}, with {settings}: {finding['verdict']}{what}, in "
                f"{report['n_runs']:,} runs on artificial data. The probability of a false alarm "
                f"is at most {1 - report['confidence']:.2g}."
            )
    return {"audit": DraftAnswer(tuple(lines), "audit")} if lines else {}


CRITERIA = {
    "singling out": "singling-out",
    "linkability": "linkability",
    "likelihood linkage": "linkability",
    "attribute inference": "inference",
    "membership": "inference",
}
"""Criterion that each attack addresses."""


def _of_evaluation(evaluation: Mapping[str, Any]) -> dict[str, list[str]]:
    utility, risk = evaluation["utility"], evaluation["risk"]
    found: dict[str, list[str]] = {"utility": []}
    if pairs := utility.get("pairs"):
        found["utility"].append(
            f"mean total variation distance of pairs of columns: {pairs['mean']['value']:.3f} "
            f"(with independent columns it would be {pairs['independent']:.3f})"
        )
    workload = utility.get("workload")
    if workload and workload["lines"]:
        line = workload["lines"][0]
        held = line.get("coverage")
        found["utility"].append(
            f"{workload['n']} random count queries: median relative error "
            f"{line['median_relative_error']['value']:.1%}"
            + (f"; {held['value']:.1%} of the 95% intervals cover the true count" if held else "")
        )
    if learning := utility.get("learning"):
        best = best_accuracies(learning)
        found["utility"].append(
            f"predicting {learning['target']}: best accuracy {best['release']:.1%} if trained on "
            f"the release, {best['original']:.1%} if trained on the data"
        )
    if "not_assessed" in risk:
        return found | {key: [risk["not_assessed"]] for key in CRITERIA.values()}
    for attack in risk["attacks"]:
        found.setdefault(CRITERIA.get(attack["name"], "other-attacks"), []).append(_attack(attack))
    found.setdefault("inference", []).extend(risk["notes"])
    if anonymity := risk.get("anonymity"):
        found["anonymity"] = [
            f"{anonymity['n_rows']:,} published rows in {anonymity['n_groups']:,} groups with "
            f"equal values of {', '.join(anonymity['quasi'])}; the smallest group has "
            f"{anonymity['k']} rows."
        ]
    return found


def _attack(attack: Mapping[str, Any]) -> str:
    what = f"{attack['name']}{', ' if attack['of'] else ''}{attack['of']}"
    if not attack["attack"] or not attack["attack"]["n"]:
        return f"{what}: {attack['note'] or 'not tried'}"
    against = attack["control"] or attack["naive"]
    than = "people who are not in the data" if attack["control"] else "a guess without the release"
    compared = (
        f", compared with {against['value']:.1%} for {than}" if against and against["n"] else ""
    )
    verdict = "SIGNIFICANT" if attack["succeeds"] else "not significant"
    return (
        f"{what}: success {attack['attack']['value']:.1%} ({attack['attack']['low']:.1%} to "
        f"{attack['attack']['high']:.1%}) in {attack['attack']['n']:,} attempts{compared}: "
        f"{verdict}"
    )


def _groups(evaluation: Mapping[str, Any]) -> list[tuple[float, tuple[str, ...]]]:
    """Return the absolute relative error of each value's share, with its row of the table.

    Values with a share below `LEAST_SHARE` are left out.
    """
    compared: list[tuple[float, tuple[str, ...]]] = []
    for column in evaluation["utility"]["columns"]:
        shares = column["shares"]
        for label, original, published in zip(
            shares["labels"], shares["original"], shares["published"], strict=True
        ):
            if original >= LEAST_SHARE:
                ratio = published / original - 1
                shown_shares = f"{original:.2%}", f"{published:.2%}", f"{ratio:+.1%}"
                compared.append((abs(ratio), (f"{column['name']} = {label}", *shown_shares)))
    return compared


def is_internal(evidence: Evidence) -> Sequence[str]:
    """Return the reasons why a dossier must not be published."""
    why = []
    if evidence.evaluations:
        why.append("compares releases with the private table")
    if evidence.ledger is not None:
        why.append("contains ledger entries, names and justifications")
    return why


# Creation of a dossier from releases and related files.


def make_dossier(
    releases: Sequence[str | Path],
    *,
    ledger: str | Path | None = None,
    evaluations: Sequence[str | Path] = (),
    audits: Sequence[str | Path] = (),
    facts: str | Path | None = None,
    beside: str | Path = ".",
) -> Dossier:
    """Answer the questions that ethics boards, data protection officers and registries ask.

    Every answer comes from a file. A question that no file answers is marked "not stated".

    Parameters
    ----------
    releases : sequence of path
        Release folders. Their files are checked against their statements.
    ledger : path, optional
        Ledger that was charged for the releases.
    evaluations : sequence of path
        Evaluations of these releases, written by ``hushtable evaluate --json``.
    audits : sequence of path
        Audits of the methods of these releases, printed by ``hushtable audit --json``.
    facts : path, optional
        YAML file with the custodian's answers to questions that no other file can answer.
    beside : path, default="."
        Folder in which the dossier will be stored. File paths in the dossier are relative to it.

    Returns
    -------
    Dossier
        All sections with their answers, the table of standards, and the digest of every file used.

    Raises
    ------
    ParameterError
        If a file cannot be read or has the wrong format, or two release folders have the same name.
    Refused
        If the files do not match: an evaluation of another release, an audit of another method, or
        a ledger without the receipt of a release.
    """
    evidence = gather(
        releases,
        ledger=ledger,
        evaluations=evaluations,
        audits=audits,
        facts=facts,
        beside=Path(beside),
    )
    why = is_internal(evidence)
    names = {str(r.statement.public_schema["name"]): None for r in evidence.releases.values()}
    return Dossier(
        name=", ".join(names),
        created=datetime.datetime.now(datetime.UTC).date().isoformat(),
        version=hushtable.__version__,
        internal=f"INTERNAL: {' and '.join(why)}. Do not publish." if why else "",
        sections=answer_all(evidence),
        standards=STANDARDS,
        files=evidence.files,
    )
