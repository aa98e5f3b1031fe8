"""Runs of a method through the pipeline, down to the folder on disk."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushtable.audit.everything import folder, seen_of
from hushtable.audit.features import Features
from hushtable.methods.base import Forecast, Plan, Released
from hushtable.pipeline import carry_out
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.noise import Noise
from hushtable.privacy.payment import Payment

MEMORY = Path("/dev/shm")  # noqa: S108 - folders made in it are the owner's alone


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is gone afterwards: in memory, where the system has such a place."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        yield Path(place)


@dataclass(frozen=True)
class _AsPrepared(Plan[Any]):
    """A plan that is run as the case of its method prepared it."""

    plan: Plan[Any]
    run_it: Callable[[Any, Noise], Released]

    @property
    def method(self) -> Any:  # type: ignore[override]
        return self.plan.method

    @property
    def schema(self) -> Any:  # type: ignore[override]
        return self.plan.schema

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return self.plan.guarantees

    def forecast(self, rows: int | None = None) -> Forecast:
        return self.plan.forecast(rows)

    def run(self, source: Any, noise: Noise) -> Released:
        return self.run_it(source, noise)


def published(
    plan: Plan[Any], run: Callable[[Any, Noise], Released], opened: Any, noise: Noise, place: Path
) -> Features:
    """Publish to a folder, list what is seen of it and of what was printed, and remove it."""
    out = place / "release"

    def act() -> Features:
        carry_out(
            _AsPrepared(plan, run),
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
