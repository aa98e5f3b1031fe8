"""Answers of a dossier, taken only from the evidence."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
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
from hushtable.extras import needing
from hushtable.files.html import templates
from hushtable.methods.registry import specs
from hushtable.privacy.guarantee import ApproxDP, Guarantee, NoGuarantee, PureDP, compose
from hushtable.privacy.ledger.summary import ACCOUNTS
from hushtable.privacy.values import rounded, shown
from hushtable.release.release import Release
from hushtable.release.statement import Statement

MOST_GROUPS = 30
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


def _filled(template: str, **content: Any) -> dict[str, tuple[str, ...]]:
    """Return the lines of each block of a template, by the question that it answers."""
    with needing("eval", "a dossier"):
        own = templates("hushtable.dossier")
    environment = own.overlay(
        autoescape=False, finalize=lambda value: str(value).replace("\n", " ")
    )
    environment.filters |= {"shown": shown, "variant": _variant, "percent": "{:.1%}".format}
    text = environment.get_template(f"{template}.txt")
    found = {}
    for name, render in text.blocks.items():
        lines = "".join(render(text.new_context(content))).split("\n")
        found[name.replace("_", "-")] = tuple(line for line in lines if line.strip())
    return found


def _each(by_release: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Merge the lines of several releases; name the releases of a line that others lack."""
    names_of: dict[str, list[str]] = {}
    for name, lines in by_release.items():
        for line in lines:
            names_of.setdefault(line, []).append(name)
    return tuple(
        line if len(names) == len(by_release) else f"{', '.join(names)}: {line}"
        for line, names in names_of.items()
    )


def _stated(lines: Mapping[str, Sequence[str]], source: AnswerSource) -> dict[str, DraftAnswer]:
    """Return answers for the questions that have lines."""
    return {name: DraftAnswer(tuple(some), source) for name, some in lines.items() if some}


# --- from the statements --------------------------------------------------------------------------


def _from_statements(evidence: Evidence) -> dict[str, DraftAnswer]:
    found = {name: _of_statement(one.statement) for name, one in evidence.releases.items()}
    questions = next(iter(found.values()))
    lines = {q: _each({name: some[q] for name, some in found.items()}) for q in questions}
    proof = _each({name: _proof(release) for name, release in evidence.releases.items()})
    return _stated(lines, "statement") | _stated({"proof": proof}, "hushtable")


def _of_statement(statement: Statement) -> dict[str, tuple[str, ...]]:
    return _filled(
        "from_statement",
        statement=statement,
        schema=statement.public_schema,
        counted=[promise for promise in statement.guarantees if promise.counted],
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


def _proof(release: Release) -> list[str]:
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
    names = {
        "zero-concentrated differential privacy (zCDP)": ("concentrated", "rho"),
        "Gaussian differential privacy": ("gaussian", "mu_squared"),
    }
    filters = [
        {
            "name": name,
            "symbol": ACCOUNTS[account][number],
            **{
                part: f"{float(Fraction(book[account][key][number])):.4g}"
                for part, key in (("limit", "limit"), ("used", "spent"))
            },
        }
        for name, (account, number) in names.items()
        if book[account]
    ]
    lines = _filled(
        "from_ledger",
        book=book,
        cap=cap,
        spent=spent,
        n_counted=len(counted),
        n_others=others,
        unpaid=[name for name, r in evidence.releases.items() if r.statement.ledger is None],
        filters=filters,
    )
    return found | _stated(lines, "ledger")


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
    """Return what holds for every release, or for every release with DP promises."""
    statements = {name: release.statement for name, release in evidence.releases.items()}
    lines = _filled(
        "of_every_release",
        is_private=all(p.counted for one in statements.values() for p in one.guarantees),
        seeded=[name for name, one in statements.items() if one.seeded],
    )
    return _stated(lines, "hushtable")


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
    audits = [
        {
            **report,
            "of": [
                name
                for name, release in evidence.releases.items()
                if release.statement.method == report["method"]
                and release.statement.parameters == report["parameters"]
            ],
        }
        for report in evidence.audits
    ]
    return _stated(_filled("from_audits", audits=audits), "audit")


_USUAL_ATTACKS = (
    "singling out", "linkability", "likelihood linkage", "attribute inference", "membership",
)  # fmt: skip


def _of_evaluation(evaluation: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    utility, risk = evaluation["utility"], evaluation["risk"]
    names = {attack["name"] for attack in risk.get("attacks", ())}
    return _filled(
        "from_evaluation",
        utility=utility,
        risk=risk,
        best=best_accuracies(utility["learning"]) if utility.get("learning") else None,
        others=names.difference(_USUAL_ATTACKS),
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
