"""Runs of a method through the pipeline, down to the folder on disk."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hushtable.audit.everything import folder, seen_of
from hushtable.audit.features import Features
from hushtable.methods.base import Plan
from hushtable.pipeline import carry_out
from hushtable.privacy.noise import Noise
from hushtable.privacy.payment import Payment

MEMORY = Path("/dev/shm")  # noqa: S108 - folders made in it are the owner's alone


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is gone afterwards: in memory, where the system has such a place."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        yield Path(place)


def published(plan: Plan[Any], opened: Any, noise: Noise, place: Path) -> Features:
    """Publish to a folder, list what is seen of it and of what was printed, and remove it."""
    out = place / "release"

    def act() -> Features:
        carry_out(
            plan,
            lambda: opened,
            promised=plan.guarantees,
            noise=noise,
            out=out,
            payment=Payment(
                ledger=None, reservation=None, purpose="", same_people=None, receipt=None
            ),
        )
        return folder(out)

    try:
        return seen_of(act)
    finally:
        shutil.rmtree(out, ignore_errors=True)
