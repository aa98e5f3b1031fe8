"""The answers of a dossier: only what the evidence says, and nothing that would be a guess."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from typing import Any

from hushtable import __version__
from hushtable.dossier.content import Answer, Figures, Section, Source
from hushtable.dossier.evidence import Evidence
from hushtable.dossier.questions import SECTIONS
from hushtable.errors import HushtableError
from hushtable.methods.registry import listings
from hushtable.privacy.guarantee import ApproxDP, Guarantee, NoGuarantee, PureDP, compose
from hushtable.privacy.values import rounded, shown
from hushtable.release import Release

MOST_GROUPS = 30
LEAST_SHARE = 0.01  # of the rows: smaller groups are off by much in any release


@dataclass(frozen=True)
class Said:
    """Hold an answer before it is put beside its question."""

    lines: tuple[str, ...]
    source: Source
    figures: Figures | None = None


def answer_all(evidence: Evidence) -> tuple[Section, ...]:
    """Answer every question from the evidence."""
    said = {
        **_about_the_data(evidence),
        **_about_the_promise(evidence),
        **_about_spending(evidence),
        **_about_the_mechanism(evidence),
        **_about_every_release(evidence),
        **_measured(evidence),
    }
    for name, lines in evidence.facts.items():
        before = said.get(name)
        # What is on record stands first; a file of facts cannot take its place.
        said[name] = Said((*before.lines, *lines) if before else lines,
                          before.source if before else "custodian")  # fmt: skip
    return tuple(
        Section(
            title=title,
            answers=tuple(
                Answer(id=q.id, question=q.text)
                if q.id not in said
                else Answer(
                    id=q.id,
                    question=q.text,
                    answer=said[q.id].lines,
                    source=said[q.id].source,
                    figures=said[q.id].figures,
                )
                for q in questions
            ),
        )
        for title, questions in SECTIONS.items()
    )


def _each(evidence: Evidence, say: Callable[[Release], Iterable[str]]) -> tuple[str, ...]:
    """Say something of each release; what several say alike is said once, with their names."""
    alike: dict[str, list[str]] = {}
    for name, release in evidence.releases.items():
        for line in say(release):
            alike.setdefault(line, []).append(name)
    everybody = len(evidence.releases)
    return tuple(
        line if len(names) == everybody else f"{', '.join(names)}: {line}"
        for line, names in alike.items()
    )


def _stated(said: Mapping[str, tuple[str, ...]], source: Source) -> dict[str, Said]:
    """Keep what has an answer."""
    return {name: Said(lines, source) for name, lines in said.items() if lines}


# --- from the statements --------------------------------------------------------------------------


def _about_the_data(evidence: Evidence) -> dict[str, Said]:
    def columns(release: Release) -> Iterable[str]:
        for name, column in release.statement.public_schema["columns"].items():
            yield f"{name}: {_domain(column)}"

    def size(release: Release) -> Iterable[str]:
        for name, table in release.statement.tables.items():
            yield f"table {name}: {table.rows:,} rows"

    def cells(release: Release) -> Iterable[str]:
        return [line.replace("`", "") for line in release.statement.cells_in_words()]

    def product(release: Release) -> Iterable[str]:
        yield f"published on {release.statement.created} with the method {release.statement.method}"

    return _stated(
        {
            "data-set": _each(evidence, lambda r: [str(r.statement.public_schema["name"])]),
            "columns": _each(evidence, columns),
            "cells": _each(evidence, cells),
            "size": _each(evidence, size),
            "product": _each(evidence, product),
        },
        "statement",
    )


def _domain(column: Mapping[str, Any]) -> str:
    if "type" not in column:
        return f"{column.get('role', 'not published')}, not published"
    if column["type"] == "categorical":
        values = list(map(str, column.get("values", ())))
        listed = ", ".join(values[:12]) + (", ..." if len(values) > 12 else "")
        what = f"{len(values)} values ({listed})" if values else "a taxonomy of values"
    else:
        step = f" in steps of {column['step']}" if "step" in column else ""
        what = f"{column['type']} from {column.get('low')} to {column.get('high')}{step}"
    return f"{what}, role {column['role']}" if "role" in column else what


def _about_the_promise(evidence: Evidence) -> dict[str, Said]:
    def of(say: Callable[[Guarantee], str | None]) -> tuple[str, ...]:
        return _each(
            evidence,
            lambda r: [line for promise in r.statement.guarantees if (line := say(promise))],
        )

    return _stated(
        {
            "unit": of(lambda p: p.unit.describe() if isinstance(p, PureDP | ApproxDP) else None),
            "neighbors": of(_neighbors),
            "promise": of(lambda p: p.explain()),
            "formula": of(_formula),
            "variant": of(_variant),
            "worst-case": of(
                lambda p: (
                    "The bound holds for every data set and every unit: it is a maximum, and "
                    "not an average."
                    if isinstance(p, PureDP | ApproxDP)
                    else None
                )
            ),
            "left-out": _each(evidence, lambda r: r.statement.unprotected),
        },
        "statement",
    )


def _neighbors(promise: Guarantee) -> str | None:
    if not isinstance(promise, PureDP | ApproxDP):
        return None
    unit = promise.unit.describe()
    if promise.neighbors == "replace":
        return f"{unit} is exchanged for another; the number of them is taken to be public"
    return f"{unit} is in one of them and absent from the other; whether it is there is protected"


def _formula(promise: Guarantee) -> str | None:
    if isinstance(promise, PureDP):
        return (
            "P[S] <= exp(epsilon) P'[S] for all neighboring data sets and every set S of "
            f"outcomes, where P and P' are their probabilities; epsilon = {shown(promise.epsilon)}"
        )
    if isinstance(promise, ApproxDP):
        return (
            "P[S] <= exp(epsilon) P'[S] + delta for all neighboring data sets and every set S of "
            f"outcomes, where P and P' are their probabilities; epsilon = {shown(promise.epsilon)},"
            f" delta = {shown(promise.delta)}"
        )
    return None


def _variant(promise: Guarantee) -> str:
    if isinstance(promise, PureDP):
        return f"Pure DP: epsilon {shown(promise.epsilon)}"
    if isinstance(promise, ApproxDP):
        by = f"; by way of zero-concentrated DP, rho {rounded(promise.rho)}" if promise.rho else ""
        by = f"; by way of Gaussian DP, mu {rounded(promise.mu)}" if promise.mu else by
        return f"Approximate DP: epsilon {shown(promise.epsilon)}, delta {shown(promise.delta)}{by}"
    if isinstance(promise, NoGuarantee):
        return "None: nothing is promised"
    return f"Not differential privacy: {promise.family}"


def _about_the_mechanism(evidence: Evidence) -> dict[str, Said]:
    def split(release: Release) -> Iterable[str]:
        return [f"{step}: {share}" for step, share in release.statement.split.items()]

    def parameters(release: Release) -> Iterable[str]:
        return [f"{name} = {value}" for name, value in release.statement.parameters.items()]

    def versions(release: Release) -> Iterable[str]:
        return [f"{name} {number}" for name, number in release.statement.versions.items()]

    return _stated(
        {
            "mechanism": _each(evidence, lambda r: [f"{r.statement.method} ({r.statement.paper})"]),
            "parameters": _each(evidence, parameters),
            "split": _each(evidence, split),
            "versions": _each(evidence, versions),
        },
        "statement",
    ) | _stated({"proof": _each(evidence, _proof)}, "hushtable")


def _proof(release: Release) -> Iterable[str]:
    """Name the proof of a method, with its digest; a method of another package has its own."""
    listing = listings().get(release.statement.method)
    module = listing.method.partition(":")[0] if listing else ""
    if not module.startswith("hushtable."):
        return []
    package, _, name = module.rpartition(".")
    text = (files(package) / f"{name}.md").read_bytes()
    digest, made_by = hashlib.sha256(text).hexdigest(), release.statement.versions.get("hushtable")
    other = "" if made_by == __version__ else f"; the release was made by version {made_by}"
    path = f"{package.replace('.', '/')}/{name}.md"
    return [f"{path} of hushtable {__version__} (sha256 {digest}){other}"]


# --- from the ledger ------------------------------------------------------------------------------


def _about_spending(evidence: Evidence) -> dict[str, Said]:
    said = _decided(evidence)
    book = evidence.ledger
    if book is None:
        return said | _sum_of_releases(evidence)
    given = {r.statement.ledger.receipt for r in evidence.releases.values() if r.statement.ledger}
    counted = [e for e in evidence.entries.values() if e.counted and e.status != "void"]
    others = sum(entry.receipt not in given for entry in counted)
    cap, spent = (
        {name: rounded(Fraction(number)) for name, number in book[part].items()}
        for part in ("cap", "spent")
    )
    total = [
        f"All that the ledger has paid for and will pay for keeps epsilon {cap['epsilon']} and "
        f"delta {cap['delta']} together. What counts is {book['protects']}.",
        f"So far {len(counted)} releases or attempts are charged, {others} of them not in this "
        f"dossier; their epsilons add up to {spent['epsilon']}, their deltas to {spent['delta']}.",
    ]
    unpaid = [name for name, r in evidence.releases.items() if r.statement.ledger is None]
    if unpaid:
        total.append(
            f"WARNING: {', '.join(unpaid)} is not recorded in a ledger, and not part of that."
        )
    if book["holds_uncounted"]:
        total.append(
            "WARNING: the ledger also takes releases that it cannot count; they are not part of "
            f"that. There are {book['n_uncounted']} so far."
        )
    said["total"] = Said(tuple(total), "ledger")
    accounting = ["By basic composition: the sums of epsilons and of deltas stay within the cap."]
    if book["concentrated"]:
        limit, used = (book["concentrated"][part]["rho"] for part in ("limit", "spent"))
        accounting = [
            "By two privacy filters, of which one must have room for all charges: basic "
            "composition, and zero-concentrated differential privacy. Each has a share of delta "
            "that was fixed before any data was read (hushtable/privacy/ledger.md).",
            f"rho spent {float(Fraction(used)):.4g} of {float(Fraction(limit)):.4g}.",
        ]
    said["accounting"] = Said(tuple(accounting), "ledger")
    said["further-releases"] = Said((book["left"]["in_words"],), "ledger")
    return said


def _decided(evidence: Evidence) -> dict[str, Said]:
    """Say who answers for the cap and for each release, from the ledger or the statement."""
    found: dict[str, list[str]] = {"responsible": [], "reason": [], "review_by": []}
    source: Source = "statement"
    if evidence.ledger is not None:
        source = "ledger"
        for part, text in evidence.ledger["decision"].items():
            found[part].append(f"for the cap: {text}")
    for name, release in evidence.releases.items():
        receipt = release.statement.ledger
        entry = evidence.entries.get(receipt.receipt) if receipt else None
        decision = entry.decision if entry else release.statement.decision
        for part, text in (decision.to_dict() if decision else {}).items():
            found[part].append(f"for {name}: {text}")
    names = {"responsible": "responsible", "reason": "reason", "review_by": "review"}
    return _stated({names[part]: tuple(lines) for part, lines in found.items()}, source)


def _sum_of_releases(evidence: Evidence) -> dict[str, Said]:
    """Add up the releases at hand, where that can be done: of others nothing is known."""
    promises = [p for r in evidence.releases.values() for p in r.statement.guarantees]
    unknown = "No ledger was given: releases that are not in this dossier are not known."
    try:
        together = compose(promises)
    except HushtableError as error:
        return {"total": Said((f"Cannot be added up: {error}", unknown), "statement")}
    return {
        "total": Said((f"The releases at hand: {_variant(together)}.", unknown), "statement"),
        "accounting": Said(("By basic composition: epsilons and deltas add up.",), "statement"),
    }


# --- what holds for every release -----------------------------------------------------------------


def _about_every_release(evidence: Evidence) -> dict[str, Said]:
    """Say what the software does always; and, where all promises are proved, what that rests on."""
    said = {
        "access": (
            "Not at all: a release is a fixed set of files. Questions are answered from the files "
            "alone, without the private data and at no cost in privacy.",
        ),
        "side-channels": (
            "How long a run takes, how much memory and disk it uses, and whether it fails depend "
            "on the private data: outsiders must not see them.",
            "Whoever can read the memory, swap or temporary files of the machine can read private "
            "rows.",
        ),
        "trust": (
            "Central model: the custodian, and the machine that made the release, see the private "
            "data; nobody else has to.",
        ),
    }
    seeded = [name for name, r in evidence.releases.items() if r.statement.seeded]
    if seeded:
        warning = f"WARNING: the noise of {', '.join(seeded)} came from a seed and protects nobody."
        said["randomness"] = (warning,)
    promises = [p for r in evidence.releases.values() for p in r.statement.guarantees]
    if all(isinstance(promise, PureDP | ApproxDP) for promise in promises):
        said |= {
            "attackers": (
                "Anybody who gets the releases, with any computer and any knowledge, that of all "
                "other people's data included.",
            ),
            "post-processing": (
                "Whatever is computed from the noisy counts (rows, estimates, intervals) uses "
                "nothing of the private data; the proof of the method says what that is.",
            ),
            "randomness": (
                "The operating system's, or that of OpenDP's samplers; not from a seed.",
            ),
            "arithmetic": (
                "Noise is drawn by exact samplers in whole numbers, and parameters are fractions: "
                "nothing that protects people is a floating-point number.",
            ),
        }
    return _stated(said, "hushtable")


# --- from evaluations and audits ------------------------------------------------------------------


def _measured(evidence: Evidence) -> dict[str, Said]:
    said = _audited(evidence)
    if not evidence.evaluations:
        return said
    parts: dict[str, list[str]] = {}
    groups: list[tuple[float, tuple[str, ...]]] = []
    for name, found in evidence.evaluations:
        mark = "" if len(evidence.releases) == 1 else f"{name}: "
        for part, lines in _of_evaluation(found).items():
            parts.setdefault(part, []).extend(f"{mark}{line}" for line in lines)
        groups += [(off, (name, *row)) for off, row in _groups(found)]
    said |= _stated({part: tuple(lines) for part, lines in parts.items()}, "evaluation")
    if groups:
        said["subgroups"] = Said(
            (
                f"Of the groups with at least {LEAST_SHARE:.0%} of the data, one value or range of "
                f"a column each, the {min(len(groups), MOST_GROUPS)} whose share is off most.",
            ),
            "evaluation",
            Figures(
                head=("release", "group", "share in the data", "in the release", "off by"),
                rows=tuple(row for _, row in sorted(groups, reverse=True)[:MOST_GROUPS]),
            ),
        )
    return said


def _audited(evidence: Evidence) -> dict[str, Said]:
    lines = []
    for report in evidence.audits:
        of = [
            name
            for name, release in evidence.releases.items()
            if release.statement.method == report["method"]
            and release.statement.parameters == report["parameters"]
        ]
        settings = (
            f"with the settings of {', '.join(of)}" if of else "with other settings than here"
        )
        for finding in report["findings"]:
            seen = finding.get("would_have_seen") or finding.get("reason")
            what = f" (would have seen {seen})" if finding.get("would_have_seen") else ""
            what = f" ({seen})" if seen and not what else what
            lines.append(
                f"{report['method']}, {settings}: {finding['verdict']}{what}, in "
                f"{report['n_runs']:,} runs on made-up data. A method that keeps its promise is "
                f"accused with a chance of at most {1 - report['confidence']:.2g}."
            )
    return {"audit": Said(tuple(lines), "audit")} if lines else {}


CRITERIA = {
    "singling out": "singling-out",
    "linkability": "linkability",
    "likelihood linkage": "linkability",
    "attribute inference": "inference",
    "membership": "inference",
}
"""To which of the three criteria an attack belongs."""


def _of_evaluation(found: Mapping[str, Any]) -> dict[str, list[str]]:
    utility, risk = found["utility"], found["risk"]
    said: dict[str, list[str]] = {"utility": []}
    if pairs := utility.get("pairs"):
        said["utility"].append(
            f"pairs of columns differ by {pairs['mean']['value']:.3f} in total variation on "
            f"average; a release that knows single columns only would by {pairs['independent']:.3f}"
        )
    workload = utility.get("workload")
    if workload and workload["lines"]:
        line = workload["lines"][0]
        held = line.get("coverage")
        said["utility"].append(
            f"{workload['n']} random counts: median relative error "
            f"{line['median_relative_error']['value']:.1%}"
            + (f", {held['value']:.1%} of the 95 % intervals held the truth" if held else "")
        )
    if learning := utility.get("learning"):
        best = {
            where: max(
                one["accuracy"]["value"] for one in learning["lines"] if one["trained_on"] == where
            )
            for where in ("release", "original")
        }
        said["utility"].append(
            f"predicting {learning['target']}: best accuracy {best['release']:.1%} trained on the "
            f"release, {best['original']:.1%} on the data"
        )
    if "not_assessed" in risk:
        return said | {part: [risk["not_assessed"]] for part in ("singling-out", "linkability",
                                                               "inference")}  # fmt: skip
    for attack in risk["attacks"]:
        said.setdefault(CRITERIA.get(attack["name"], "other-attacks"), []).append(_attack(attack))
    said.setdefault("inference", []).extend(risk["notes"])
    if anonymity := risk.get("anonymity"):
        said["anonymity"] = [
            f"{anonymity['n_rows']:,} published rows in {anonymity['n_groups']:,} groups that look "
            f"alike in {', '.join(anonymity['quasi'])}; the smallest has {anonymity['k']}."
        ]
    return said


def _attack(attack: Mapping[str, Any]) -> str:
    what = f"{attack['name']}{', ' if attack['of'] else ''}{attack['of']}"
    if not attack["attack"] or not attack["attack"]["n"]:
        return f"{what}: {attack['note'] or 'not tried'}"
    against = attack["control"] or attack["naive"]
    than = "people who are not in the data" if attack["control"] else "a guess without the release"
    compared = f" against {against['value']:.1%} for {than}" if against and against["n"] else ""
    verdict = "MORE THAN CHANCE" if attack["succeeds"] else "no more than chance explains"
    return (
        f"{what}: success {attack['attack']['value']:.1%} ({attack['attack']['low']:.1%} to "
        f"{attack['attack']['high']:.1%}) in {attack['attack']['n']:,} tries{compared}: {verdict}"
    )


def _groups(found: Mapping[str, Any]) -> list[tuple[float, tuple[str, ...]]]:
    """Compare the shares of single values: by how much each is off, and what to write."""
    compared: list[tuple[float, tuple[str, ...]]] = []
    for column in found["utility"]["columns"]:
        shares = column["shares"]
        for label, original, published in zip(
            shares["labels"], shares["original"], shares["published"], strict=True
        ):
            if original >= LEAST_SHARE:
                ratio = published / original - 1
                row = (f"{column['name']} = {label}", f"{original:.2%}", f"{published:.2%}",
                       f"{ratio:+.1%}")  # fmt: skip
                compared.append((abs(ratio), row))
    return compared


def is_internal(evidence: Evidence) -> Sequence[str]:
    """Say what makes a dossier unfit for publication."""
    why = []
    if evidence.evaluations:
        why.append("it compares releases with the private table")
    if evidence.ledger is not None:
        why.append("it tells what a ledger holds, with people and reasons")
    return why
