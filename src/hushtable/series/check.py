"""Cost of releases according to their own statements, computed from the stated noise."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hushtable.privacy.ledger.ledger import Entry
from hushtable.release.release import Release

_BESIDE_TABLES = ("choices", "number of rows")


def spent_rho(settings: Mapping[str, Any], *, rows_per_unit: int, rho: Fraction) -> Fraction:
    """Return the cost of a release as zCDP of one person with up to `rows_per_unit` rows.

    A table with Gaussian noise of variance v costs reach^2 / (2 v), one of transitions 1 / (2 v).
    Selections and the number of rows cost their stated shares of the release's rho.
    """
    own = [table for table in settings["tables"] if "carried" not in table]
    of_moves = settings.get("moves", {"tables": []})["tables"]
    tables = sum(
        (Fraction(rows_per_unit**2) / (2 * Fraction(t["parameter"])) for t in own), Fraction(0)
    )
    tables += sum((1 / (2 * Fraction(t["parameter"])) for t in of_moves), Fraction(0))
    said = settings["spent"]
    return tables + rho * sum(Fraction(said.get(step, 0)) for step in _BESIDE_TABLES)


def problems_of(
    releases: Mapping[str, Release],
    entries: list[Entry],
    *,
    rows_per_unit: int,
    digests: Mapping[str, str],
) -> list[str]:
    """Return the discrepancies between releases and ledger.

    Parameters
    ----------
    releases : mapping of str to Release
        By name.
    entries : list of Entry
        The charges that are not void.
    rows_per_unit : int
        Rows per person in the schema of the series.
    digests : mapping of str to str
        The digest that the ledger should have for each release, by name.
    """
    by_receipt = {entry.receipt: entry for entry in entries}
    used: dict[int, str] = {}
    found = []
    for name, release in releases.items():
        receipt = release.statement.ledger
        entry = by_receipt.get(receipt.receipt) if receipt is not None else None
        if entry is None:
            found.append(f"{name}: the ledger of this series has no charge for it.")
            continue
        if entry.id in used:
            found.append(f"{name}: its charge (entry {entry.id}) is that of {used[entry.id]}.")
            continue
        used[entry.id] = name
        if entry.note != digests[name]:
            found.append(f"{name}: its tables differ from those charged (entry {entry.id}).")
        settings = release.statement.estimator
        if settings["reach"] != rows_per_unit:
            found.append(
                f"{name}: its noise is for {settings['reach']} rows per person, but the schema "
                f"allows {rows_per_unit}."
            )
        rho = entry.concentrated.rho
        spent = spent_rho(settings, rows_per_unit=rows_per_unit, rho=rho)
        if spent > rho:
            found.append(
                f"{name}: its noise costs rho {float(spent):.4g}, but only "
                f"{float(rho):.4g} was charged (entry {entry.id})."
            )
    return found
