"""Which tables a ledger pays for, told apart by a digest of what is public about them."""

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
    return None if schema is None else {"name": schema.name, "digest": schema.digest}


def parse_table(document: Any, *, record: int, reason: str = "") -> BoundTable | None:
    """Read back what `table_document` gave."""
    if document is None:
        return None
    if set(document) != {"name", "digest"} or not _DIGEST.fullmatch(document["digest"]):
        raise LedgerError("it names no table that hushtable wrote.")
    return BoundTable(name=str(document["name"]), digest=document["digest"], record=record,
                 reason=reason)  # fmt: skip
