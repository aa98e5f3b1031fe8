"""``hushtable reproduce``: figures of the papers, measured by the package `hushtable_papers`."""

from hushtable.extras import require

require("papers", "reproducing figures")

from hushtable_papers.command import reproduce  # noqa: E402 - needs the extra

__all__ = ["reproduce"]
