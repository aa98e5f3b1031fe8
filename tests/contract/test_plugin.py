"""Plugins: the entry point of another package adds its method without a change here.

Its own tests are those for any author: contract, parts and audit of `hushtable.testing`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "examples" / "plugin"
NAME, VERSION = "hushtable_histograms", "0.1.0"

Run = Callable[..., subprocess.CompletedProcess[str]]


def wheel(folder: Path) -> Path:
    """Build the wheel by hand, because its build system is not installed."""
    info = f"{NAME}-{VERSION}.dist-info"
    files = {
        str(path.relative_to(PACKAGE / "src")): path.read_text()
        for path in (PACKAGE / "src").rglob("*")
        if path.suffix in {".py", ".md"}
    }
    files |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[hushtable.methods]\nhistograms = {NAME}:LISTING\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    path = folder / f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


@pytest.fixture(scope="module")
def hushtable(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Install the plugin, and return the command line of an interpreter with it."""
    pytest.importorskip("pip", reason="this environment has no pip to install a plugin with")
    folder = tmp_path_factory.mktemp("plugin")
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]
    subprocess.run(
        [sys.executable, *install, str(folder / "site"), str(wheel(folder))],
        check=True, capture_output=True,
    )  # fmt: skip
    paths = [str(folder / "site"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def run(*words: str, module: str = "hushtable.cli.app") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            env=environment, cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run


def test_its_own_tests_hold(hushtable: Run) -> None:
    tests = str(PACKAGE / "tests")
    done = hushtable("-q", "-p", "no:cacheprovider", tests, module="pytest").stdout
    assert "passed" in done
    assert "skipped" not in done


def test_it_is_listed_published_asked_and_audited(hushtable: Run, tmp_path: Path) -> None:
    assert "histograms" in json.loads(hushtable("methods", "--json").stdout)
    shown = hushtable("plan", "histograms", "--help").stdout
    assert "Bound on the privacy loss" in " ".join(shown.replace("│", " ").split())

    rows = "\n".join(["F"] * 300 + ["M"] * 700)
    (tmp_path / "people.csv").write_text(f"sex\n{rows}\n")
    columns = "{sex: {type: categorical, values: [F, M]}}"
    (tmp_path / "schema.yaml").write_text(f"name: people\ncolumns: {columns}\n")
    release = str(tmp_path / "release")
    given = [str(tmp_path / "people.csv"), str(tmp_path / "schema.yaml")]
    hushtable("publish", "histograms", *given, "--out", release, "--epsilon", "2")
    answer = json.loads(hushtable("query", release, "sex = 'F'", "--json").stdout)
    # Noise of scale 1/2 reaches 40 with probability 1e-34.
    assert abs(answer["value"] - 300) < 40

    found = hushtable("audit", "histograms", "--epsilon", "1", "--runs", "200",
                      "--seconds", "60").stdout  # fmt: skip
    assert "NO VIOLATION FOUND" in found


def test_the_example_says_what_is_installed_here() -> None:
    """The wheel of this test has the entry point of the example's own project file."""
    text = (PACKAGE / "pyproject.toml").read_text()
    assert '[project.entry-points."hushtable.methods"]' in text
    assert f'histograms = "{NAME}:LISTING"' in text
