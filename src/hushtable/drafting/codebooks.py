"""Reader of codebooks in any supported format."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import ParseError

from hushtable.drafting.columns import coded_words
from hushtable.drafting.names import NAMES, say
from hushtable.errors import HushtableError, InvalidInput, ParameterError
from hushtable.schema import Schema
from hushtable.schema.taxonomy import Taxonomy

# Schema content of one column, from its description in a codebook.
#
# Few codebooks state correctly whether values may be missing. So empty cells and unlisted values
# are recorded as missing, not as the first value of the list.

Content = dict[str, Any]


MISSING = {"missing": "category"}
EMPTY: Mapping[Any, Any] = {}


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())


def listed(
    values: Sequence[Any], *, ordered: bool = False, labels: Mapping[Any, Any] = EMPTY
) -> Content:
    """Return the schema content for a list of values, and possibly labels."""
    content: Content = {"type": "categorical", "values": list(dict.fromkeys(map(str, values)))}
    if named := {str(value): _one_line(label) for value, label in labels.items() if label}:
        content["labels"] = named
    if ordered:
        content["ordered"] = True
    return content | MISSING


def between(low: Any, high: Any, step: Any = None) -> Content | None:
    """Return the schema content for numbers between bounds; None if the bounds are invalid.

    Without a step, integer bounds give integers, and other bounds give a grid with as many decimals
    as the bound that has more.

    Examples
    --------
    >>> between("0", "99")
    {'type': 'integer', 'low': 0, 'high': 99, 'missing': 'category'}
    >>> between("0", "2.5")
    {'type': 'number', 'low': 0.0, 'high': 2.5, 'step': 0.1, 'missing': 'category'}
    """
    try:
        first, last = Decimal(str(low)), Decimal(str(high))
        given = None if step in (None, "") else Decimal(str(step))
    except InvalidOperation:
        return None
    # int() would compute 1e999999999 in full.
    if not all(d.is_finite() and abs(d.adjusted()) < 309 for d in (first, last)) or first > last:
        return None
    if first == int(first) and last == int(last) and given in (None, Decimal(1)):
        return {"type": "integer", "low": int(first), "high": int(last), **MISSING}
    if given is None:
        digits = max(-int(d.normalize().as_tuple().exponent) for d in (first, last))
        given = Decimal(1).scaleb(-max(digits, 1))
    return {
        "type": "number", "low": float(first), "high": float(last), "step": float(given), **MISSING
    }  # fmt: skip


# DDI Codebook (2.x), the XML format of data archives.

_WHOLE = re.compile(r"-?[0-9]{1,18}")


def read_ddi(file: Path) -> dict[str, Content]:
    """Return the schema content of each variable that has categories or a range."""
    text = file.read_text(encoding="utf-8-sig")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        # Entities can expand to gigabytes or include other files.
        raise InvalidInput(f"{file.name}: codebooks with a DOCTYPE are not supported; remove it.")
    root = ElementTree.fromstring(text)  # noqa: S314 - without entities there is nothing to expand
    found = {}
    for variable in root.iterfind(".//{*}var"):
        name, content = variable.get("name"), _variable(variable)
        if name:
            found[name] = _labeled(content, _ddi_label(variable))
    return found


def _labeled(content: Content | None, label: Any) -> Content:
    """Add the label of a column; without a domain, the label is the whole content."""
    text = _one_line(label or "")
    return {**(content or {}), **({"label": text} if text else {})}


def _variable(variable: ElementTree.Element) -> Content | None:
    values, codes = dict[str, str](), dict[int, str]()
    for category in variable.iterfind("{*}catgry"):
        value = "".join(category.findall("{*}catValu")[0].itertext()).strip()
        label = _ddi_label(category)
        if category.get("missing", "").upper() not in {"Y", "YES", "TRUE"}:
            values[value] = label
        elif _WHOLE.fullmatch(value):
            codes[int(value)] = label or f"code {value}"
    if values:
        return listed([*values], ordered=variable.get("nature") == "ordinal", labels=values)
    for bounds in variable.iterfind("{*}valrng/{*}range"):
        low, high = bounds.get("min"), bounds.get("max")
        if low is not None and high is not None:
            return _with_codes(between(low, high), codes)
    return None


def _ddi_label(element: ElementTree.Element) -> str:
    return _one_line("".join(t for part in element.iterfind("{*}labl") for t in part.itertext()))


def _with_codes(content: Content | None, codes: dict[int, str]) -> Content | None:
    """Add codes outside the range as special values."""
    if content is None:
        return None
    apart = {n: name for n, name in codes.items() if not content["low"] <= n <= content["high"]}
    return content | ({"special": apart} if apart else {})


# Table descriptions in JSON: Frictionless (Data Package, Table Schema) and CSVW.


def read_descriptor(described: Mapping[str, Any]) -> dict[str, Content]:
    """Return the schema content of each field that is boolean or has values or a range."""
    found = {}
    for one in _fields(described):
        if one["name"]:
            found[one["name"]] = _labeled(_field(one), one["label"])
    return found


def _fields(described: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield name, type and constraints of each field, from either format."""
    for resource in described.get("resources", []):
        yield from _fields(resource)
    for table in described.get("tables", []):
        yield from _fields(table)
    if isinstance(described.get("schema"), Mapping):
        yield from _fields(described["schema"])
    for field in described.get("fields", []):
        yield {
            "name": field.get("name", ""), "type": field.get("type", ""),
            "label": field.get("title") or field.get("description"),
            "constraints": field.get("constraints") or {},
            "categories": field.get("categories") or [],
        }  # fmt: skip
    for column in (described.get("tableSchema") or {}).get("columns", []):
        kind = column.get("datatype", "")
        kind = kind if isinstance(kind, Mapping) else {"base": kind}
        titles = column.get("titles", "")
        title = titles[0] if isinstance(titles, list) and titles else titles
        low = kind.get("minimum", kind.get("minInclusive"))
        high = kind.get("maximum", kind.get("maxInclusive"))
        pattern = str(kind.get("format", ""))
        plain = "|" in pattern and not any(sign in pattern for sign in "[]()*+?.\\^$")
        yield {
            "name": column.get("name") or title, "type": kind.get("base", ""),
            "label": column.get("dc:description") or (title if column.get("name") else ""),
            "constraints": {"minimum": low, "maximum": high},
            "categories": pattern.split("|") if plain else [],
        }  # fmt: skip


