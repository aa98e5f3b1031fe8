"""Which tables a ledger pays for, told apart by a digest of what is public about them."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from hushtable.errors import LedgerError
from hushtable.schema import Categorical, Identifier, Schema

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class BoundTable:
    """Name a table that a ledger pays for.

    ``record`` is the record that bound the ledger to it: 0 is its start, any other a charge.
    ``reason`` is why a person said that it is about the same people as the tables before.
    """

    name: str
    digest: str
    record: int = 0
    reason: str = ""

    def describe(self) -> str:
        """Give the name and the beginning of the digest."""
        return f"{self.name!r} (schema {self.digest[:16]})"

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return asdict(self)


def table_document(schema: Schema | None) -> dict[str, str] | None:
    """Give what a record says about the table of a schema."""
    return None if schema is None else {"name": schema.name, "digest": digest_of_schema(schema)}


def parse_table(document: Any, *, record: int, reason: str = "") -> BoundTable | None:
    """Read back what `table_document` gave."""
    if document is None:
        return None
    if set(document) != {"name", "digest"} or not _DIGEST.fullmatch(document["digest"]):
        raise LedgerError("it names no table that hushtable wrote.")
    return BoundTable(name=str(document["name"]), digest=document["digest"], record=record,
                 reason=reason)  # fmt: skip


def digest_of_schema(schema: Schema) -> str:
    """Digest what tells a table from another: its name, and its columns with their values.

    What may change while the table stays the same is left out: layout and comments of the file, the
    order of columns and values, the public number of rows, taxonomies, which column is the target,
    and how missing values and values outside the domain are treated. So are the columns of a graph,
    which follow from the method's parameters. The unit is not in it either: a ledger is for one
    unit, and refuses any other.

    Examples
    --------
    >>> text = "{name: %s, rows: %d, columns: {age: {type: integer, low: 0, high: 9}}}"
    >>> one, later, other = (
    ...     digest_of_schema(Schema.parse(text % given))
    ...     for given in (("visits", 5), ("visits", 6), ("tickets", 5))
    ... )
    >>> one == later, one == other
    (True, False)
    """
    columns = (
        {} if schema.unit.kind == "node" else {n: _domain(c) for n, c in schema.columns.items()}
    )
    text = json.dumps({"name": schema.name, "columns": columns}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _domain(column: Any) -> Any:
    if isinstance(column, Identifier):
        return "identifier"
    if isinstance(column, Categorical):
        return sorted(column.values)
    return [column.type, *(str(n) for n in (column.exact_low, column.exact_step, column.n_values))]
