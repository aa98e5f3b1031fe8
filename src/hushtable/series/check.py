"""What releases spent by their own account: added up from the noise they state."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hushtable.privacy.ledger import Entry
from hushtable.release import Release

_BESIDE_TABLES = ("choices", "number of rows")


def spent_rho(settings: Mapping[str, Any], *, reach: int, rho: Fraction) -> Fraction:
    """Add up what a release cost, as zCDP of one person with so many rows.

    A table with Gaussian noise of variance v costs reach^2 / (2 v), by the noise that it states,
    one of moves 1 / (2 v). Choices and the number of rows cost the shares of the release's rho that
    it says it spent.
    """
    own = [table for table in settings["tables"] if "carried" not in table]
    of_moves = settings.get("moves", {"tables": []})["tables"]
    tables = sum((Fraction(reach**2) / (2 * Fraction(t["parameter"])) for t in own), Fraction(0))
    tables += sum((1 / (2 * Fraction(t["parameter"])) for t in of_moves), Fraction(0))
    said = settings["spent"]
    return tables + rho * sum(Fraction(said.get(step, 0)) for step in _BESIDE_TABLES)


def problems_of(
    releases: Mapping[str, Release], entries: list[Entry], *, reach: int, digests: Mapping[str, str]
) -> list[str]:
    """List what releases and ledger disagree on.

    Parameters
    ----------
    releases : mapping of str to Release
        By name.
    entries : list of Entry
        The charges that stand.
    reach : int
        How many rows of a person the schema of the series lets count.
    digests : mapping of str to str
        What the ledger notes for a release, by name.
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
            found.append(f"{name}: the ledger paid for other tables (entry {entry.id}).")
        settings = release.statement.estimator
        if settings["reach"] != reach:
            found.append(
                f"{name}: its noise is for {settings['reach']} rows of a person, and {reach} count."
            )
        rho = entry.concentrated.rho
        spent = spent_rho(settings, reach=reach, rho=rho)
        if spent > rho:
            found.append(
                f"{name}: its noise costs rho {float(spent):.4g}, and "
                f"{float(rho):.4g} was charged (entry {entry.id})."
            )
    return found
