"""Build the documentation site: ``make docs``, or ``python docs/site.py [FOLDER]``.

The pages are the documents of the repository at their own paths, so that relative links work, and a
reference generated from docstrings and from the command line. Linked files are copied.
Zensical builds the site, without fonts or scripts from other sites. A broken link is an error.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from typer.main import get_command

import hushtable
from hushtable import testing
from hushtable.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
MAX_WIDTH = 88
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)]*)?\)")


def pages() -> list[Path]:
    """Return the documents: at the root, in docs, and the proofs beside the code."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted([*found, *(ROOT / "src").rglob("*.md")])


def stage(folder: Path) -> None:
    """Copy the documents, and the files they link to, to the build folder."""
    for page in pages():
        place = folder / page.relative_to(ROOT)
        place = place.with_name("index.md") if page == ROOT / "README.md" else place
        place.parent.mkdir(parents=True, exist_ok=True)
        text = LINK.sub(lambda link, page=page: _led(link, page, folder), page.read_text())
        place.write_text(text)
    shutil.copy(ROOT / "docs" / "iframe-worker.js", folder / "docs")
    reference = folder / "reference"
    reference.mkdir()
    (reference / "python.md").write_text("\n".join(python_reference()))
    (reference / "command-line.md").write_text("\n".join(command_reference()))


def _led(link: re.Match[str], page: Path, folder: Path) -> str:
    """Return a link adapted to the site; links to folders of the repository become plain text."""
    text, target, anchor = link[1], link[2], link[3] or ""
    if urlsplit(target).scheme:
        return link[0]
    leads_to = (page.parent / target).resolve()
    if leads_to.is_dir():
        return text
    if leads_to == ROOT / "README.md":
        return f"[{text}]({target.removesuffix('README.md')}index.md{anchor})"
    if leads_to.suffix != ".md" and leads_to.is_file():
        copy = folder / leads_to.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(leads_to, copy)
    return link[0]


# --- the reference --------------------------------------------------------------------------------


def python_reference() -> Iterator[str]:
    """Yield the reference of `hushtable` and `hushtable.testing`, from their docstrings."""
    yield "# Python\n\nEverything below is in `hushtable`; examples run as tests.\n"
    yield from _offered(hushtable)
    yield "# hushtable.testing\n\nFor authors of methods.\n"
    yield from _offered(testing)


def _offered(module: ModuleType) -> Iterator[str]:
    for name in module.__all__:
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        yield f"## {name}\n"
        yield from _described(thing)
        if inspect.isclass(thing):
            for method, part in list(vars(thing).items()):  # getattr may add entries
                plain = inspect.unwrap(getattr(part, "__func__", part))
                if not method.startswith("_") and inspect.isfunction(plain):
                    yield f"### {name}.{method}\n"
                    yield from _described(plain)


def _described(thing: object) -> Iterator[str]:
    called = getattr(thing, "__name__", "")
    with contextlib.suppress(ValueError):  # exceptions have no signature
        called += str(inspect.signature(thing))  # type: ignore[arg-type]
    if len(called) > MAX_WIDTH:  # one parameter per line
        called = re.sub(r", (?=[*\w]+(?::|=|,|\)))", ",\n    ", called).replace("(", "(\n    ", 1)
    yield f"```text\n{called}\n```\n"
    yield from _from_numpydoc(inspect.getdoc(thing) or "")


def _from_numpydoc(text: str) -> Iterator[str]:
    """Convert a docstring to Markdown: sections become bold words, parameters a list."""
    section = ""
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        line = lines[position]
        if position + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[position + 1]):
            section = line
            yield f"\n**{section}**\n"
            position += 2
            continue
        if section in ("Parameters", "Returns", "Yields", "Attributes") and re.match(r"\S", line):
            name, _, kind = line.partition(" : ")
            yield f"- `{name}`" + (f" ({kind})" if kind else "") + ":"
        elif line.startswith(">>>"):
            example = []
            while position < len(lines) and lines[position].strip():
                example.append(lines[position])
                position += 1
            yield "```pycon\n" + "\n".join(example) + "\n```\n"
            continue
        else:
            yield line.replace("``", "`")
        position += 1
    yield ""


def command_reference() -> Iterator[str]:
    """Yield the reference of all commands, from their help."""
    yield "# The command line\n"
    yield from _commands(get_command(app), "hushtable", 2)


def _commands(command: Any, words: str, depth: int) -> Iterator[str]:
    if depth > 2:
        yield f"{'#' * min(depth, 4)} {words}\n"
    yield f"{command.help or ''}\n"
    listed = command.list_commands(None) if hasattr(command, "list_commands") else []
    if not listed:
        yield "| argument or option | description |\n|---|---|"
        for parameter in command.params:
            if getattr(parameter, "hidden", False):
                continue
            names = " ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
            told = str(getattr(parameter, "help", "") or "").replace("|", "\\|")
            yield f"| {names} | {told.replace(chr(10), ' ')} |"
        yield ""
    for name in listed:
        inner = command.get_command(None, name)
        if inner is not None and not inner.hidden:
            yield from _commands(inner, f"{words} {name}", depth + 1)


# --- the site -------------------------------------------------------------------------------------


class _Links(HTMLParser):
    """Anchors and links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the anchors and links of one tag."""
        found = dict(attrs)
        self.names.update(value for key in ("id", "name") if (value := found.get(key)))
        wanted = {"a": "href", "link": "href", "img": "src", "script": "src"}.get(tag)
        if wanted and (link := found.get(wanted)):
            self.links.append((tag, link))


def dead_links(site: Path) -> list[str]:
    """Return the broken links of a site, and resources that its pages load from other sites."""
    read: dict[Path, _Links] = {}
    for page in sorted(site.rglob("*.html")):
        read[page] = _Links()
        read[page].feed(page.read_text())
    dead = []
    for page, found in read.items():
        if page.name == "404.html":
            continue
        for tag, link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if tag != "a":
                    dead.append(f"{page.relative_to(site)}: {link} is from elsewhere")
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            names = read[target].names if target in read else None
            lacks = names is not None and parts.fragment and unquote(parts.fragment) not in names
            if not target.exists() or lacks:
                dead.append(f"{page.relative_to(site)}: {link}")
    return dead


def build(site: Path) -> None:
    """Build the site into a folder, replacing its content."""
    shutil.rmtree(site, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        stage(work / "pages")
        settings = (ROOT / "docs" / "site.toml").read_text()
        (work / "zensical.toml").write_text(settings)
        zensical = Path(sys.executable).with_name("zensical")
        done = subprocess.run(  # noqa: S603 - a program of our own environment
            [zensical, "build", "--clean"], cwd=work, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        shutil.copytree(work / "site", site)


def main() -> None:
    """Build the site; exit with an error if it has broken links."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site")
    build(site)
    dead = dead_links(site)
    if dead:
        sys.exit("These lead nowhere:\n" + "\n".join(dead))
    sys.stdout.write(f"The site is in {site}: open {site / 'index.html'}\n")


if __name__ == "__main__":
    main()