def _field(field: Mapping[str, Any]) -> Content | None:
    limits = field["constraints"]
    items = [item for item in field["categories"] if isinstance(item, Mapping)]
    values = limits.get("enum") or [item["value"] for item in items] or field["categories"]
    if values:
        return listed(values, labels={item["value"]: item.get("label") for item in items})
    if field["type"] == "boolean":
        return {"type": "boolean", **MISSING}
    if limits.get("minimum") is None or limits.get("maximum") is None:
        return None
    step = 1 if field["type"] == "integer" else None
    return between(limits["minimum"], limits["maximum"], step)


# Data dictionaries in JSON: columns by name, with a description and values.

_DESCRIPTIONS = ("description", "label", "title", "question")


def read_json_dictionary(described: Mapping[str, Any]) -> dict[str, Content]:
    """Return the content of each column: ``{"AGE": {"description": ..., "values": {...}}}``.

    `values` is a list, or an object with labels by value. With the keys ``min`` and ``max``, other
    values are special values, except a 0 just below the range, which belongs to it.
    """
    found = {}
    for name, about in described.items():
        if isinstance(about, Mapping):
            label = next((about[key] for key in _DESCRIPTIONS if about.get(key)), "")
            found[name] = _labeled(_json_column(about.get("values")), label)
    return found


def _json_column(values: Any) -> Content | None:
    if isinstance(values, list) and values:
        return listed(values)
    if not isinstance(values, Mapping):
        return None
    codes = {key: label for key, label in values.items() if key not in ("min", "max")}
    if not {"min", "max"} <= values.keys():
        return listed([*codes], labels=codes) if codes else None
    low, labels = values["min"], dict[str, str]()
    if low == 1 and "0" in codes:
        low, labels["0"] = 0, _one_line(codes.pop("0"))
    content = between(low, values["max"])
    return None if content is None else _with_words(content, codes, labels)


def _with_words(content: Content, codes: Mapping[str, Any], labels: dict[str, str]) -> Content:
    """Add codes and words next to a range as special values."""
    words = [key for key in codes if not _WHOLE.fullmatch(key)]
    special = {int(key): _one_line(codes[key]) for key in codes if key not in words}
    lowest = min([content["low"], *special])
    special = dict(sorted((special | coded_words(words, lowest)).items()))
    labels |= {word: _one_line(codes[word]) for word in words if codes[word]}
    more = {"special": special} if special else {}
    return {**content, **more, **({"labels": labels} if labels else {})}


# Data dictionaries in CSV: one line per column, as agencies publish them.

_HEADINGS: Mapping[str, Sequence[str]] = NAMES["headings"]
_RANGE = re.compile(r"\s*(-?[0-9.]+)\s*(?:-|to|\.\.|–)\s*(-?[0-9.]+)\s*", re.IGNORECASE)


def is_dictionary(file: Path) -> bool:
    """Return whether the first line of a CSV file has the headings of a data dictionary."""
    places = _places(_lines(file)[0])
    return "name" in places and len(places) > 1


def read_dictionary(file: Path) -> dict[str, Content]:
    """Return the schema content of each column with values, a range or the role identifier."""
    first, *lines = _lines(file)
    places, found = _places(first), {}
    for line in lines:
        said = {key: line[place].strip() for key, place in places.items() if place < len(line)}
        if said.get("name"):
            found[said["name"]] = _labeled(_content(said), said.get("label"))
    return found


