"""Every library that hushtable needs has a license that allows it; run as a script to list them."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageMetadata, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
LISTED = ROOT / "docs" / "licenses.md"

# Licenses that may be combined with Apache-2.0 without conditions on hushtable's own text.
PERMISSIVE = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause", "BSD-3-Clause",
    "CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Zlib",
}  # fmt: skip
# File-level or library copyleft: allowed for test tools, which are not distributed.
FOR_DEVELOPMENT = PERMISSIVE | {"MPL-2.0", "LGPL-3.0-only"}
_SPELLINGS = {
    "MIT License": "MIT", "BSD License": "BSD", "Apache Software License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0", "Apache 2.0": "Apache-2.0",
    "ISC License (ISCL)": "ISC", "ISC License": "ISC",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}  # fmt: skip


def requirements() -> dict[str, list[Requirement]]:
    """Return the requirements of hushtable: to run, and for each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"to run": project["dependencies"], **project["optional-dependencies"]}
    return {
        group: [Requirement(text) for text in texts if not text.startswith("hushtable")]
        for group, texts in groups.items()
    }


def installed(roots: list[Requirement]) -> dict[str, PackageMetadata]:
    """Return the installed libraries that these need, directly or not."""
    found: dict[str, PackageMetadata] = {}
    waiting, seen = list(roots), set()
    while waiting:
        wanted = waiting.pop()
        key = (_plain(wanted.name), frozenset(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            there = distribution(wanted.name)
        except PackageNotFoundError:
            continue
        found[key[0]] = there.metadata
        for text in there.requires or ():
            needed = Requirement(text)
            extras = wanted.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(needed)
    return dict(sorted(found.items()))


def license_of(metadata: PackageMetadata) -> str:
    """Return the license from a library's metadata."""
    expression = metadata.get("License-Expression")
    if expression:
        return str(expression)
    listed = [
        line.split("::")[-1].strip()
        for line in metadata.get_all("Classifier") or ()
        if line.startswith("License ::") and line != "License :: OSI Approved"
    ]
    name = listed[0] if listed else str(metadata.get("License", "")).strip()
    return _SPELLINGS.get(name, name)


def is_allowed(license_text: str, allowed: set[str]) -> bool:
    """Return whether one of the alternatives has only allowed parts."""
    return any(
        all(part.strip(" ()") in allowed for part in choice.split(" AND "))
        for choice in license_text.split(" OR ")
    )


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("group", requirements())
def test_licenses_allow_it(group: str) -> None:
    allowed = FOR_DEVELOPMENT if group == "dev" else PERMISSIVE
    found = {
        name: license_of(metadata) for name, metadata in installed(requirements()[group]).items()
    }
    assert {name: text for name, text in found.items() if not is_allowed(text, allowed)} == {}
    if group == "to run":
        assert "numpy" in found


def test_every_direct_dependency_is_listed() -> None:
    listed = dict(re.findall(r"^\| `(\S+)` \| ([^|]+) \|", LISTED.read_text(), re.MULTILINE))
    wanted = {_plain(need.name) for needs in requirements().values() for need in needs}
    assert wanted <= set(listed), f"run python tests/docs/{Path(__file__).name}"
    assert all(is_allowed(text, FOR_DEVELOPMENT) for text in listed.values())


def test_a_forbidden_license_is_noticed() -> None:
    assert not is_allowed("GPL-3.0-only", FOR_DEVELOPMENT)
    assert not is_allowed("MIT AND GPL-2.0-or-later", FOR_DEVELOPMENT)
    assert is_allowed("GPL-3.0-only OR MIT", PERMISSIVE)
    assert not is_allowed("", PERMISSIVE)


_HEAD = """\
# Licenses of what hushtable needs

hushtable is licensed under Apache-2.0. Everything it needs to run, and every extra, has a license
that may be combined with it without conditions on hushtable's own text. Development tools under
MPL-2.0 or LGPL-3.0 are used in tests and not distributed. A test reads the licenses of all
installed libraries, direct and indirect, and fails if one is not on its list
(`tests/docs/test_licenses.py`; run it as a script to update this page). One library is distributed
with hushtable: htmx 2.0.11 (0BSD), for the web pages, with its license in
`src/hushtable/web/static/vendor`. The table shows what the libraries declare, for the versions
installed when this page was written:

| library | license | needed |
|---|---|---|
"""

if __name__ == "__main__":
    rows: dict[str, tuple[str, list[str]]] = {}
    for group, needs in requirements().items():
        for name, metadata in installed(needs).items():
            rows.setdefault(name, (license_of(metadata), []))[1].append(
                "to run" if group == "to run" else f"`[{group}]`"
            )
    lines = [
        f"| `{name}` | {text} | {'to run' if 'to run' in groups else ', '.join(groups)} |\n"
        for name, (text, groups) in sorted(rows.items())
    ]
    LISTED.write_text(_HEAD + "".join(lines))
