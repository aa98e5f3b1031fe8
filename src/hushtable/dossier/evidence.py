"""What a dossier is made from: opened, checked against each other, and with its digests."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushtable.dossier.content import File
from hushtable.dossier.questions import STATEABLE
from hushtable.errors import ParameterError, Refused
from hushtable.files.whole_file import sha256_of
from hushtable.files.yaml_text import read_yaml
from hushtable.privacy.ledger import Entry, Ledger
from hushtable.release import Release
from hushtable.statement import STATEMENT

MAX_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Hold what is known: releases by their folders' names, and what goes with them.

    `entries` are the ledger's, by receipt. Evaluations come with the name of their release; an
    audit is of a method.
    """

    releases: Mapping[str, Release]
    ledger: Mapping[str, Any] | None
    entries: Mapping[str, Entry]
    evaluations: Sequence[tuple[str, Mapping[str, Any]]]
    audits: Sequence[Mapping[str, Any]]
    facts: Mapping[str, tuple[str, ...]]
    files: tuple[File, ...]


def gather(
    releases: Sequence[str | Path],
    *,
    ledger: str | Path | None,
    evaluations: Sequence[str | Path],
    audits: Sequence[str | Path],
    facts: str | Path | None,
    beside: Path,
) -> Evidence:
    """Open all parts, and refuse those that do not belong together.

    `beside` is the folder of the dossier, from which files are named.
    """
    opened = _releases(releases)
    files = [file for release in opened.values() for file in _files_of(release, beside)]
    shown, entries = None, {}
    if ledger is not None:
        book = Ledger.open(ledger)
        shown = {**book.show(), "protects": f"{book.unit.describe()}, {book.neighbors}"}
        entries = {entry.receipt: entry for entry in book.entries()}
        _require_paid(opened, entries, ledger)
        files.append(File(kind="ledger", path=_from(beside, ledger), digest=shown["head"]))
    compared = []
    for path in evaluations:
        content, file = _json("evaluation", path, beside)
        compared.append((_evaluated(content, opened, path), content))
        files.append(file)
    audited = []
    for path in audits:
        content, file = _json("audit", path, beside)
        audited.append(_audited(content, opened, path))
        files.append(file)
    stated: dict[str, tuple[str, ...]] = {}
    if facts is not None:
        stated = _facts(facts)
        digest = sha256_of(Path(facts))
        files.append(File(kind="facts", path=_from(beside, facts), digest=digest))
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
        raise ParameterError("there is no release; name at least one release folder.")
    opened: dict[str, Release] = {}
    for folder in folders:
        release = Release.load(folder)
        name = release.folder.resolve().name
        if name in opened:
            raise ParameterError(
                f"two releases are called {name!r}; answers go by the names of the folders, so "
                "rename one."
            )
        opened[name] = release
    return opened


def _require_paid(
    releases: Mapping[str, Release], entries: Mapping[str, Entry], ledger: str | Path
) -> None:
    """Refuse a ledger that knows nothing of a release which says that one paid for it."""
    problems = [
        f"{str(ledger)!r} does not contain the receipt of release {name!r}: it is another ledger, "
        "or an older copy. Name the one that paid."
        for name, release in releases.items()
        if (receipt := release.statement.ledger) and receipt.receipt not in entries
    ]
    if problems:
        raise Refused(problems)


def _files_of(release: Release, beside: Path) -> list[File]:
    folder = release.folder
    found = [("statement", STATEMENT, sha256_of(folder / STATEMENT))]
    for table in release.statement.tables.values():
        found += [("table", name, digest) for name, digest in table.digests.items()]
    found += [("attachment", *item) for item in release.statement.attachments.items()]
    return [
        File(kind=kind, path=_from(beside, folder / name), digest=digest)
        for kind, name, digest in found
    ]


def _from(beside: Path, path: str | Path) -> str:
    return Path(os.path.relpath(Path(path).resolve(), beside.resolve())).as_posix()


def _json(kind: Any, path: str | Path, beside: Path) -> tuple[dict[str, Any], File]:
    path = Path(path)
    try:
        raw = path.read_bytes()
        content = json.loads(raw) if len(raw) <= MAX_BYTES else None
    except OSError as error:
        raise ParameterError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ParameterError(
            f"{str(path)!r} is not what `hushtable {_COMMANDS[kind]}` writes; give that file."
        )
    digest = hashlib.sha256(raw).hexdigest()
    return content, File(kind=kind, path=_from(beside, path), digest=digest)


_COMMANDS = {
    "evaluation": "evaluate RELEASE DATA --json FILE",
    "audit": "audit METHOD --json > FILE",
}


def _evaluated(content: Mapping[str, Any], releases: Mapping[str, Release], path: Any) -> str:
    """Say which release an evaluation is of, by the digests of its tables."""
    try:
        digests = {name: table["sha256"] for name, table in content["release"]["tables"].items()}
        _ = content["utility"]["columns"], content["risk"], content["reproduce"]["control"]
    except (KeyError, TypeError, AttributeError):
        raise ParameterError(
            f"{str(path)!r} is not what `hushtable {_COMMANDS['evaluation']}` writes; give that "
            "file."
        ) from None
    for name, release in releases.items():
        tables = release.statement.tables
        if digests and digests == {name: table.sha256 for name, table in tables.items()}:
            return name
    raise Refused(
        f"{str(path)!r} evaluates another release than {', '.join(map(repr, releases))}; evaluate "
        "these, or leave it out."
    )


def _audited(content: dict[str, Any], releases: Mapping[str, Release], path: Any) -> dict[str, Any]:
    """Refuse an audit of a method that made none of the releases."""
    try:
        method, findings = content["method"], content["findings"]
        _ = [(finding["verdict"], finding["promise"]) for finding in findings]
        _ = content["parameters"].items(), content["n_runs"], content["confidence"]
    except (KeyError, TypeError, AttributeError):
        raise ParameterError(
            f"{str(path)!r} is not what `hushtable {_COMMANDS['audit']}` writes; give that file."
        ) from None
    made = {release.statement.method for release in releases.values()}
    if method not in made:
        raise Refused(
            f"{str(path)!r} audits the method {method!r}, and the releases were made with "
            f"{', '.join(sorted(made))}; audit that, or leave it out."
        )
    return content


def _facts(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Read what a custodian states: for each question a text or a list of texts."""
    try:
        content = read_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = f"{error.strerror}." if isinstance(error, OSError) else str(error)
        raise ParameterError(f"{str(path)!r} cannot be read: {why}") from None
    problems = []
    stated: dict[str, tuple[str, ...]] = {}
    if not isinstance(content, dict):
        raise ParameterError(f"{str(path)!r} must map names of questions to texts.")
    for name, given in content.items():
        texts = given if isinstance(given, list) else [given]
        if name not in STATEABLE:
            problems.append(f"{name!r} is no question that a custodian answers.")
        elif not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            problems.append(f"{name}: write a text, or a list of texts.")
        else:
            stated[str(name)] = tuple(" ".join(text.split()) for text in texts)
    if problems:
        known = ", ".join(sorted(STATEABLE))
        raise ParameterError([f"{str(path)!r}:", *problems, f"Those there are: {known}."])
    return stated
