"""The only source of randomness.

Every draw that protects a person comes from a `Noise`. Parameters are fractions, arithmetic is on
integers, and the distribution of each result is exactly the one in its docstring: nothing is
rounded, truncated or approximated by floats. (int64 results leave out events whose probability is
below e**-4000.) The running time of some draws depends on their outcome; do not let an adversary
time them.

`SecureNoise` is for releases. `SeededNoise` repeats itself and is for tests: what it makes is not
private. `OpenDPNoise`, in ``opendp_noise.py``, asks OpenDP for the distributions that OpenDP has.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hushtable import kernels
from hushtable.errors import ParameterError, TooLarge
from hushtable.extras import needing
from hushtable.privacy.arguments import (
    as_integers,
    as_weights,
    not_fraction,
    not_whole,
    refuse_if,
)
from hushtable.privacy.bit_reader import KERNEL_LIMIT, BitReader, Words
from hushtable.privacy.sealed import Seal, paid
from hushtable.privacy.selection import Levels, candidates_of, exponent_per_score, times

if TYPE_CHECKING:
    from hushtable.privacy.mechanism import Mechanism

Integers = NDArray[np.int64]
Coins = NDArray[np.bool_]
Rule = Literal["exponential", "permute-and-flip"]

MAX_TRIALS = 10**12
"""Refuse larger `binomial` and `subset`; their time grows with n, some 0.2 s and 0.7 s for 1e9."""

MAX_COPIES = 10**7
"""Permute-and-flip tosses one coin per copy of a candidate in the base measure."""

MAX_SCALE = 2**50
"""Noise of a larger scale might not fit an int64."""


class Noise(ABC):
    """Draw from exact distributions on a stream of random words."""

    is_private: ClassVar[bool]
    """Whether what is made with this noise may be called private."""

    # Words fetched at a time: one megabyte stays in the cache. Tests set it to 1.
    _chunk: ClassVar[int] = 1 << 17

    @abstractmethod
    def _words(self, n: int) -> Words:
        """Return n independent uniform 64-bit words that were never returned before."""

    def _reader(self) -> BitReader:
        return BitReader(self._words)

    def _fill(
        self,
        kernel: Callable[..., int],
        parameters: tuple[Any, ...],
        out: NDArray[Any],
        *,
        bits_per_draw: int,
        n_draws: int | None = None,
    ) -> None:
        """Run a resumable kernel until `out` is full, appending words whenever it runs dry."""
        state = np.zeros(4, np.uint64)
        words: Words = np.empty(0, np.uint64)
        done, end = 0, len(out) if n_draws is None else n_draws
        while done < end:
            n_words = min((end - done) * bits_per_draw // 64 + 16, self._chunk)
            words = np.concatenate((words[int(state[0]) :], self._words(n_words)))
            state[0] = 0
            done = kernel(*parameters, out, done, words, state)

    # --- what is sealed --------------------------------------------------------------------------

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

    # --- uniform ---------------------------------------------------------------------------------

    def uniform_below(self, n: int, *, size: int) -> Integers:
        """Draw `size` independent uniform integers in [0, n), n at most 2**62.

        Examples
        --------
        >>> set(SecureNoise().uniform_below(3, size=200).tolist())
        {0, 1, 2}
        """
        refuse_if(not_whole("n", n, low=1, high=KERNEL_LIMIT), not_whole("size", size))
        out = np.empty(size, np.int64)
        self._fill(kernels.samplers.fill_below, (n,), out, bits_per_draw=2 * n.bit_length())
        return out

    def integer_below(self, n: int) -> int:
        """Draw a uniform integer in [0, n) for n of any size.

        Examples
        --------
        >>> 0 <= SecureNoise().integer_below(10**40) < 10**40
        True
        """
        refuse_if(not_whole("n", n, low=1))
        return self._reader().below(n)

    def distinct_below(self, n: int, *, k: int) -> Integers | list[int]:
        """Draw k distinct integers in [0, n), all ordered choices equally likely.

        The result is an array when n is at most 2**62, and otherwise a list of Python integers.

        Examples
        --------
        >>> sorted(map(int, SecureNoise().distinct_below(4, k=4)))
        [0, 1, 2, 3]
        """
        refuse_if(not_whole("n", n), not_whole("k", k, high=n))
        if n > KERNEL_LIMIT:
            reader, seen = self._reader(), dict[int, None]()
            while len(seen) < k:
                seen.setdefault(reader.below(n))
            return list(seen)
        if n < 4 * k:
            items = np.arange(n, dtype=np.int64)
            bits = 2 * n.bit_length()
            self._fill(kernels.samplers.fill_shuffle, (k,), items, bits_per_draw=bits, n_draws=k)
            return items[:k].copy()
        # The first k different values of an endless row of draws; k <= n/4 keeps repeats few.
        drawn = np.empty(0, np.int64)
        while len(drawn) < k:
            fresh = self.uniform_below(n, size=(k - len(drawn)) * 9 // 8 + 8)
            drawn = _first_occurrences(np.concatenate((drawn, fresh)))
        return drawn[:k]

    # --- coins -----------------------------------------------------------------------------------

    def bernoulli(self, p: Fraction, *, size: int) -> Coins:
        """Toss `size` coins that show True with probability p, a fraction of any size.

        Examples
        --------
        >>> SecureNoise().bernoulli(Fraction(1), size=3)
        array([ True,  True,  True])
        """
        refuse_if(not_fraction("p", p, high=1), not_whole("size", size))
        if p == 1:
            return np.ones(size, np.bool_)
        digits, rest = divmod(p.numerator << 64, p.denominator)
        threshold = np.uint64(digits)
        out = np.empty(size, np.bool_)
        for begin in range(0, size, self._chunk):
            part = out[begin : begin + self._chunk]
            words = self._words(len(part))
            np.less(words, threshold, out=part)
            # All 64 bits agree with p's: go on with its later digits.
            for i in np.flatnonzero(words == threshold):
                part[i] = self._reader().coin(rest, p.denominator)
        return out

    def bernoulli_exp(self, x: Fraction, *, size: int) -> Coins:
        """Toss `size` coins that show True with probability exp(-x), x >= 0.

        Examples
        --------
        >>> SecureNoise().bernoulli_exp(Fraction(0), size=2)
        array([ True,  True])
        """
        refuse_if(not_fraction("x", x), not_whole("size", size))
        fits = x.numerator < KERNEL_LIMIT
        numerators = np.full(size, x.numerator, np.int64 if fits else object)
        return self.bernoulli_exp_each(numerators, denominator=x.denominator)

    def bernoulli_exp_each(self, numerators: NDArray[Any], *, denominator: int) -> Coins:
        """Toss one coin per element, True with probability exp(-numerators[i]/denominator).

        Numbers of 2**62 and more are handled exactly too, by Python integers and more slowly.

        Examples
        --------
        >>> SecureNoise().bernoulli_exp_each(np.array([0, 10**6]), denominator=1)
        array([ True, False])
        """
        refuse_if(not_whole("denominator", denominator, low=1))
        numerators = as_integers("numerators", numerators)
        if len(numerators) and numerators.min() < 0:
            raise ParameterError("numerators: all must be at least 0.")
        out = np.empty(len(numerators), np.bool_)
        if denominator < KERNEL_LIMIT and (not len(out) or numerators.max() < KERNEL_LIMIT):
            parameters = (numerators.astype(np.int64), denominator)
            self._fill(kernels.samplers.fill_exp_coins, parameters, out, bits_per_draw=6)
            return out
        reader = self._reader()
        for i, numerator in enumerate(numerators.tolist()):
            out[i] = reader.exp_coin(numerator, denominator)
        return out

    # --- noise -----------------------------------------------------------------------------------

    def geometric(self, x: Fraction, *, size: int) -> Integers:
        """Draw `size` integers g >= 0 with P[g] = (1 - exp(-x)) * exp(-x * g), x > 0.

        The time per draw does not depend on x.

        Examples
        --------
        >>> SecureNoise().geometric(Fraction(10**6), size=3)
        array([0, 0, 0])
        """
        refuse_if(not_rate("x", x), not_whole("size", size))
        bits = 2 * x.denominator.bit_length() + 16
        return self._draw(
            kernels.samplers.fill_geometric, BitReader.geometric, x, size=size, bits_per_draw=bits
        )

    def discrete_laplace(self, scale: Fraction, *, size: int) -> Integers:
        """Draw `size` integers z with P[z] proportional to exp(-abs(z) / scale).

        Added to counts that one person changes by at most `sensitivity` in total, a scale of
        sensitivity/epsilon gives epsilon-differential privacy.

        Examples
        --------
        >>> SecureNoise().discrete_laplace(Fraction(10), size=5).dtype
        dtype('int64')
        """
        refuse_if(
            not_fraction("scale", scale, positive=True, high=MAX_SCALE), not_whole("size", size)
        )
        bits = 2 * scale.numerator.bit_length() + 24
        return self._draw(
            kernels.samplers.fill_laplace, BitReader.laplace, scale, size=size, bits_per_draw=bits
        )

    def _draw(
        self,
        kernel: Callable[..., int],
        slow: Callable[[BitReader, int, int], int],
        parameter: Fraction,
        *,
        size: int,
        bits_per_draw: int,
    ) -> Integers:
        numerator, denominator = parameter.numerator, parameter.denominator
        if max(numerator, denominator) >= KERNEL_LIMIT:
            reader = self._reader()
            drawn = (slow(reader, numerator, denominator) for _ in range(size))
            return np.fromiter(drawn, np.int64, size)
        out = np.empty(size, np.int64)
        self._fill(kernel, (numerator, denominator), out, bits_per_draw=bits_per_draw)
        return out

    def discrete_gaussian(self, variance: Fraction, *, size: int) -> Integers:
        """Draw `size` integers z with P[z] proportional to exp(-z**2 / (2 * variance)).

        `variance` is the distribution's parameter; for small values the true variance is smaller.
        A variance with a long denominator is handled by Python integers, some hundred times
        slower; round it up to a simple fraction if that matters.

        Examples
        --------
        >>> SecureNoise().discrete_gaussian(Fraction(9, 2), size=5).dtype
        dtype('int64')
        """
        refuse_if(
            not_fraction("variance", variance, positive=True, high=MAX_SCALE**2),
            not_whole("size", size),
        )
        a, b = variance.numerator, variance.denominator
        scale = math.isqrt(a // b) + 1
        over = 2 * a * b * scale * scale
        # The kernel squares |z| * scale * b - a, and |z| < 2**12 * scale but for e**-4096.
        if (scale * scale * b << 12) + a >= 1 << 63 or over >= 1 << 126:
            reader = self._reader()
            drawn = (reader.gaussian(a, b, scale) for _ in range(size))
            return np.fromiter(drawn, np.int64, size)
        out = np.empty(size, np.int64)
        words_of_over = np.uint64(over >> 64), np.uint64(over & (1 << 64) - 1)
        bits = 3 * scale.bit_length() + 48
        self._fill(
            kernels.samplers.fill_gaussian, (a, b, scale, *words_of_over), out, bits_per_draw=bits
        )
        return out

    # --- counts and subsets ----------------------------------------------------------------------

    def from_table(self, weights: Sequence[int], *, size: int) -> Integers:
        """Draw `size` indexes, i with probability weights[i] / sum(weights).

        The weights are Python integers of any size.

        Examples
        --------
        >>> SecureNoise().from_table([0, 2**200, 0], size=3)
        array([1, 1, 1])
        """
        refuse_if(not_whole("size", size))
        ends = list(itertools.accumulate(as_weights("weights", weights)))
        total = ends[-1]
        del ends[bisect.bisect_left(ends, total) :]  # the last positive weight takes the rest
        # With U uniform in [0, 1), the index is the number of ends[i]/total that are <= U.
        thresholds = np.array([(end << 64) // total for end in ends], np.uint64)
        out = np.empty(size, np.int64)
        for begin in range(0, size, self._chunk):
            part = out[begin : begin + self._chunk]
            words = self._words(len(part))
            part[:] = np.searchsorted(thresholds, words, side="left")
            upper = np.searchsorted(thresholds, words, side="right")
            for i in np.flatnonzero(part != upper):
                # The first 64 bits of U and of some ends agree: compare the bits that follow.
                rests = [(end << 64) % total for end in ends[part[i] : upper[i]]]
                part[i] += self._count_passed(rests, total)
        return out

    def _count_passed(self, rests: list[int], total: int) -> int:
        """Count the ascending fractions rests[i]/total that a uniform number is not below."""
        reader, passed = self._reader(), 0
        while rests and rests[-1] > 0:
            word = reader.take(64)
            digits = [(rest << 64) // total for rest in rests]
            low, high = bisect.bisect_left(digits, word), bisect.bisect_right(digits, word)
            passed += low
            rests = [(rest << 64) % total for rest in rests[low:high]]
        return passed + len(rests)

    def binomial(self, n: int, *, p: Fraction) -> int:
        """Draw the number of heads among n coins of probability p, n at most `MAX_TRIALS`.

        All n uniform numbers are compared with p's binary digits at once: of those that agree so
        far, a Binomial(m, 1/2) number have next bit 0. That number is a count of ones in m random
        bits, so about 2n bits are read, however small p is.

        Examples
        --------
        >>> SecureNoise().binomial(10, p=Fraction(1))
        10
        """
        refuse_if(not_whole("n", n), not_fraction("p", p, high=1))
        _check_trials("binomial", n)
        if p == 1:
            return n
        heads, undecided, rest = 0, n, p.numerator
        while undecided and rest:
            rest *= 2
            n_zero = self._fair_heads(undecided)
            if rest >= p.denominator:
                rest -= p.denominator
                heads += n_zero  # bit 0 under digit 1: below p
                undecided -= n_zero
            else:
                undecided = n_zero  # bit 1 over digit 0: not below p
        return heads

    def _fair_heads(self, n: int) -> int:
        heads, n_words = 0, -(-n // 64)
        for begin in range(0, n_words, self._chunk):
            words = self._words(min(self._chunk, n_words - begin))
            if begin + len(words) == n_words and n % 64:
                words[-1] &= np.uint64((1 << n % 64) - 1)
            heads += int(np.bitwise_count(words).sum(dtype=np.int64))
        return heads

    def subset(self, n: int, *, p: Fraction) -> Integers:
        """Keep each of 0, ..., n-1 independently with probability p; return those kept, in order.

        Reads about n/9 random words; n is at most `MAX_TRIALS`.

        Examples
        --------
        >>> SecureNoise().subset(3, p=Fraction(1))
        array([0, 1, 2])
        """
        refuse_if(not_whole("n", n), not_fraction("p", p, high=1))
        _check_trials("subset", n)
        if p == 1:
            return np.arange(n, dtype=np.int64)
        digits, rest = _binary_digits(p.numerator, p.denominator, 128)
        out = np.empty(_room_for(n, p), np.int64)
        words: Words = np.empty(0, np.uint64)
        group = kept = 0
        while group * 64 < n:
            if kept + 64 > len(out):
                out = np.concatenate((out, np.empty(len(out) // 4 + 64, np.int64)))
            n_words = min((-(-n // 64) - group) * 8 + 16, self._chunk)
            words = np.concatenate((words, self._words(n_words)))
            group, position, kept, short = kernels.samplers.fill_subset(
                n, digits, rest == 0, group, words, 0, out, kept
            )
            words = words[position:]
            if short:  # the digits given did not decide a group: it starts again with more of them
                more, rest = _binary_digits(rest, p.denominator, len(digits))
                digits = np.concatenate((digits, more))
        return out[:kept].copy()

    # --- private selection -----------------------------------------------------------------------

    def choose(
        self,
        scores: NDArray[np.int64] | Sequence[int],
        *,
        epsilon: Fraction,
        sensitivity: Fraction,
        monotone: bool,
        base: Sequence[int] | None = None,
        rule: Rule = "exponential",
    ) -> int:
        """Choose an index with a high score, epsilon-differentially private.

        Parameters
        ----------
        scores
            Integer scores of the candidates.
        epsilon, sensitivity
            One person changes each score by at most `sensitivity`.
        monotone
            Whether adding a person changes all scores in the same direction (or not at all). The
            exponent is then epsilon/sensitivity per unit of score, otherwise half of that.
        base
            Non-negative integer weights that do not depend on the private data: candidate i stands
            for base[i] candidates with the same score.
        rule
            ``"exponential"``: P[i] proportional to base[i] * exp(factor * scores[i]).
            ``"permute-and-flip"``: go through the candidates (each base[i] times) in random order
            and stop at the first whose coin of probability exp(factor * (score - best)) shows
            heads. Better on average, and epsilon-differentially private with the same factors. But
            its privacy loss spans up to 2 epsilon and not epsilon as for the exponential
            mechanism, so the bounded-range accounting of epsilon**2/8 does not apply to it.

        Examples
        --------
        >>> SecureNoise().choose(
        ...     [0, 1000], epsilon=Fraction(1), sensitivity=Fraction(1), monotone=True
        ... )
        1
        """
        candidates, gaps, weights = candidates_of(scores, base)
        factor = exponent_per_score(epsilon, sensitivity, monotone)
        if rule == "exponential":
            return int(candidates[self._exponential(gaps, factor, weights)])
        if rule == "permute-and-flip":
            return int(candidates[self._permute_and_flip(gaps, factor, weights)])
        raise ParameterError(f"rule: {rule!r} is unknown. Use 'exponential' or 'permute-and-flip'.")

    def choose_top(
        self,
        scores: NDArray[np.int64] | Sequence[int],
        *,
        k: int,
        epsilon: Fraction,
        sensitivity: Fraction,
        monotone: bool,
        base: Sequence[int] | None = None,
        rule: Rule = "exponential",
    ) -> list[int]:
        """Choose k different indexes, one after the other, each with its own `epsilon`.

        The k choices together cost k times epsilon under basic composition. With a base measure,
        a candidate that was chosen leaves with all its copies.

        Examples
        --------
        >>> SecureNoise().choose_top(
        ...     [0, 9000, 5000], k=2, epsilon=Fraction(1), sensitivity=Fraction(1), monotone=False
        ... )
        [1, 2]
        """
        values = as_integers("scores", scores)
        weights = None if base is None else as_weights("base", base)
        n_available = len(values) if weights is None else sum(w > 0 for w in weights)
        refuse_if(not_whole("k", k, high=n_available))
        left = list(range(len(values)))
        chosen: list[int] = []
        for _ in range(k):
            at = self.choose(
                values[left],
                epsilon=epsilon,
                sensitivity=sensitivity,
                monotone=monotone,
                base=None if weights is None else [weights[i] for i in left],
                rule=rule,
            )
            chosen.append(left.pop(at))
        return chosen

    def _exponential(self, gaps: NDArray[Any], factor: Fraction, base: list[int] | None) -> int:
        """Draw i with probability proportional to base[i] * exp(-factor * gaps[i]).

        Candidates are put on levels, level = floor(factor * gap). A level is drawn with probability
        proportional to (its base measure) * exp(-level), then a candidate on it by base measure,
        which is accepted with probability exp(-(factor * gap - level)). The product of the three
        is the weight wanted, and the last is above 1/e: fewer than e rounds are expected whatever
        the scores and the base measure are.
        """
        scaled = times(gaps, factor.numerator)
        level_of = scaled // factor.denominator
        order = np.argsort(level_of, kind="stable")
        sorted_levels = level_of[order]
        starts = np.flatnonzero(np.r_[True, sorted_levels[1:] != sorted_levels[:-1]])
        ends = np.append(starts[1:], len(order))
        if base is None:
            masses = (ends - starts).tolist()
        else:
            totals = [0, *itertools.accumulate(base[i] for i in order)]
            masses = [totals[e] - totals[s] for s, e in zip(starts, ends, strict=True)]
        levels = Levels([int(level) for level in sorted_levels[starts]], masses)
        reader = self._reader()
        while True:
            drawn = levels.draw(reader)
            pick = reader.below(masses[drawn])
            start = int(starts[drawn])
            if base is None:
                at = start + pick
            else:
                at = bisect.bisect_right(totals, totals[start] + pick) - 1
            candidate = int(order[at])
            above = int(scaled[candidate]) - levels.levels[drawn] * factor.denominator
            if reader.exp_coin(above, factor.denominator):
                return candidate

    def _permute_and_flip(
        self, gaps: NDArray[Any], factor: Fraction, base: list[int] | None
    ) -> int:
        """Draw the first head in a random order of candidates.

        In a random order that is independent of the coins, each head is equally likely to be the
        first: toss all coins at once and draw one of the heads. The best candidate has gap 0 and
        always shows heads. With a base measure the coins of all copies are tossed.
        """
        copies = np.arange(len(gaps))
        if base is not None:
            if sum(base) > MAX_COPIES:
                raise TooLarge(
                    f"base: {sum(base)} copies in all; permute-and-flip tosses a coin for each "
                    f"and takes at most {MAX_COPIES}. Use rule='exponential'."
                )
            copies = np.repeat(copies, base)
        coins = self.bernoulli_exp_each(
            times(gaps, factor.numerator)[copies], denominator=factor.denominator
        )
        heads = copies[coins]
        return int(heads[self._reader().below(len(heads))])


class SecureNoise(Noise):
    """Draw from the operating system's randomness: the noise for releases.

    Short requests are read from the operating system, long ones are ChaCha20 keystream under a
    key that is read from it for that request alone. Nothing is kept between requests, neither key
    nor unused words, so there is no state that threads could share, that a forked child or a
    restored snapshot could repeat, or that could be read later to recompute past noise.

    Examples
    --------
    >>> SecureNoise().is_private
    True
    """

    is_private = True

    def _words(self, n: int) -> Words:
        raw = os.urandom(8 * n) if n <= 32 else _keystream(os.urandom(32)).update(bytes(8 * n))
        return _as_words(raw)


class SeededNoise(Noise):
    """Repeat the same draws for the same seed: for tests only, never private.

    The algorithms are those of `SecureNoise`, on the ChaCha20 keystream of a key made from the
    seed. Threads may share one, but then the order of their draws is not repeatable.

    Examples
    --------
    >>> one, two = SeededNoise(7), SeededNoise(7)
    >>> bool((one.uniform_below(100, size=9) == two.uniform_below(100, size=9)).all())
    True
    >>> one.is_private
    False
    """

    is_private = False

    def __init__(self, seed: int) -> None:
        refuse_if(not_whole("seed", seed, low=None))
        key = hashlib.blake2b(str(seed).encode(), digest_size=32, person=b"hushtable seed")
        self._stream = _keystream(key.digest())
        self._lock = threading.Lock()

    def _words(self, n: int) -> Words:
        with self._lock:
            return _as_words(self._stream.update(bytes(8 * n)))


def add_noise(counts: Integers, noise: Integers) -> Integers:
    """Add noise to counts, stopping at the ends of int64 instead of wrapping around.

    Stopping is a function of the exact sum alone, hence post-processing: it costs no privacy. An
    error instead would tell something about the counts.

    Examples
    --------
    >>> add_noise(np.array([5, 2**63 - 1]), np.array([-7, 1]))
    array([                 -2, 9223372036854775807])
    """
    problems = [
        f"{name}: the dtype is {array.dtype}; it must be int64."
        for name, array in (("counts", counts), ("noise", noise))
        if array.dtype != np.int64
    ]
    if counts.shape != noise.shape:
        problems.append(f"counts have shape {counts.shape} and noise {noise.shape}: not the same.")
    if problems:
        raise ParameterError(problems)
    total = counts + noise
    wrapped = ((counts ^ total) & (noise ^ total)) < 0  # both terms have the sign that was lost
    ends = np.iinfo(np.int64)
    total[wrapped] = np.where(noise[wrapped] < 0, ends.min, ends.max)
    return total


def _keystream(key: bytes) -> Any:
    with needing("publish", "randomness"):
        from cryptography.hazmat.primitives.ciphers import (  # noqa: PLC0415 - readers draw none
            Cipher,
            algorithms,
        )
    # A key is used for one stream only, so the nonce may be constant.
    return Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()


def _as_words(raw: bytes) -> Words:
    return np.frombuffer(raw, "<u8").astype(np.uint64)


def _first_occurrences(values: Integers) -> Integers:
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    return values[np.sort(order[first])]


def _binary_digits(numerator: int, denominator: int, n_digits: int) -> tuple[Coins, int]:
    """Return binary digits of a fraction below one (up to its end, if it has one) and the rest."""
    digits: list[bool] = []
    while numerator and len(digits) < n_digits:
        numerator *= 2
        digits.append(numerator >= denominator)
        if digits[-1]:
            numerator -= denominator
    return np.array(digits, np.bool_), numerator


def _room_for(n: int, p: Fraction) -> int:
    mean = int(n * p)
    return min(n, mean + 8 * math.isqrt(mean)) + 64


def not_rate(name: str, value: Fraction) -> str | None:
    """Say what is wrong with the rate of a geometric distribution."""
    problem = not_fraction(name, value, positive=True)
    if problem is None and value * MAX_SCALE < 1:
        return f"{name}: {value} is below 1/{MAX_SCALE}; draws might not fit an int64."
    return problem


def _check_trials(what: str, n: int) -> None:
    if n > MAX_TRIALS:
        raise TooLarge(f"{what}: n is {n}; at most {MAX_TRIALS} trials can be drawn exactly.")
