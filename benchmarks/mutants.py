"""Mutants of the code that promises rest on, and the tests that kill them: ``make test-mutants``.

`mutants.toml` lists wrong lines. Each is written into a copy of the source, on which the tests that
should fail then run: first those of the fast suite in the files that the mutant names, then the
whole fast suite, then the slow tests of these files. A mutant that no test kills is a hole in the
tests. Only numbers of mutants given as arguments run (the first is 1); without arguments, all do.

Libraries are imported once; each run is a fork of this process.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
LIBRARIES = ("duckdb", "hypothesis", "ibis", "numba", "numpy", "pyarrow", "pydantic", "scipy.stats")
QUIET = ("-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist")
FAILED = int(pytest.ExitCode.TESTS_FAILED)
BROKEN = int(pytest.ExitCode.INTERRUPTED)  # a test file cannot be imported


@dataclass(frozen=True)
class Mutant:
    """One wrong line."""

    file: str  # below src/hushtable
    original: str  # occurs once in the file
    replacement: str
    breaks: str  # what is wrong
    tests: tuple[str, ...]  # files of tests that should fail

    def applied(self, text: str) -> str:
        """Return the text of the file with the wrong line."""
        if text.count(self.original) != 1:
            raise ValueError(
                f"{self.file}: {self.original!r} occurs {text.count(self.original)} times; it must "
                "occur once. Change the mutant with the line."
            )
        return text.replace(self.original, self.replacement)


def mutants() -> list[Mutant]:
    """Return the mutants in the order of the list."""
    found = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**one, "tests": tuple(one["tests"])}) for one in found]


def outcome(source: Path, arguments: list[str]) -> int:
    """Run pytest on a copy of the source in a fork; return its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 70
    with suppress(BaseException):
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.environ.update(PYTHONPATH=str(source), PYTHONDONTWRITEBYTECODE="1")
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(source))
        code = int(pytest.main([*QUIET, *arguments]))
    os._exit(code)


def killer(source: Path, mutant: Mutant, *, whole: bool) -> str | None:
    """Return which tests fail on a copy of the source with the mutant; None if none does."""
    stages = [("fast", ["--fast", *mutant.tests])]
    if whole:
        stages += [("whole fast suite", ["--fast", "tests"]), ("slow", [*mutant.tests])]
    for name, arguments in stages:
        code = outcome(source, arguments)
        if code in {FAILED, BROKEN}:
            return name
        if code:
            raise RuntimeError(f"pytest ended with {code} on {mutant.file}: {mutant.breaks}.")
    return None


def run(chosen: list[int], *, whole: bool) -> int:
    """Run mutants by number; return the number of survivors."""
    survivors, killed = 0, dict.fromkeys(("fast", "whole fast suite", "slow"), 0)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        listed = mutants()
        for number in chosen or range(1, len(listed) + 1):
            mutant = listed[number - 1]
            path = source / "hushtable" / mutant.file
            status, text = path.stat(), path.read_text(encoding="utf-8")
            if mutant.file.startswith("kernels/"):  # Numba does not see changes of other files
                shutil.rmtree(source / "hushtable" / "kernels" / "__pycache__", ignore_errors=True)
            path.write_text(mutant.applied(text), encoding="utf-8")
            os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns + 10**10))  # compile it
            found = killer(source, mutant, whole=whole)
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
            if mutant.file.startswith("kernels/"):
                kept = Path("hushtable") / "kernels" / "__pycache__"
                shutil.rmtree(source / kept, ignore_errors=True)
                with suppress(FileNotFoundError):
                    shutil.copytree(ROOT / "src" / kept, source / kept)
            if found is None:
                survivors += 1
            else:
                killed[found] += 1
            said = "SURVIVES" if found is None else f"killed ({found})"
            print(f"{number:3} {said:26} {mutant.file}: {mutant.breaks}", flush=True)
    counts = ", ".join(f"{n} killed ({name})" for name, n in killed.items() if n)
    print(f"{counts}; {survivors} survive")
    return survivors


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="numbers of mutants in the list")
    parser.add_argument("--quick", action="store_true", help="run only the first stage")
    given = parser.parse_args()
    os.chdir(ROOT)
    for name in LIBRARIES:
        importlib.import_module(name)
    sys.exit(bool(run(given.numbers, whole=not given.quick)))


if __name__ == "__main__":
    main()
