"""Citation, build and contribution files agree with the project's metadata."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import hushtable

ROOT = Path(__file__).resolve().parents[2]


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == hushtable.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["license"] == project["license"]


def test_the_workflow_does_what_ci_does_on_every_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())["jobs"]
    linux = jobs["linux"]
    assert linux["steps"][-1] == {"run": ".ci/run"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    assert linux["strategy"]["matrix"]["python"][0] == oldest


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
