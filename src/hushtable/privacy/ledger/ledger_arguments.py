"""Checks of arguments of ledger functions, before a file is opened or written."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushtable.errors import LedgerError, ParameterError
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.ledger.decision import MAX_TEXT, Decision
from hushtable.privacy.ledger.ledger_tables import table_document

if TYPE_CHECKING:
    from hushtable.schema import Schema


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a file; raise `LedgerError` if it is not a path."""
    try:
        return Path(path).resolve()
    except (OSError, ValueError, TypeError) as error:
        raise LedgerError(f"{path!r} is not a path to a file: {error}.") from error


def documents(guarantees: Sequence[Guarantee]) -> list[dict[str, Any]]:
    """Return guarantees as written in records."""
    # A single guarantee is iterable too (over its fields), hence the check of both.
    if isinstance(guarantees, Guarantee) or not all(isinstance(g, Guarantee) for g in guarantees):
        raise ParameterError("guarantees must be a sequence of guarantees, such as [PureDP(...)].")
    if not guarantees:
        raise ParameterError("guarantees is empty; for a release without one, pass [NoGuarantee].")
    return [guarantee.to_dict() for guarantee in guarantees]


def text(name: str, value: str, *, required: bool = True) -> str:
    """Return a text for a record; raise `ParameterError` if it is too long or empty."""
    if not isinstance(value, str) or len(value) > MAX_TEXT or (required and not value.strip()):
        raise ParameterError(
            f"{name} must be text of 1 to {MAX_TEXT} characters; "
            + (f"{len(value)} were given." if isinstance(value, str) else f"{value!r} was given.")
        )
    return value


def require_schema(schema: object) -> None:
    """Raise `ParameterError` if the argument is not a schema."""
    if not hasattr(schema, "digest"):  # records contain only the digest of a schema
        raise ParameterError(f"schema is a {type(schema).__name__}; pass a Schema.")


def about(
    schema: Schema | None, same_people: str | None, decision: Decision | None = None
) -> dict[str, Any]:
    """Return the part of a record about its table, the same-people reason and the decision."""
    if schema is not None:
        require_schema(schema)
    if same_people is not None:
        text("same_people", same_people)
    return {"table": table_document(schema), "same_people": same_people, **decided(decision)}


def decided(decision: Decision | None) -> dict[str, Any]:
    """Return the decision as part of a record; empty if nothing is stated."""
    if decision is not None and not isinstance(decision, Decision):
        raise ParameterError(f"decision is a {type(decision).__name__}; pass a Decision.")
    return {"decision": decision.to_dict()} if decision is not None and decision.is_stated else {}


def starting_from(prior: Mapping[str, str] | None) -> dict[str, Any]:
    """Return what a record says about a prior: nothing if there is none."""
    if prior is None:
        return {}
    return {"prior": {name: text(f"prior ({name})", said) for name, said in prior.items()}}


def salt() -> str:
    """Return the random number of a record."""
    # Without it, someone who knows a receipt could guess records until one yields the next receipt.
    return secrets.token_hex(16)


def number(name: str, value: int) -> int:
    """Return the number of a record; raise `ParameterError` if it is not an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ParameterError(f"{name} must be an integer, as listed by `show`; not {value!r}.")
    return value


def now() -> str:
    """Return the time for a record."""
    # For information only: no rule depends on the time, so changes of the clock do no harm.
    return datetime.now(UTC).isoformat(timespec="microseconds")
