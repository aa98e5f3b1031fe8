"""Reader of codebooks in any supported format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import ParseError

from hushtable.drafting.ddi import read_ddi
from hushtable.drafting.descriptors import read_descriptor
from hushtable.drafting.dictionary import is_dictionary, read_dictionary
from hushtable.drafting.domains import MISSING, Content
from hushtable.errors import HushtableError, InvalidInput, ParameterError
from hushtable.schema import Schema
from hushtable.schema.taxonomy import Taxonomy


@dataclass(frozen=True)
class Codebook:
    """Public descriptions of columns, by column name."""

    columns: Mapping[str, Content]  # schema content
    sources: Mapping[str, str]  # file name


def read_codebook(*given: str | Path) -> Codebook:
    """Read public descriptions of columns.

    Parameters
    ----------
    *given : str or path
        DDI codebook (``.xml``), data dictionary (``.csv``), Frictionless or CSVW description
        (``.json``), schema (``.yaml``), release folder, or ARX hierarchy of one column
        (``COLUMN=FILE.csv``).
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
    if problems:
        raise ParameterError(problems)
    return Codebook(columns, sources)


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
            found = read_descriptor(json.loads(path.read_text(encoding="utf-8")))
        elif ending in (".csv", ".tsv") and is_dictionary(path):
            found = read_dictionary(path)
        else:
            raise InvalidInput(
                f"{given!r} is not a codebook: give a DDI .xml, a .csv with a column 'name', a "
                "Frictionless or CSVW .json, a schema .yaml, a release, or COLUMN=HIERARCHY.csv."
            )
    except OSError as error:
        raise InvalidInput(f"cannot read {given!r}: {error.strerror or 'no such file'}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ParseError) as error:
        if isinstance(error, HushtableError):
            raise
        raise InvalidInput(f"{given!r} cannot be read as a codebook.") from None
    if not found:
        raise InvalidInput(f"{given!r} has no values or range of any column.")
    return found


def _of_schema(schema: Schema) -> dict[str, Content]:
    content = schema.to_dict()["columns"]
    return {name: column for name, column in content.items() if not column.pop("confirm", None)}
