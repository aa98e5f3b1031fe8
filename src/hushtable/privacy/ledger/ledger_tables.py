"""Tables that a ledger pays for, identified by a digest of their schema."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hushtable.errors import LedgerError

if TYPE_CHECKING:
    from hushtable.schema import Schema

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class BoundTable:
    """Table that a ledger pays for."""

    name: str
    digest: str
    record: int = 0  # the record that bound the ledger to it; 0 is the first, any other a charge
    reason: str = ""  # why it is about the same people as earlier tables

    def describe(self) -> str:
        """Return the name and the beginning of the digest."""
        return f"{self.name!r} (schema {self.digest[:16]})"

    def to_dict(self) -> dict[str, Any]:
        """Return the table ready for JSON."""
        return asdict(self)


def table_document(schema: Schema | None) -> dict[str, str] | None:
    """Return what a record contains about the table of a schema."""
    return None if schema is None else {"name": schema.name, "digest": schema.digest}


def parse_table(document: Any, *, record: int, reason: str = "") -> BoundTable | None:
    """Read what `table_document` wrote."""
    if document is None:
        return None
    if set(document) != {"name", "digest"} or not _DIGEST.fullmatch(document["digest"]):
        raise LedgerError("it names a table in a form that hushtable does not write.")
    return BoundTable(name=str(document["name"]), digest=document["digest"], record=record,
                 reason=reason)  # fmt: skip
