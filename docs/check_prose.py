"""Prose check: count phrases that make technical English hard to read.

``python docs/check_prose.py [FILE...]`` reads Markdown and HTML templates, and the docstrings,
comments and string literals of Python files. It prints each phrase found with a suggestion, and
fails if there are more per 1,000 words than ``[tool.hushtable-prose] limit`` in pyproject.toml
allows. The limit only goes down: the check says so if it could be lower. A phrase can be right
where it occurs, so the limit is not 0; a low count does not make a text good.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "reproduction", "docs", "benchmarks", "examples", "tests")
SLACK = 0.1  # how far the limit may exceed what is found

OPENINGS = {
    r"(Give|Say|Hold|Tell|Lay|Let)s?\b": "a verb such as Return, Compute, Check, Print",
    r"(What|Who|Whose|Whoever|Where|How|Whether)\b": "a noun phrase or an imperative verb",
}
"""Words that must not open a docstring, each with what to write instead."""

PHRASES = {
    r"\b(told|tells|telling|tell)\b": "report, state, estimate, distinguish",
    r"\bapart\b": "separate, different, distance",
    r"\balike\b": "the same, identical, similar",
    r"\bhang(s|ing)? (on|together)\b": "depend on, be correlated",
    r"\b([Ss]omebody|[Nn]obody|[Ee]verybody|[Ww]hoever)\b": "name the actor",
    r"\b(stands? (in|for|under|beside|at|there)|lies (in|on|at|between)|laid)\b": "is, represents",
    r"\b(is|are|was|were) no\b(?! longer| more)": "is not a, has no",
    r"\bso (many|much) (of|rows|as|values|people)\b": "state the number",
    r"\bby (itself|themselves)\b": "alone, individually",
    r"\b(amiss|afresh|anew|hollow)\b": "wrong, again, uninformative",
    r"\b(is|are|was|were) said\b": "name who says it",
    r"\bbelongs? together\b": "linked, related",
    r"\b(goes? on|came to|comes? (to|about))\b": "continues, becomes, amounts to",
    r"\b(of|from) (which|whom)\b": "start a new sentence",
    r"(?:^|[.:] )What [a-z][^.?]{3,80}\.(?:\s|$)": "name the subject",
    r"\b(purse|coins?|sewing|patchwork|the door)\b": "a term of the field, not a metaphor",
}
"""Phrases, each with what to write instead."""


def texts(path: Path) -> Iterator[tuple[int, bool, str]]:
    """Yield the prose of a file: line, whether it is a docstring, and text."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, False, source
        return
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, id(node) in docstrings, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], False, token.string


def findings(path: Path) -> tuple[int, list[str]]:
    """Return the number of words of a file, and its phrases with line and suggestion."""
    n_words, found = 0, []
    for line, is_docstring, text in texts(path):
        n_words += len(text.split())
        matches = [
            (match, advice)
            for pattern, advice in PHRASES.items()
            for match in re.finditer(pattern, text, re.MULTILINE)
        ]
        if is_docstring:
            openings = (
                (re.match(rf"\s*{pattern}", text), OPENINGS[pattern]) for pattern in OPENINGS
            )
            matches += [(match, advice) for match, advice in openings if match]
        for match, advice in matches:
            at = line + text.count("\n", 0, match.start())
            found.append(f"{path}:{at}: {match.group().strip()!r}; rather: {advice}")
    return n_words, found


def prose_files() -> list[Path]:
    """Return all files with prose of the project."""
    below = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    return [
        path
        for path in [*below, *sorted(ROOT.glob("*.md"))]
        if path.suffix in {".md", ".html", ".jinja", ".py"} and "vendor" not in path.parts
        and path != Path(__file__)
    ]  # fmt: skip


def main() -> int:
    """Print the phrases, and return 1 if there are more than the limit allows."""
    paths = [Path(name) for name in sys.argv[1:]] or prose_files()
    n_words, found = 0, []
    for path in paths:
        n, phrases = findings(path)
        n_words += n
        found += phrases
    rate = 1000 * len(found) / max(n_words, 1)
    if sys.argv[1:]:
        print(*found, sep="\n")
        return 0
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    limit = settings["tool"]["hushtable-prose"]["limit"]
    print(f"{len(found):,} phrases in {n_words:,} words: {rate:.2f} per 1,000 (limit {limit})")
    if rate > limit:
        print(*found, sep="\n")
        print("Rewrite the phrases that your change added; CONTRIBUTING.md says how we write.")
        return 1
    if rate < limit - SLACK:
        print(f"Please lower the limit in pyproject.toml to {rate + SLACK / 2:.2f}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
