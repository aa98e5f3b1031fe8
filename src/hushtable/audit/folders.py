"""Runs of a method through the whole pipeline, including the folder on disk."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushtable.audit.everything import folder, seen_of
from hushtable.audit.features import Features
from hushtable.audit.inputs import Input
from hushtable.audit.subject import FixedRowChoice, Subject
from hushtable.methods.base import Plan
from hushtable.privacy.ledger.payment import Payment
from hushtable.privacy.noise.noise import Noise
from hushtable.publishing.run import carry_out

MEMORY = Path("/dev/shm")  # noqa: S108 - new folders there are private to the user


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder, in memory if the system supports it."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        yield Path(place)


@dataclass
class FolderSubject(Subject):
    """A method that is run through the pipeline and observed in its release folder."""

    plan: Plan[Any] | None = None
    place: Path = Path()

    @classmethod
    def of(cls, subject: Subject, plan: Plan[Any], place: Path) -> FolderSubject:
        """Create from the method and the inputs of another subject."""
        return cls(subject.method, subject.schema, subject.prepared, subject.noise, plan=plan,
                   place=place)  # fmt: skip

    def seen_with(self, given: Input, noise: Noise) -> Features:
        """Publish once with the given noise, and return the features of the folder."""
        assert self.plan is not None  # noqa: S101 - made by `of`
        self.n_runs += 1
        opened = self.opened(given, FixedRowChoice())
        return published(self.plan, opened, noise, self.place)


def published(plan: Plan[Any], opened: Any, noise: Noise, place: Path) -> Features:
    """Publish to a folder, return the features of the folder and the output, and delete it."""
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
