"""Priors: public information from before a release, such as an earlier release or a public table.

A method may start from a prior. The promise does not change, as long as the prior *is* public: it
is fixed before the private table is read, and the promise holds for every prior. A release is
recognized by its statement, which must promise differential privacy. For any other table, the
custodian must state why it is public. The statement records this justification and the digest of
the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.arrays import Integers
from hushtable.errors import DataError, HushtableError, ParameterError
from hushtable.methods.prior import Kind, Prior, PriorRelease
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.ledger.budget import Budget, Loss
from hushtable.privacy.rational import as_rational
from hushtable.privacy.unit import Unit
from hushtable.release.release import Release
from hushtable.release.statement import STATEMENT, Statement, digest_of, sha256_of
from hushtable.schema import Column, Identifier, Schema

_LEFT_OUT = Identifier(role="identifier")


@dataclass(frozen=True)
class StoredPrior(Prior):
    """Public rows in a folder or file.

    Parameters
    ----------
    kind : {"release", "table"}
        A release that promises differential privacy and was not seeded, or any other public rows.
    name : str
        Name of the folder or file.
    sha256 : str
        Digest of the file. For a release, this is the digest of its statement, which contains the
        digests of all other files.
    path : Path
        Path of the folder or file.
    """

    kind: Kind
    name: str
    sha256: str
    path: Path = field(compare=False, repr=False)
    releases: tuple[PriorRelease, ...] = field(default=(), compare=False, repr=False)
    _seen: dict[str, dict[str, Integers]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def read(cls, name: str, given: Any) -> StoredPrior:
        """Return the prior for a release, its folder, or a file of rows."""
        if isinstance(given, Release):
            given = given.folder
        if not isinstance(given, str | Path):
            raise ParameterError(
                f"{name} is a {type(given).__name__}; give an earlier release, its folder, or the "
                "path of a public table (CSV or Parquet)."
            )
        path = Path(given)
        try:
            if path.is_dir():
                release = Release.load(path)
                counted = any(promise.counted for promise in release.statement.guarantees)
                name, digest = path.resolve().name, sha256_of(path / STATEMENT)
                if not counted or release.statement.seeded:
                    return cls("table", name, digest, path)
                own = release_of(name, release.statement)
                followed = _cost_of_prior(release.statement)
                return cls("release", name, digest, path, (replace(own, cost=own.cost + followed),))
            return cls("table", path.name, sha256_of(path), path)
        except HushtableError as error:
            raise ParameterError([f"{name}: {problem}" for problem in error.problems]) from None
        except OSError:
            raise ParameterError(
                f"{name} is {str(given)!r}, which cannot be read; give the folder of an earlier "
                "release, or the path of a public table (CSV or Parquet)."
            ) from None

    def __str__(self) -> str:
        return str(self.path)

    def is_file_of(self, data: Any) -> bool:
        """Return whether a path refers to the same file, without reading the file."""
        if not isinstance(data, str | Path):
            return False
        try:
            return self.path.samefile(data)
        except (OSError, ValueError):
            return False

    def codes(self, schema: Schema) -> dict[str, Integers]:
        """Return the rows as codes of a schema, in the columns that both have.

        Out-of-domain values are handled as the schema says. A value that it refuses becomes
        missing, or `UNKNOWN` if the column has no category for missing.
        """
        key = str(schema.to_dict())
        if key not in self._seen:
            self._seen.clear()
            self._seen[key] = self._codes(schema)
        return self._seen[key]

    def _codes(self, schema: Schema) -> dict[str, Integers]:
        from hushtable.engine import MemoryEngine, open  # noqa: PLC0415 - plans need no engine

        rows: pa.Table | Path = self.path
        if self.path.is_dir():
            release = Release.load(self.path)
            rows = release.frame(drawn=bool(release.recode))
        opened = open(rows, engine="memory")
        columns = {
            name: _lenient(schema.attributes[name]) if name in schema.attributes else _LEFT_OUT
            for name in opened.header.names
        }
        known = [name for name in schema.attributes if name in columns]
        if not known:
            raise ParameterError(
                f"prior {self.name!r} has none of the columns to publish: "
                f"{', '.join(schema.attributes)}."
            )
        lenient = Schema(
            name=schema.name,
            unit=Unit(kind="row"),
            missing_values=schema.missing_values,
            columns=columns,
        )
        engine = opened.connect(lenient)
        assert isinstance(engine, MemoryEngine)  # noqa: S101 - asked for
        found = engine.codes(known)
        now = self.path / STATEMENT if self.path.is_dir() else self.path
        if sha256_of(now) != self.sha256:
            raise DataError(f"prior {self.name!r} was changed while it was read; try again.")
        return {
            name: _known(np.asarray(codes, np.int64), schema.attributes[name].size)
            for name, codes in found.items()
        }


def release_of(name: str, statement: Statement) -> PriorRelease:
    """Return the name, cost, receipt and digest of a release that serves as a prior."""
    terms = (g for g in statement.guarantees if isinstance(g, PureDP | ApproxDP))
    return PriorRelease(
        name=name,
        cost=sum((Loss.of(term).basic for term in terms), start=Budget()),
        receipt=None if statement.ledger is None else statement.ledger.receipt,
        digest=digest_of(statement),
    )


def _cost_of_prior(statement: Statement) -> Budget:
    """Return the cost of the prior that a release used; 0 if its statement records none."""
    prior = statement.parameters.get("prior")
    said = prior if isinstance(prior, dict) else {}
    return Budget(
        **{name: as_rational(said.get(name, 0), name=name) for name in ("epsilon", "delta")}
    )


def _lenient(column: Column) -> Column:
    """Return the column with out-of-domain values counted as missing instead of refused."""
    if column.missing != "forbid" and column.outside != "refuse":
        return column
    outside = "missing" if column.outside == "refuse" else column.outside
    changes = {"missing": "category", "outside": outside}
    return column.model_copy(update=changes if outside == "other" else {**changes, "other": None})


def _known(codes: Integers, size: int) -> Integers:
    return np.where(codes < size, codes, Prior.UNKNOWN)
