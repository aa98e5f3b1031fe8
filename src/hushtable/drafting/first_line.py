"""Check that the first line of a text file contains column names, not a data row.

Column names are public and part of the schema. In a file without a header line, the first data row
would be used as names and published.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hushtable.drafting.profile import Profile
from hushtable.drafting.readings import as_number
from hushtable.errors import DataError

_ENOUGH = 1000
"""Number of values used to decide whether a column is numeric."""


def require_names(seen: Sequence[Profile], public: Collection[str]) -> None:
    """Raise an error if the first line looks like the rows below it in all comparable columns.

    `seen` has the columns under the names of the first line; if some of these names are in
    `public`, such as a codebook, the line is accepted.
    """
    fits = [_fits(profile) for profile in seen if profile.name not in public]
    if len(fits) < len(seen) or False in fits or True not in fits:
        return
    raise DataError(
        "the first line looks like a data row, not like column names: it resembles the values "
        f"below it in {fits.count(True)} of {len(fits)} columns and differs in none. Used as "
        "names, that row would be published. Add a header line to the file; if the first line "
        "does contain names, pass first_line_is_names=True (--first-line-is-names)."
    )


def _fits(profile: Profile) -> bool | None:
    """Return whether a name resembles the values of its column; None if unclear."""
    cells = profile.values[:_ENOUGH]
    if not cells:
        return None
    if all(as_number(cell) is not None for cell in cells):
        return as_number(profile.name) is not None
    return True if profile.name in profile.values else None
