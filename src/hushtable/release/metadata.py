"""Metadata of a release for archives and data portals: Croissant, Data Package, DDI and DCAT.

All of it follows from the statement and from the types of the published columns. The formats are
templates in ``metadata.yaml``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq

from hushtable.errors import ReleaseError
from hushtable.files.writing import replace_whole, write_failures_as
from hushtable.files.yaml_text import read_packaged
from hushtable.release.release import Release
from hushtable.schema import Column
from hushtable.schema.numeric import GridColumn

FILES = ("croissant.json", "datapackage.json", "dcat.jsonld", "ddi.xml")


def write_metadata(release: Release, folder: Path, **about: str) -> None:
    """Write the metadata of a release to a folder; see `metadata`."""
    found = metadata(release, **about)
    with write_failures_as(ReleaseError, f"cannot write to {str(folder)!r}"):
        folder.mkdir(exist_ok=True)
        for name, text in found.items():
            replace_whole(folder / name, text)


def metadata(
    release: Release, *, publisher: str = "", license: str = "", url: str = ""
) -> dict[str, str]:
    """Return the metadata as texts, by file name; paths in them are relative to the release.

    Parameters
    ----------
    release : Release
        The release.
    publisher : str
        Name of the publishing organization.
    license : str
        Address of the license.
    url : str
        Address of the page on which the release is offered.
    """
    templates = read_packaged("hushtable.release", "metadata.yaml")
    facts = _facts(release, templates) | {"publisher": publisher, "license": license, "url": url}
    facts["description"] = templates["description"].format_map(facts)
    facts["address"] = url or facts["slug"]
    for file in facts["files"]:
        file["file_address"] = url or file["path"]
    found = {name: _fill(templates[name], facts) for name in FILES}
    book = _element("codeBook", found.pop("ddi.xml"))
    ET.indent(book)
    texts = {n: json.dumps(one, indent=2, ensure_ascii=False) for n, one in found.items()}
    texts["ddi.xml"] = '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(book, "unicode")
    return {name: f"{text}\n" for name, text in texts.items()}


def _fill(template: Any, facts: Mapping[str, Any]) -> Any:
    """Fill a template with facts, as ``metadata.yaml`` describes."""
    if isinstance(template, str):
        whole = re.fullmatch(r"\{(\w+)\}", template)
        return facts[whole[1]] if whole else template.format_map(facts)
    if isinstance(template, list):
        filled = [_fill(part, facts) for part in template]
        return [one for part in filled for one in (part if isinstance(part, list) else [part])]
    if not isinstance(template, dict):
        return template
    if "for" in template:
        return [_fill(template["each"], {**facts, **one}) for one in facts[template["for"]]]
    if "if" in template:
        return _fill(template["then"], facts) if facts[template["if"]] else None
    found = {name: _fill(part, facts) for name, part in template.items()}
    return {name: part for name, part in found.items() if part not in (None, "", [], {})}


def _element(tag: str, content: Any) -> ET.Element:
    """Return an XML element from filled parts, without characters that XML cannot contain."""
    made = ET.Element(tag)
    for name, part in content.items() if isinstance(content, dict) else [("#", content)]:
        text = re.sub(
            r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", str(part)
        )
        if name == "#":
            made.text = text
        elif name.startswith("@"):
            made.set(name[1:], text)
        else:
            made.extend(_element(name, one) for one in (part if isinstance(part, list) else [part]))
    return made


def _facts(release: Release, templates: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that the templates refer to."""
    statement, columns = release.statement, release.schema.attributes
    promises = [promise.explain() for promise in statement.guarantees]
    plain = statement.model_dump(mode="json", by_alias=True)
    kept = ("guarantee", "guarantees", "unprotected", "method", "paper", "parameters", "ledger")
    title = str(statement.public_schema.get("name", ""))
    tables: list[dict[str, Any]] = []
    files: list[dict[str, Any]] = []
    for number, (name, table) in enumerate(statement.tables.items(), 1):
        paths = list(table.digests)
        sizes = [(release.folder / path).stat().st_size for path in paths]
        files += [
            {"path": path, "digest": digest, "bytes": size, "bytes_text": str(size)}
            for (path, digest), size in zip(table.digests.items(), sizes, strict=True)
        ]
        one = not table.parts  # columns of tables in several files are not described
        kinds = pq.read_schema(release.folder / table.file) if one else ()
        fields = [
            _field(field.name, columns.get(field.name), table=name)
            | _types(field.type, templates["types"])
            for field in kinds
        ]
        for field in fields:  # other types have no entry that a list could refer to
            if field["frictionless"] != "string":
                field |= {"listed": "", "categories": []}
        tables.append({
            "table": name, "table_slug": _slug(name), "file_id": f"F{number}", "file": table.file,
            "path": paths[0] if paths else "", "paths": paths[0] if len(paths) == 1 else paths,
            "one_file": one, "digest": table.sha256, "bytes": sum(sizes), "rows": table.rows,
            "fields": fields, "n_fields": len(fields),
        })  # fmt: skip
    variables = [table | field for table in tables for field in table["fields"]]
    described = [_field(name, column) for name, column in columns.items()]
    return {
        "title": title or "release",
        "slug": _slug(title),
        "created": statement.created,
        "method": f"{statement.method} ({statement.paper.removesuffix('.')})",
        "promises": promises,
        "promises_in_words": " ".join(promises),
        "limits": [*statement.unprotected, *statement.estimator.get("notes", [])],
        "unprotected": " ".join(statement.unprotected),
        "privacy": {name: plain[name] for name in kept} | {"in_words": promises},
        "unit": templates["units"][release.schema.unit.kind],
        "columns": described,
        "files": files,
        "tables": tables,
        "described_tables": [table for table in tables if table["fields"]],
        "lists": [column for column in described if column["listed"]],
        "variables": [one | {"variable_id": f"V{n}"} for n, one in enumerate(variables, 1)],
    }


def _field(name: str, column: Column | None, *, table: str = "") -> dict[str, Any]:
    """Return the facts of a published column; a helper column of the release has no schema."""
    found: dict[str, Any] = {
        "name": name, "id": f"{table}/{_id(name)}", "label": "", "labeled": f"{name} of {table}",
        "listed": "", "entries": [], "categories": [], "specials": [], "range": None,
    }  # fmt: skip
    if column is None:
        return found
    list_id = f"{_id(name)}_values"
    keys = {str(key): special for key, special in getattr(column, "special_codes", {}).items()}
    if isinstance(column, GridColumn):
        found["range"] = {"@min": column.low, "@max": column.high}
    else:
        keys = {value: value for value in getattr(column, "values", ())} | keys
    entries = [
        {"value": key, "label": column.labels.get(value, value)} for key, value in keys.items()
    ]
    listed = list_id if column.labels and not found["range"] else ""
    return found | {
        "label": column.label,
        "labeled": column.label or name,
        "entries": entries,
        "categories": entries if listed else [],
        "specials": entries if found["range"] else [],
        "listed": listed,
        "list": list_id,
        "rows_of_list": [
            {f"{list_id}/{part}": entry[part] for part in ("value", "label")} for entry in entries
        ],
    }


def _types(kind: pa.DataType, known: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the names of an Arrow type in Croissant, in a Data Package and in DDI."""
    names = next(names for start, names in known.items() if str(kind).startswith(start))
    return dict(zip(("croissant", "frictionless", "ddi"), names, strict=True))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "release"


def _id(name: str) -> str:
    """Return an identifier without whitespace and other characters that Croissant rejects."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return plain if plain == name else f"{plain}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
