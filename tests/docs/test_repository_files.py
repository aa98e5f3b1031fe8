"""Citation, build and contribution files agree with the project's metadata."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import hushtable

ROOT = Path(__file__).resolve().parents[2]


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == hushtable.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["license"] == project["license"]


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PINNED = re.compile(r"uses: ([\w./-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+")
BY_VERSION = re.compile(r"uses: ([\w./-]+)@v\d+\.\d+\.\d+")


def test_every_supported_python_and_system_is_tested() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())["jobs"]
    matrix = jobs["fast"]["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [c.rpartition(" ")[2] for c in project["classifiers"] if ":: Python :: 3." in c]
    assert matrix["python"] == named
    assert named[0] == project["requires-python"].removeprefix(">=")
    systems = {*matrix["system"], *(one["system"] for one in matrix["include"])}
    assert {name.partition("-")[0] for name in systems} == {"ubuntu", "macos", "windows"}
    parts = jobs["all"]["strategy"]["matrix"]["part"]
    assert jobs["all"]["steps"][-1]["run"].endswith(f"/{len(parts)}")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_complete_and_pinned(path: Path) -> None:
    text = path.read_text()
    content = yaml.safe_load(text)
    assert content["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name, job in content["jobs"].items():
        assert job["timeout-minutes"] <= 360, name
        needed = job.get("needs", [])
        assert {needed} <= set(content["jobs"]) if isinstance(needed, str) else not needed
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            for target in re.findall(r"make ([\w-]+)", step.get("run", "")):
                assert target in targets, target
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if "uses:" in line and not PINNED.search(line):
            assert BY_VERSION.search(line), line
            assert "Pinned by version" in lines[number - 1], line


def test_locked_libraries_have_hashes_and_no_address() -> None:
    text = (ROOT / "requirements-dev.txt").read_text()
    assert "://" not in text
    required = re.findall(r"^[\w.\[\]-]+==.*?(?=^\w|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(required) > 100
    assert all("--hash=sha256:" in one for one in required)
    names = {re.match(r"[\w.-]+", one)[0].lower() for one in required}  # type: ignore[index]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = [*extras["dependencies"], *extras["optional-dependencies"]["dev"]]
    wanted = {re.match(r"[\w.-]+", one)[0].lower() for one in direct}  # type: ignore[index]
    assert {name.replace("_", "-") for name in wanted} - {"hushtable"} <= names


def test_the_recipe_requires_what_the_project_requires() -> None:
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
    assert recipe["context"]["version"] == hushtable.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["publish"], *extras["science"], *extras["eval"]]
    other = {"pyarrow": "pyarrow-core", "duckdb": "python-duckdb"}
    other["ibis-framework"] = "ibis-framework-core"
    found = {one.partition(" ")[0]: one.partition(" ")[2] for one in recipe["requirements"]["run"]}
    for one in needed:
        name, _, least = one.partition(">=")
        if not name.startswith("hushtable"):
            name = (other.get(name) or name).lower()
            assert found[name] == f">={least}", one


def test_the_image_runs_unprivileged_and_has_a_health_check() -> None:
    text = (ROOT / "Containerfile").read_text()
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER hushtable$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE)
    allowed = (ROOT / ".containerignore").read_text().split()
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
        assert f"!{name}" in allowed, name
