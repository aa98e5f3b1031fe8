"""Sealed tables for tests that ask parts of a method, outside a run."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hushtable.engine.sealed import SealedTable, seal
from hushtable.privacy.spending import Account, Promise

PLENTY = Promise(Fraction(10**9), Fraction(10**9))
PLENTY_OF_RHO = Promise(Fraction(10**9), rho=Fraction(10**9))


def sealed(engine: Any, promise: Promise = PLENTY) -> SealedTable:
    """Seal an engine with an account that pays for whatever is asked."""
    table: SealedTable = seal(engine, Account(promise, spends_all=False))
    return table
