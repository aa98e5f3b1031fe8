"""Reading of schema files: taxonomies in separate files, and validation errors as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hushtable.errors import SchemaError, TaxonomyError
from hushtable.schema.taxonomy import Taxonomy


def schema_text(path: Path) -> str:
    """Return the text of a schema file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SchemaError(f"cannot read schema {str(path)!r}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SchemaError(f"schema {str(path)!r} is not UTF-8 text.") from error


def schema_content(text: str) -> Any:
    """Parse the YAML of a schema."""
    from hushtable.files.yaml_text import read_yaml  # noqa: PLC0415 - slow to import

    try:
        return read_yaml(text)
    except ValueError as error:
        raise SchemaError(f"the schema is not valid YAML: {error}") from None


def with_taxonomy_files(content: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    """Replace ``taxonomy: file.csv`` by the hierarchy in that file."""
    columns = content.get("columns")
    if not isinstance(columns, dict):
        return content
    problems, filled = [], {}
    for name, column in columns.items():
        filled[name] = column
        reference = column.get("taxonomy") if isinstance(column, dict) else None
        if not isinstance(reference, str):
            continue
        # Only files below the schema's folder: a foreign schema must not read arbitrary files.
        inside = (folder / reference).resolve() if folder is not None else None
        if inside is None or not inside.is_relative_to(folder.resolve()):  # type: ignore[union-attr]
            problems.append(
                f"column {name!r}: taxonomy {reference!r} must be a file in the "
                "folder of the schema or below it."
            )
            continue
        try:
            taxonomy = Taxonomy.load(inside)
        except TaxonomyError as error:
            problems += [f"column {name!r}: {problem}" for problem in error.problems]
            continue
        filled[name] = {**column, "taxonomy": taxonomy}
        if column.get("type") == "categorical" and "values" not in column:
            filled[name]["values"] = taxonomy.values
    if problems:
        raise SchemaError(problems)
    return {**content, "columns": filled}


def with_missing_stated(content: dict[str, Any]) -> dict[str, Any]:
    """Add ``missing: category`` to columns that set neither `missing` nor `other`.

    An empty cell is then never recorded as a value because a line was forgotten. The category
    exists whether or not cells are empty, so it reveals nothing about the table.
    """
    columns = content.get("columns")
    if not isinstance(columns, dict):
        return content
    filled = {
        name: {**column, "missing": "category"}
        if isinstance(column, dict)
        and "type" in column
        and column.get("role") != "identifier"
        and not {"missing", "other"} & set(column)
        else column
        for name, column in columns.items()
    }
    return {**content, "columns": filled}


def sentences(error: ValidationError) -> list[str]:
    """Return each validation error as a sentence that names the column."""
    said = []
    for problem in error.errors():
        place = [str(part) for part in problem["loc"]]
        if problem["type"] == "default_factory_not_called":
            continue  # this default depends on a field that is reported separately
        if problem["type"] in {"too_short", "string_too_short"}:
            if problem["input"]:
                continue  # each invalid item is reported separately
            said.append(f"{_where(place)}{place[-1]} is empty; fill it in.")
            continue
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "missing":
            message = f"{place[-1]} is missing"
            place = place[:-1]
        elif problem["type"] == "extra_forbidden":
            message = f"{place[-1]!r} is not a known key; remove it or correct the spelling"
            place = place[:-1]
        elif place and problem["type"] not in {"value_error", "column_type"}:
            message = f"{place[-1]}: {message[0].lower()}{message[1:]}"
        said.append(f"{_where(place)}{message.rstrip('.')}.")
    return said


def _where(place: Sequence[str]) -> str:
    inside_column = len(place) > 1 and place[0] == "columns"
    return f"column {place[1]!r}: " if inside_column else "schema: "
