"""Interface to all randomness that protects people.

Every draw that protects a person comes from a `Noise`. Parameters are fractions, arithmetic is on
integers, and the distribution of each result is exactly the one in its docstring: nothing is
rounded, truncated or approximated by floats. (int64 results omit events whose probability is below
e**-4000.) The running time of some draws depends on their outcome; an adversary must not be able to
time them.

The samplers are in `samplers`, the sources in `sources`: `SecureNoise` is for releases.
`SeededNoise` is reproducible and for tests only: its results are not private. `OpenDPNoise` uses
OpenDP for the distributions that OpenDP has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hushtable.errors import SealedError
from hushtable.privacy.accounting.run_account import Draw
from hushtable.privacy.accounting.sealed import SealedValue, unseal
from hushtable.privacy.noise.samplers import CountNoiseSampler, IndexSampler, SelectionSampler

if TYPE_CHECKING:
    from hushtable.privacy.mechanisms.mechanism import Mechanism


class Noise(IndexSampler, CountNoiseSampler, SelectionSampler):
    """Samplers of exact distributions on a stream of random words."""

    def open(self, sealed: SealedValue, mechanism: Mechanism, what: str) -> Any:
        """Open sealed counts with a mechanism: record the cost, then draw the result.

        Parameters
        ----------
        sealed
            Counts from the engine, or values derived from them.
        mechanism
            The noise; it determines the cost together with the sensitivity of `sealed`.
        what
            Description of the query, for the account of the run.

        Examples
        --------
        >>> from fractions import Fraction
        >>> import numpy as np
        >>> from hushtable import SecureNoise
        >>> from hushtable.privacy.mechanisms.mechanism import Laplace
        >>> from hushtable.privacy.accounting.sealed import SealedCounts
        >>> from hushtable.privacy.accounting.run_account import RunAccount, SpendingLimit
        >>> from hushtable.privacy.accounting.sensitivity import Sensitivity
        >>> account = RunAccount(SpendingLimit(Fraction(1)))
        >>> counts = SealedCounts(np.array([400, 300]), Sensitivity(rows=1), account.root)
        >>> SecureNoise().open(counts, Laplace(Fraction(1)), "counts").shape
        (2,)
        >>> account.spent().epsilon
        Fraction(1, 1)
        """
        if not isinstance(sealed, SealedValue):
            raise SealedError(
                f"{what}: {type(sealed).__name__} is not sealed; only values sealed by the engine "
                "can be opened."
            )
        draw: Draw = mechanism.draw
        parts = sealed.all_parts
        if parts:
            account = parts[0].account
            record = account.record(what, parts, sealed.sensitivity, mechanism)
            draw = account.observed(record, draw)
        return draw(unseal(sealed), self)