def _lines(file: Path) -> list[list[str]]:
    text = file.read_text(encoding="utf-8-sig")
    delimiter = max((",", ";", "\t"), key=text.partition("\n")[0].count)
    return [line for line in csv.reader(text.splitlines(), delimiter=delimiter) if line] or [[]]


def _places(first: Sequence[str]) -> dict[str, int]:
    headings = [heading.strip().lower().replace("_", " ") for heading in first]
    return {
        key: headings.index(known)
        for key, names in _HEADINGS.items()
        for known in names[::-1]
        if known in headings
    }


def _content(said: Mapping[str, str]) -> Content | None:
    if said.get("role", "").lower() == "identifier":
        return {"role": "identifier"}
    content = None
    if said.get("low") and said.get("high"):
        content = between(said["low"], said["high"], said.get("step"))
    elif spread := _RANGE.fullmatch(said.get("range", "")):
        content = between(spread[1], spread[2], said.get("step"))
    elif values := said.get("values"):
        if spread := _RANGE.fullmatch(values):
            content = between(spread[1], spread[2], said.get("step"))
        else:
            labels = _values(values)
            content = listed([*labels], labels=labels)
    if content is not None and said.get("role", "").lower() == "target":
        content["role"] = "target"
    return content


def _values(text: str) -> dict[str, str]:
    """Split a list of values, and return their labels, empty without any.

    Examples
    --------
    >>> _values("1=male; 2=female"), _values("1, male | 2, female"), _values("F|M")
    ({'1': 'male', '2': 'female'}, {'1': 'male', '2': 'female'}, {'F': '', 'M': ''})
    """
    sign = next((sign for sign in ("|", ";", "\n", ",") if sign in text), ",")
    parts = [part.strip() for part in text.split(sign) if part.strip()]
    for mark in "=:,":
        pairs = [re.fullmatch(rf"([^{mark}\s]+)\s*{mark}\s*(\S.*)", part) for part in parts]
        if all(pairs):
            return {pair[1]: pair[2] for pair in pairs if pair}
    return dict.fromkeys(parts, "")


@dataclass(frozen=True)
class Codebook:
    """Public descriptions of columns, by column name."""

    columns: Mapping[str, Content]  # schema content of each column
    sources: Mapping[str, str]  # name of the file that describes each column
    labels: Mapping[str, str]  # also of columns without a domain


def read_codebook(*given: str | Path) -> Codebook:
    """Read public descriptions of columns.

    Parameters
    ----------
    *given : str or path
        DDI codebook (``.xml``), data dictionary (``.csv`` or ``.json``, REDCap too), Frictionless
        or CSVW description (``.json``), schema (``.yaml``), release folder, or ARX hierarchy of
        one column (``COLUMN=FILE.csv``).
    """
    columns: dict[str, Content] = {}
    sources: dict[str, str] = {}
    problems: list[str] = []
    for one in given:
        try:
            found = _read(str(one))
        except HushtableError as error:
            problems += error.problems
            continue
        twice = sorted(columns.keys() & found.keys())
        problems += [
            f"column {name!r} is in {sources[name]} and in {one}; describe it in one file."
            for name in twice
        ]
        columns |= found
        sources |= dict.fromkeys(found, Path(one).name)
    ParameterError.raise_if_any(problems)
    labels = {name: content["label"] for name, content in columns.items() if "label" in content}
    described = {name: column for name, column in columns.items() if column.keys() - {"label"}}
    return Codebook(described, sources, labels)


def _read(given: str) -> dict[str, Content]:
    column, sign, file = given.partition("=")
    if sign and not Path(given).exists():
        taxonomy = Taxonomy.load(Path(file))
        return {
            column: {
                "type": "categorical", "values": list(taxonomy.values), "taxonomy": taxonomy,
                **MISSING,
            }
        }  # fmt: skip
    path = Path(given)
    try:
        if path.is_dir():
            statement = json.loads((path / "statement.json").read_text(encoding="utf-8"))
            return _of_schema(Schema.from_dict(statement["schema"]))
        ending = path.suffix.lower()
        if ending in (".yaml", ".yml"):
            return _of_schema(Schema.load(path))
        if ending == ".xml":
            found = read_ddi(path)
        elif ending == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
            found = read_descriptor(content) or read_json_dictionary(content)
        elif ending in (".csv", ".tsv") and is_dictionary(path):
            found = read_dictionary(path)
        else:
            raise InvalidInput(say("no codebook", given=given))
    except OSError as error:
        raise InvalidInput(f"cannot read {given!r}: {error.strerror or 'no such file'}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ParseError) as error:
        if isinstance(error, HushtableError):
            raise
        raise InvalidInput(f"{given!r} cannot be read as a codebook.") from None
    if not any(content.keys() - {"label"} for content in found.values()):
        raise InvalidInput(f"{given!r} has no values or range of any column.")
    return found


def _of_schema(schema: Schema) -> dict[str, Content]:
    content = schema.to_dict()["columns"]
    return {name: column for name, column in content.items() if not column.pop("confirm", None)}
