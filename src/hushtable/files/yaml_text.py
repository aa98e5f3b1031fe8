"""YAML: strict reading of untrusted text as plain data, and writing."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import yaml

MAX_NODES = 2_000_000  # after expanding anchors: a few lines can expand to billions of nodes
MAX_NESTING = 100
MAX_LENGTH = 2**24


def read_yaml(text: str) -> Any:
    """Parse YAML to plain data; raise `ValueError` with a sentence if it is invalid.

    Examples
    --------
    >>> read_yaml("{a: [1, two]}")
    {'a': [1, 'two']}
    >>> read_yaml("!!python/object/apply:os.getcwd []")
    Traceback (most recent call last):
    ...
    ValueError: could not determine a constructor for the tag 'tag:yaml.org,2002:python/object/...
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"it has more than {MAX_LENGTH:,} characters.")
    try:
        content = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_NESTING} levels deep.") from None
    except yaml.YAMLError as error:
        raise ValueError(_said(error)) from None
    except (ValueError, OverflowError, TypeError, KeyError, AttributeError, IndexError):
        # PyYAML raises these for malformed numbers, dates and tags.
        raise ValueError("a value cannot be read; put it in quotes.") from None
    _check_size(content)
    return content


def read_packaged(package: str, name: str) -> Any:
    """Parse a YAML file that belongs to a package."""
    return read_yaml((files(package) / name).read_text(encoding="utf-8"))


class OneLine(list[Any]):
    """List that is written on one line."""


def write_yaml(content: Any) -> str:
    """Return plain data as YAML.

    Examples
    --------
    >>> print(write_yaml({"low": 0, "confirm": OneLine(["low"])}), end="")
    low: 0
    confirm: [low]

    Codes with leading zeros are always quoted: some parsers read 0028 as 28.

    >>> print(write_yaml({"zip": ["0017", "0028"]}), end="")
    zip:
    - '0017'
    - '0028'
    """
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def _said(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
    mark = getattr(error, "problem_mark", None)
    return f"{problem}{f' (line {mark.line + 1}, column {mark.column + 1})' if mark else ''}."


def _check_size(content: Any) -> None:
    n_nodes, waiting = 0, [(content, 1)]
    while waiting:
        node, level = waiting.pop()
        n_nodes += 1
        if level > MAX_NESTING:
            raise ValueError(f"it is nested more than {MAX_NESTING} levels deep.")
        if n_nodes + len(waiting) > MAX_NODES:
            raise ValueError(f"it has more than {MAX_NODES:,} nodes after expanding anchors.")
        if isinstance(node, dict):
            waiting.extend((below, level + 1) for below in node.values())
        elif isinstance(node, list):
            waiting.extend((below, level + 1) for below in node)


class _StrictLoader(yaml.SafeLoader):
    """Safe loader that refuses duplicate keys instead of keeping the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        seen: set[Any] = set()
        twice = []
        for key in keys:
            try:
                twice += [str(key)] if key in seen else []
                seen.add(key)
            except TypeError:
                pass  # an unhashable key is refused below
        if twice:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"{', '.join(map(repr, sorted(set(twice))))} is given more than once",
                node.start_mark,
            )
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    """Safe dumper that supports `OneLine` and quotes codes that other parsers read as numbers."""


_Dumper.add_implicit_resolver("", re.compile(r"0[0-9]+$"), ["0"])

_Dumper.add_representer(
    OneLine,
    lambda dumper, items: dumper.represent_sequence(
        "tag:yaml.org,2002:seq", items, flow_style=True
    ),
)
