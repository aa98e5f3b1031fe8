"""YAML: what somebody else may have written is read as plain data, and plain data is written."""

from __future__ import annotations

import re
from typing import Any

import yaml

MAX_NODES = 2_000_000  # after anchors are written out: a few lines can stand for billions
MAX_NESTING = 100


def read_yaml(text: str) -> Any:
    """Read plain data, or raise `ValueError` with a sentence that says why not.

    Examples
    --------
    >>> read_yaml("{a: [1, two]}")
    {'a': [1, 'two']}
    >>> read_yaml("!!python/object/apply:os.getcwd []")
    Traceback (most recent call last):
    ...
    ValueError: could not determine a constructor for the tag 'tag:yaml.org,2002:python/object/...
    """
    try:
        content = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_NESTING} levels deep.") from None
    except yaml.YAMLError as error:
        raise ValueError(_said(error)) from None
    except (ValueError, OverflowError, TypeError, KeyError, AttributeError, IndexError):
        # What the reader makes of odd numbers, dates and tags.
        raise ValueError("a value cannot be read; put it in quotes.") from None
    _check_size(content)
    return content


class OneLine(list[Any]):
    """A list that is written on one line."""


def write_yaml(content: Any) -> str:
    """Write plain data.

    Examples
    --------
    >>> print(write_yaml({"low": 0, "confirm": OneLine(["low"])}), end="")
    low: 0
    confirm: [low]

    Codes with leading zeros are in quotes, all of them: to some readers 0028 is 28.

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
            raise ValueError(f"it has more than {MAX_NODES:,} parts once anchors are written out.")
        if isinstance(node, dict):
            waiting.extend((below, level + 1) for below in node.values())
        elif isinstance(node, list):
            waiting.extend((below, level + 1) for below in node)


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys instead of keeping the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        seen: set[Any] = set()
        twice = []
        for key in keys:
            try:
                twice += [str(key)] if key in seen else []
                seen.add(key)
            except TypeError:
                pass  # a key that is no plain value is refused below
        if twice:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"{', '.join(map(repr, sorted(set(twice))))} is given more than once",
                node.start_mark,
            )
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    """A safe dumper that knows `OneLine`, and quotes codes that others read as numbers."""


_Dumper.add_implicit_resolver("", re.compile(r"0[0-9]+$"), ["0"])

_Dumper.add_representer(
    OneLine,
    lambda dumper, items: dumper.represent_sequence(
        "tag:yaml.org,2002:seq", items, flow_style=True
    ),
)
