"""Input files of a dossier: reading, consistency checks and digests."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushtable.dossier.content import STATEABLE, EvidenceFile
from hushtable.errors import ParameterError, Refused
from hushtable.files.yaml_text import read_yaml
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.records import Entry
from hushtable.release.release import Release
from hushtable.release.statement import STATEMENT, sha256_of

MAX_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Validated inputs of a dossier."""

    releases: Mapping[str, Release]  # by folder name
    ledger: Mapping[str, Any] | None
    entries: Mapping[str, Entry]  # of the ledger, by receipt
    evaluations: Sequence[tuple[str, Mapping[str, Any]]]  # with the name of the release
    audits: Sequence[Mapping[str, Any]]
    facts: Mapping[str, tuple[str, ...]]
    files: tuple[EvidenceFile, ...]


def gather(
    releases: Sequence[str | Path],
    *,
    ledger: str | Path | None,
    evaluations: Sequence[str | Path],
    audits: Sequence[str | Path],
    facts: str | Path | None,
    beside: Path,
) -> Evidence:
    """Read all inputs and refuse those that do not match; paths become relative to `beside`."""
    opened = _releases(releases)
    files = [file for release in opened.values() for file in _files_of(release, beside)]

    def add(kind: Any, path: str | Path, digest: str) -> None:
        files.append(EvidenceFile(kind=kind, path=_from(beside, path), digest=digest))

    shown, entries = None, {}
    if ledger is not None:
        book = Ledger.open(ledger)
        shown = {**book.show(), "protects": f"{book.unit.describe()}, {book.neighbors}"}
        entries = {entry.receipt: entry for entry in book.entries()}
        _require_paid(opened, entries, ledger)
        add("ledger", ledger, shown["head"])
    compared = []
    for path in evaluations:
        content, digest = _json("evaluation", path)
        compared.append((_evaluated(content, opened, path), content))
        add("evaluation", path, digest)
    audited = []
    for path in audits:
        content, digest = _json("audit", path)
        audited.append(_audited(content, opened, path))
        add("audit", path, digest)
    stated: dict[str, tuple[str, ...]] = {}
    if facts is not None:
        stated = _facts(facts)
        add("facts", facts, sha256_of(Path(facts)))
    return Evidence(
        releases=opened,
        ledger=shown,
        entries=entries,
        evaluations=compared,
        audits=audited,
        facts=stated,
        files=tuple(files),
    )


def _releases(folders: Sequence[str | Path]) -> dict[str, Release]:
    if not folders:
        raise ParameterError("no release was given; pass at least one release folder.")
    opened: dict[str, Release] = {}
    for folder in folders:
        release = Release.load(folder)
        name = release.folder.resolve().name
        if name in opened:
            raise ParameterError(
                f"two release folders are named {name!r}; answers refer to folder names, so rename "
                "one."
            )
        opened[name] = release
    return opened


def _require_paid(
    releases: Mapping[str, Release], entries: Mapping[str, Entry], ledger: str | Path
) -> None:
    """Refuse a ledger that lacks the receipt of a release."""
    problems = [
        f"{str(ledger)!r} does not contain the receipt of release {name!r}: it is another ledger "
        "or an older copy. Pass the ledger that was charged."
        for name, release in releases.items()
        if (receipt := release.statement.ledger) and receipt.receipt not in entries
    ]
    Refused.raise_if_any(problems)


def _files_of(release: Release, beside: Path) -> list[EvidenceFile]:
    folder = release.folder
    found = [("statement", STATEMENT, sha256_of(folder / STATEMENT))]
    for table in release.statement.tables.values():
        found += [("table", name, digest) for name, digest in table.digests.items()]
    found += [("attachment", *item) for item in release.statement.attachments.items()]
    return [
        EvidenceFile(kind=kind, path=_from(beside, folder / name), digest=digest)
        for kind, name, digest in found
    ]


def _from(beside: Path, path: str | Path) -> str:
    return Path(os.path.relpath(Path(path).resolve(), beside.resolve())).as_posix()


def _json(kind: str, path: str | Path) -> tuple[dict[str, Any], str]:
    """Return the content of a JSON file and its digest."""
    try:
        raw = Path(path).read_bytes()
        content = json.loads(raw) if len(raw) <= MAX_BYTES else None
    except OSError as error:
        raise ParameterError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _foreign(kind, path)
    return content, hashlib.sha256(raw).hexdigest()


_COMMANDS = {
    "evaluation": "evaluate RELEASE DATA --json FILE",
    "audit": "audit METHOD --json > FILE",
}


def _foreign(kind: str, path: str | Path) -> ParameterError:
    """Return the error for a file that another program wrote."""
    return ParameterError(
        f"{str(path)!r} was not written by `hushtable {_COMMANDS[kind]}`; pass such a file."
    )


def _evaluated(content: Mapping[str, Any], releases: Mapping[str, Release], path: Any) -> str:
    """Return the name of the release that was evaluated, found by the digests of its tables."""
    try:
        digests = {name: table["sha256"] for name, table in content["release"]["tables"].items()}
        _ = content["utility"]["columns"], content["risk"], content["reproduce"]["control"]
    except (KeyError, TypeError, AttributeError):
        raise _foreign("evaluation", path) from None
    for name, release in releases.items():
        tables = release.statement.tables
        if digests and digests == {name: table.sha256 for name, table in tables.items()}:
            return name
    raise Refused(
        f"{str(path)!r} does not evaluate any of {', '.join(map(repr, releases))}; evaluate one of "
        "them, or leave this file out."
    )


def _audited(content: dict[str, Any], releases: Mapping[str, Release], path: Any) -> dict[str, Any]:
    """Check that an audit is about a method of one of the releases, and return it."""
    try:
        method, findings = content["method"], content["findings"]
        _ = [(finding["verdict"], finding["promise"]) for finding in findings]
        _ = content["parameters"].items(), content["n_runs"], content["confidence"]
    except (KeyError, TypeError, AttributeError):
        raise _foreign("audit", path) from None
    made = {release.statement.method for release in releases.values()}
    if method not in made:
        raise Refused(
            f"{str(path)!r} audits the method {method!r}, but the releases were made with "
            f"{', '.join(sorted(made))}; audit that method, or leave this file out."
        )
    return content


def _facts(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Read the custodian's answers: one text or a list of texts per question."""
    try:
        content = read_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = f"{error.strerror}." if isinstance(error, OSError) else str(error)
        raise ParameterError(f"{str(path)!r} cannot be read: {why}") from None
    problems = []
    stated: dict[str, tuple[str, ...]] = {}
    if not isinstance(content, dict):
        raise ParameterError(f"{str(path)!r} must map question IDs to texts.")
    for name, given in content.items():
        texts = given if isinstance(given, list) else [given]
        if name not in STATEABLE:
            problems.append(f"{name!r} is not a question for the custodian.")
        elif not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            problems.append(f"{name}: write a text, or a list of texts.")
        else:
            stated[str(name)] = tuple(" ".join(text.split()) for text in texts)
    if problems:
        known = ", ".join(sorted(STATEABLE))
        raise ParameterError([f"{str(path)!r}:", *problems, f"Allowed are: {known}."])
    return stated
