"""The R package: its own tests, its documents, and the same answers as in Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hushtable import Quilt, Release, Schema, publish, sample, sample_schema

ROOT = Path(__file__).parents[2]
_R = shutil.which("Rscript")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    needed = "stopifnot(requireNamespace('jsonlite', quietly = TRUE))"
    if (
        _R is None
        or subprocess.run([_R, "-e", needed], check=False, capture_output=True).returncode
    ):
        pytest.skip("no R with jsonlite: apt install r-base r-cran-jsonlite")
    given = sample_schema().to_dict()
    given["columns"]["age"]["label"] = "Age in years"
    given["columns"]["sex"]["labels"] = {"F": "female", "M": "male"}
    method = Quilt(epsilon=2, delta="1e-9", particles=2000)
    out = tmp_path_factory.mktemp("r") / "release"
    return publish(sample(), Schema.from_dict(given), method, out=out)


@pytest.fixture(scope="module")
def environment(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Environment with the package installed, and the command of this source on the path."""
    folder = tmp_path_factory.mktemp("library")
    copy = folder / "source"
    shutil.copytree(ROOT / "r", copy)
    done = subprocess.run(
        ["R", "CMD", "INSTALL", "--no-docs", f"--library={folder}", copy],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    commands = folder / "bin"
    commands.mkdir()
    command = commands / "hushtable"
    command.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\n"
        "from hushtable.cli import main\nmain()\n"
    )
    command.chmod(0o755)
    return os.environ | {
        "R_LIBS": str(folder),
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "HUSHTABLE_RELEASE": str(release.folder),
    }


def run_r(script: Path, environment: Mapping[str, str], folder: Path) -> None:
    assert _R is not None
    done = subprocess.run(
        [_R, script], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_package_passes_its_tests_and_answers_as_the_library_does(
    release: Release, environment: Mapping[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "answers.json"
    run_r(ROOT / "r/tests/run.R", {**environment, "HUSHTABLE_ANSWERS": str(out)}, tmp_path)
    found = json.loads(out.read_text())
    asked = {
        "all": release.count("TRUE"),
        "old": release.count("age >= 65", by=("sex", "region")),
        "population": release.count("sex = 'F'", scope="population"),
        "mean": release.mean("age", by="sex"),
        "median": release.median("age", "smoker = 'yes'"),
        "share": release.share("smoker = 'yes'", "age >= 18", by="sex"),
        "fit": release.regression("age ~ C(sex) + C(smoker)"),
        "text": release.regression("age ~ C(sex)", "age > 20"),
        "sql": release.sql("SELECT sex, avg(age), count(*) FROM release GROUP BY sex"),
    }
    assert asked.keys() == found.keys()
    for name, answer in asked.items():
        for figure in ("value", "low", "high", "privacy_std"):
            numbers = [getattr(one, figure) for one in getattr(answer, "estimates", [answer])]
            assert found[name][figure] == pytest.approx(numbers, rel=1e-12), (name, figure)


def test_code_of_the_documents_runs(
    release: Release, environment: Mapping[str, str], tmp_path: Path
) -> None:
    page = (ROOT / "docs/how-to/use-r.md").read_text()
    vignette = (ROOT / "r/vignettes/hushtable.Rmd").read_text()
    shutil.copytree(release.folder, tmp_path / "release")
    blocks = re.findall(r"```r\n(.*?)```", page, re.DOTALL)
    blocks += ['folder <- "release"']
    blocks += re.findall(r"```\{r(?!, include).*?\}\n(.*?)```", vignette, re.DOTALL)
    assert len(blocks) > 7
    script = tmp_path / "documents.R"
    script.write_text("pdf(NULL)\n" + "\n".join(blocks))
    run_r(script, environment, tmp_path)


def test_the_manual_describes_each_function() -> None:
    exported = re.findall(r"export\((\w+)\)", (ROOT / "r/NAMESPACE").read_text())
    manual = "".join(page.read_text() for page in (ROOT / "r/man").glob("*.Rd"))
    assert len(exported) >= 10
    assert {name for name in exported if f"\\alias{{{name}}}" not in manual} == set()
