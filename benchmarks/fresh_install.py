"""The README's commands in a fresh installation: ``python -m benchmarks.fresh_install``.

It clones the last commit into a temporary folder, builds the wheel, and installs it into empty
environments for a reader and for a publisher, with libraries from the package index. Then it runs
the commands of the README literally, with the embedded sample as ``people.csv``: a first release, a
first question, the demo, the documentation. Sizes are what an installation adds to an empty
environment. Times are CPU times including child processes, so that other load on the machine does
not change them. If a figure exceeds its limit, it is marked, and the exit code is 1. The run takes
some minutes and 4 GB of disk space.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import os
import platform
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEGABYTE = 10**6
LIMITS = {
    "a reader's install, MB": 250,
    "a publisher's install, MB": 600,
    "hushtable --help, CPU s": 0.2,
    "hushtable query, first, CPU s": 0.8,
    "hushtable query, CPU s": 0.8,
    "hushtable publish quilt, very first, CPU s": 10,
    "hushtable publish quilt, CPU s": 3,
    "make demo after the install, s": 30,
}


class ReadmeError(Exception):
    """A command of the README does not do what the README states."""


@dataclass
class Figures:
    """Figures and their limits, printed as they are measured."""

    missed: list[str] = field(default_factory=list)

    def add(self, what: str, figure: float) -> None:
        limit = LIMITS.get(what)
        late = limit is not None and figure > limit
        if late:
            self.missed.append(what)
        at_most = "" if limit is None else f"at most {limit:g}"
        print(f"{what:45} {figure:9.2f}  {at_most:12} {'MISSED' if late else ''}".rstrip())
        sys.stdout.flush()


@dataclass(frozen=True)
class Machine:
    """A working folder, and an environment whose programs come first in PATH."""

    folder: Path
    programs: Path | None = None

    def run(self, *words: str | Path) -> tuple[str, float, float]:
        """Run a command; return its output, its CPU seconds and its elapsed seconds."""
        clean = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        # Exclude the environment that runs this script, whose programs would hide missing ones.
        own = str(Path(sys.executable).parent)
        paths = [part for part in clean["PATH"].split(os.pathsep) if part != own]
        clean["PATH"] = os.pathsep.join([*([str(self.programs)] if self.programs else []), *paths])
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            words, cwd=self.folder, env=clean, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            said = (done.stdout + done.stderr)[-2000:]
            raise ReadmeError(f"{shlex.join(map(str, words))} ends with {done.returncode}:\n{said}")
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return done.stdout, used, seconds


def blocks(language: str) -> list[str]:
    """Return the code blocks of the README, or of the page on installation for the shell."""
    page = ROOT / ("docs/install.md" if language == "sh" else "README.md")
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def commands(program: str) -> Iterator[list[str]]:
    """Return the page's commands of one program, in order, each as a list of words."""
    for block in blocks("sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == program:
                yield words


def size_mb(folder: Path) -> float:
    """Return the total size of all files below a folder, in MB."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / MEGABYTE


def largest(folder: Path, least: float = 5) -> str:
    """Return the largest packages of an environment, with their sizes in MB."""
    (packages,) = folder.glob("lib/python*/site-packages")
    sizes = {
        path.name: size_mb(path) if path.is_dir() else path.stat().st_size / MEGABYTE
        for path in packages.iterdir()
        if path.name != "pip"
    }
    named = sorted(sizes, key=lambda name: -sizes[name])
    return ", ".join(f"{name} {sizes[name]:.1f}" for name in named if sizes[name] >= least)


def installed(folder: Path, wheel: Path, extra: str, work: Path) -> tuple[Machine, float, float]:
    """Install the wheel with an extra into an empty environment; return it, MB and CPU seconds."""
    venv.create(folder, with_pip=True)
    empty = size_mb(folder)
    machine = Machine(work, folder / "bin")
    # The README's command, with the file instead of the name in the index.
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    _, used, _ = machine.run("pip", "install", "--quiet", wanted)
    print(f"  {largest(folder)}")
    return machine, size_mb(folder) - empty, used


def verified(wheel: Path) -> int:
    """Compare the files of a wheel with the digests of its record; return their number."""
    with zipfile.ZipFile(wheel) as archive:
        (record,) = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        rows = list(csv.reader(archive.read(record).decode().splitlines()))
        if {row[0] for row in rows} != set(archive.namelist()):
            raise ReadmeError(f"{wheel.name} holds other files than its record says")
        for name, digest, _ in rows:
            found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest())
            if name != record and digest != f"sha256={found.decode().rstrip('=')}":
                raise ReadmeError(f"{name} is not what the record of {wheel.name} says")
    return len(rows)


def build_wheel(figures: Figures, home: Path) -> Path:
    """Clone, build the wheel twice by the README's command, and compare the two."""
    digests = set()
    for name in ("first", "second"):
        copy = home / name
        Machine(home).run("git", "clone", "--quiet", "--no-hardlinks", ROOT, copy)
        _, used, _ = Machine(copy).run("make", "wheel")
        (wheel,) = (copy / "dist").glob("*.whl")
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    figures.add("make wheel, CPU s", used)
    if len(digests) != 1:
        raise ReadmeError("two clones of the same commit gave different wheels")
    figures.add("files in the wheel, all as recorded", verified(wheel))
    figures.add("wheel, MB", wheel.stat().st_size / MEGABYTE)
    print(f"sha256 of both wheels: {digests.pop()}")
    return wheel


def publish_and_ask(figures: Figures, home: Path, wheel: Path) -> None:
    """Install for a publisher and for a reader; run the commands of the README."""
    work = home / "work"
    work.mkdir()
    publisher, size, used = installed(home / "publisher", wheel, "publish", work)
    figures.add("a publisher's install, MB", size)
    figures.add("a publisher's install, CPU s", used)
    publisher.run("pip", "check")
    reader, size, used = installed(home / "reader", wheel, "", work)
    figures.add("a reader's install, MB", size)
    figures.add("a reader's install, CPU s", used)
    reader.run("pip", "check")

    write = "import hushtable, pyarrow.csv as c; c.write_csv(hushtable.sample(), 'people.csv')"
    publisher.run("python", "-c", write)
    for words in commands("hushtable"):
        command = words[1]
        if command == "evaluate":  # this and later commands need extras that the README names
            publisher.run("pip", "install", "--quiet", f"{wheel}[eval]")
        if command == "query":
            _, used, _ = reader.run(*words)
            figures.add("hushtable query, first, CPU s", used)
            answer, used, _ = reader.run(*words)
            figures.add("hushtable query, CPU s", used)
            print(f"  {shlex.join(words)}: {' '.join(answer.split())}")
            continue
        _, used, _ = publisher.run(*words)
        name = " ".join(
            words[1:3] if command in {"schema", "plan", "audit", "ledger"} else [command]
        )
        if command == "publish":
            figures.add("hushtable publish quilt, very first, CPU s", used)
            again = ["again" if word == "release" else word for word in words]
            _, used, _ = publisher.run(*again)
            figures.add("hushtable publish quilt, CPU s", used)
            continue
        figures.add(f"hushtable {name}, CPU s", used)
        if words[1:3] == ["schema", "draft"]:  # "then confirm every line it marks"
            schema = work / "schema.yaml"
            schema.write_text(re.sub(r"(?m)^ *confirm: .*\n", "", schema.read_text()))
    (work / "empty").mkdir()
    for block in blocks("python"):
        there = Machine(work / "empty", publisher.programs)
        said, used, _ = there.run("python", "-c", block)
        figures.add("the first release in Python, CPU s", used)
        print(f"  {said.splitlines()[-1]}")
    _, used, _ = reader.run("hushtable", "--help")
    figures.add("hushtable --help, CPU s", used)


def demo_and_docs(figures: Figures, copy: Path) -> None:
    """Run the README's targets in a clone."""
    there = Machine(copy)
    _, used, _ = there.run("make", ".venv/installed")
    figures.add("make demo, its install, CPU s", used)
    said, used, seconds = there.run("make", "demo")
    figures.add("make demo after the install, s", seconds)
    figures.add("make demo after the install, CPU s", used)
    print(f"  {said.splitlines()[-1]}")
    said, used, _ = there.run("make", "docs")
    figures.add("make docs with its install, CPU s", used)
    print(f"  pages: {len(list((copy / 'site').rglob('*.html')))}")


def main() -> None:
    """Run everything, print the figures, and exit with an error if a limit was exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fresh_install", description=__doc__)
    parser.add_argument("--no-docs", action="store_true", help="without demo and documentation")
    given = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} processors")
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        try:
            wheel = build_wheel(figures, home)
            publish_and_ask(figures, home, wheel)
            if not given.no_docs:
                demo_and_docs(figures, home / "second")
        except ReadmeError as failure:
            sys.exit(str(failure))
    if figures.missed:
        sys.exit(f"missed: {', '.join(figures.missed)}")


if __name__ == "__main__":
    main()
