"""Whether the first line of a text file holds names of columns, or somebody's row.

Names are public, and a schema shows them. Where a file has no line of names, its first row would
be taken for one, and published.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hushtable.engine.drafting.profile import Profile
from hushtable.engine.drafting.readings import as_number
from hushtable.errors import DataError

_ENOUGH = 1000
"""So many values of a column tell whether it holds numbers."""


def require_names(seen: Sequence[Profile], public: Collection[str]) -> None:
    """Refuse a first line that fits the cells below it, and nowhere differs from them.

    Parameters
    ----------
    seen : sequence of Profile
        The columns of a text file, under the names that its first line has for them.
    public : collection of str
        Names that somebody has told already.
    """
    fits = [_fits(profile) for profile in seen if profile.name not in public]
    if len(fits) < len(seen) or False in fits or True not in fits:
        return
    raise DataError(
        "the first line looks like a row of data and not like names of columns: in "
        f"{fits.count(True)} of {len(fits)} columns it fits the cells below it, and in none it "
        "differs from them. As names, somebody's row would be published. Put a line with names in "
        "front of the file; if these are names, say so (first_line_is_names=True, "
        "--first-line-is-names)."
    )


def _fits(profile: Profile) -> bool | None:
    """Say whether a name is a cell like those of its column, if that can be told."""
    cells = profile.values[:_ENOUGH]
    if not cells:
        return None
    if all(as_number(cell) is not None for cell in cells):
        return as_number(profile.name) is not None
    return True if profile.name in profile.values else None
