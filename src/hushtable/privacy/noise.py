"""The only source of randomness.

Every draw that protects a person comes from a `Noise`. Parameters are fractions, arithmetic is on
integers, and the distribution of each result is exactly the one in its docstring: nothing is
rounded, truncated or approximated by floats. (int64 results leave out events whose probability is
below e**-4000.) The running time of some draws depends on their outcome; do not let an adversary
time them.

Each kind of draw has a file of its own: `index_draws`, `coin_draws`, `noise_draws` and `selection`,
all on the words of `random_words`. `SecureNoise` (`secure_noise`) is for releases. `SeededNoise`
(`seeded_noise`) repeats itself and is for tests: what it makes is not private. `OpenDPNoise`
(`opendp_noise`) asks OpenDP for the distributions that OpenDP has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hushtable.privacy.index_draws import IndexDraws
from hushtable.privacy.noise_draws import NoiseDraws
from hushtable.privacy.sealed import Seal, paid
from hushtable.privacy.selection import ChoiceDraws

if TYPE_CHECKING:
    from hushtable.privacy.mechanism import Mechanism


class Noise(IndexDraws, NoiseDraws, ChoiceDraws):
    """Draw from exact distributions on a stream of random words."""

    is_private: ClassVar[bool]
    """Whether what is made with this noise may be called private."""

    def open(self, sealed: Seal, mechanism: Mechanism, what: str) -> Any:
        """Let out of sealed counts what a mechanism gives: booked first, then drawn.

        Parameters
        ----------
        sealed
            What the engine counted, or what was made of it.
        mechanism
            The noise; the price follows from it and from how far one unit moves what is sealed.
        what
            What it is, in words, for the account of the run.

        Examples
        --------
        >>> from fractions import Fraction
        >>> import numpy as np
        >>> from hushtable import SecureNoise
        >>> from hushtable.privacy.mechanism import Laplace
        >>> from hushtable.privacy.sealed import Sealed
        >>> from hushtable.privacy.spending import Account, Promise, Sensitivity
        >>> account = Account(Promise(Fraction(1)))
        >>> counts = Sealed(np.array([400, 300]), Sensitivity(rows=1), account.root)
        >>> SecureNoise().open(counts, Laplace(Fraction(1)), "counts").shape
        (2,)
        >>> account.spent().epsilon
        Fraction(1, 1)
        """
        return mechanism.draw(paid(sealed, mechanism, what), self)
