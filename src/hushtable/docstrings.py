"""Help texts of commands, forms and JSON Schemas, read from docstrings."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any, NamedTuple

_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+$|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^\w+\n-+$", re.MULTILINE)
_ENTRY = re.compile(r"^(\w[\w, ]*?)(?: : ([^\n]*))?\n((?:[ ]{4}[^\n]*\n?)+)", re.MULTILINE)


class DocstringEntry(NamedTuple):
    """Description of one parameter."""

    kind: str  # the text after the colon; may be empty
    text: str

    @property
    def first_sentence(self) -> str:
        """The first sentence, without quotation marks of code."""
        said = self.text.replace("`", "")
        sentence = re.match(r".*?[.](?=\s|$)", said)
        return sentence[0] if sentence else said


def entries(doc: str | None) -> dict[str, DocstringEntry]:
    r"""Return the entries of the "Parameters" section of a docstring by name.

    Examples
    --------
    >>> found = entries("Do.\n\nParameters\n----------\nk, l : int\n    How many. Not few.\n")
    >>> found["l"].kind, found["l"].first_sentence
    ('int', 'How many.')
    """
    section = _SECTION.search(cleandoc(doc or "") + "\n")
    return {
        name.strip(): DocstringEntry(kind, " ".join(text.split()))
        for names, kind, text in _ENTRY.findall(section[1] if section else "")
        for name in names.split(",")
    }


def without_parameters(doc: str) -> str:
    """Return a docstring without its "Parameters" section."""
    return _SECTION.sub("", cleandoc(doc) + "\n").strip()


def describe_fields(schema: dict[str, Any], kind: type) -> None:
    """Describe a pydantic model and its fields in its JSON Schema, as its docstrings do."""
    schema["description"] = _HEADING.split(cleandoc(kind.__doc__ or ""))[0].strip()
    for parent in reversed(kind.__mro__):
        for name, entry in entries(parent.__dict__.get("__doc__")).items():
            if name in schema["properties"]:
                schema["properties"][name]["description"] = entry.text
