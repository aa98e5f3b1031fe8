"""Exact samplers on random 64-bit words: Bernoulli variables, indexes, count noise, selection.

Every sampler of `hushtable.privacy.noise.noise.Noise` gets its randomness from `RandomWords`.
Subclasses define the source of the words (`hushtable.privacy.noise.sources`).
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hushtable import kernels
from hushtable.arrays import Bools, Integers
from hushtable.errors import ParameterError, TooLarge
from hushtable.privacy.noise.bit_reader import DIGIT_BITS, KERNEL_LIMIT, BitReader, Words
from hushtable.privacy.rational import exp_bounds


class RandomWords(ABC):
    """Source of random words for samplers and compiled kernels."""

    # Words fetched at a time; one megabyte fits in the cache. Tests set it to 1.
    _chunk: ClassVar[int] = 1 << 17

    is_private: bool
    """True if results made with these words may be called private."""

    @abstractmethod
    def _words(self, n: int) -> Words:
        """Return n independent uniform 64-bit words that were never returned before."""

    def with_words(self, words: Callable[[int], Words]) -> Self:
        """Return a copy that reads its words from `words`; its results are not private.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> noise = SecureNoise().with_words(lambda n: np.zeros(n, np.uint64))
        >>> noise.uniform_below(100, size=3), noise.is_private
        (array([0, 0, 0]), False)
        """
        other = copy(self)
        vars(other).update(_words=words, is_private=False)
        return other

    def _reader(self) -> BitReader:
        return BitReader(self._words)

    def _fill(
        self,
        kernel: Callable[..., int],
        parameters: tuple[Any, ...],
        out: NDArray[Any],
        *,
        bits_per_draw: int,
        undecided: Callable[[BitReader], int] | None = None,
    ) -> None:
        """Run a resumable kernel until `out` is full, appending words whenever it runs out of them.

        A draw that the kernel cannot decide is made by `undecided` from the same bits.
        """
        state = np.zeros(4, np.uint64)
        words: Words = np.empty(0, np.uint64)
        done = 0
        while done < len(out):
            n_words = min((len(out) - done) * bits_per_draw // 64 + 16, self._chunk)
            words = np.concatenate((words[int(state[0]) :], self._words(n_words)))
            state[0] = 0
            done = kernel(*parameters, out, done, words, state)
            while undecided is not None and state[3]:
                reader = BitReader(self._words, _bits(words, state))
                out[done] = undecided(reader)
                words = _unread(reader, state)
                done = kernel(*parameters, out, done + 1, words, state)


def _bits(words: Words, state: Words) -> tuple[int, int]:
    """Return the bits that a kernel left, as an integer, and their number."""
    rest, n_held = words[int(state[0]) :], int(state[2])
    following = int.from_bytes(rest.astype("<u8").tobytes(), "little")
    return int(state[1]) | following << n_held, n_held + 64 * len(rest)


def _unread(reader: BitReader, state: Words) -> Words:
    """Return the bits that a reader left, as words, and point the kernel's state to their start."""
    held, n_bits = reader.held
    n_words, n_held = divmod(n_bits, 64)
    state[:] = 0, held & (1 << n_held) - 1, n_held, 0
    return np.frombuffer((held >> n_held).to_bytes(8 * n_words, "little"), "<u8").astype(np.uint64)


# Checks of the arguments of samplers; each returns a problem in words, or None.


def refuse_if(*problems: str | None) -> None:
    """Raise `ParameterError` with all problems, if there are any."""
    found = [problem for problem in problems if problem]
    ParameterError.raise_if_any(found)


def not_whole(
    name: str, value: object, *, low: int | None = 0, high: int | None = None
) -> str | None:
    """Return what is wrong with an integer, or None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{name}: {value!r} is not a Python integer."
    if low is not None and value < low:
        return f"{name}: {value} is below {low}."
    if high is not None and value > high:
        return f"{name}: {value} is above {high}."
    return None


def not_fraction(
    name: str, value: object, *, positive: bool = False, high: int | None = None
) -> str | None:
    """Return what is wrong with a fraction, or None."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        return f"{name}: {value!r} is not a Fraction. Use rational.as_rational to make one."
    if value < 0 or (positive and value == 0):
        return f"{name}: {value} must be {'above' if positive else 'at least'} 0."
    if high is not None and value > high:
        return f"{name}: {value} is above {high}."
    return None


def as_integers(name: str, values: NDArray[Any] | Sequence[int]) -> NDArray[Any]:
    """Return an int64 array, or an array of Python integers if one does not fit."""
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64)
    exact = np.array(values, object)
    if exact.ndim != 1 or any(
        isinstance(v, bool) or not isinstance(v, int) for v in exact.tolist()
    ):
        raise ParameterError(f"{name}: must be a one-dimensional array or sequence of integers.")
    return exact


def as_weights(name: str, weights: Sequence[int]) -> list[int]:
    """Return Python integers of at least 0, not all 0; raise `ParameterError` otherwise."""
    values = [int(w) for w in as_integers(name, weights).tolist()]
    if not values or min(values) < 0 or not any(values):
        raise ParameterError(f"{name}: all must be at least 0, and at least one above 0.")
    return values


# Bernoulli variables and random subsets.

MAX_TRIALS = 10**12
"""Limit of n for `subset`; n = 1e9 takes some 0.7 s."""


class BernoulliSampler(RandomWords):
    """Bernoulli samplers for probabilities p and exp(-x), p and x fractions."""

    def bernoulli(self, p: Fraction, *, size: int) -> Bools:
        """Draw `size` booleans that are True with probability p, any fraction from 0 to 1.

        Examples
        --------
        >>> from hushtable import SecureNoise
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
            # All 64 bits agree with those of p: compare later digits.
            for i in np.flatnonzero(words == threshold):
                part[i] = self._reader().bernoulli(rest, p.denominator)
        return out

    def bernoulli_exp(self, x: Fraction, *, size: int) -> Bools:
        """Draw `size` booleans that are True with probability exp(-x), x >= 0.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().bernoulli_exp(Fraction(0), size=2)
        array([ True,  True])
        """
        refuse_if(not_fraction("x", x), not_whole("size", size))
        fits = x.numerator < KERNEL_LIMIT
        numerators = np.full(size, x.numerator, np.int64 if fits else object)
        return self.bernoulli_exp_each(numerators, denominator=x.denominator)

    def bernoulli_exp_each(self, numerators: NDArray[Any], *, denominator: int) -> Bools:
        """Draw one boolean per element, True with probability exp(-numerators[i]/denominator).

        Numbers of 2**62 and more are exact too, but slower (Python integers).

        Examples
        --------
        >>> from hushtable import SecureNoise
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
            self._fill(kernels.samplers.fill_bernoulli_exp, parameters, out, bits_per_draw=6)
            return out
        reader = self._reader()
        for i, numerator in enumerate(numerators.tolist()):
            out[i] = reader.bernoulli_exp(numerator, denominator)
        return out

    def subset(self, n: int, *, p: Fraction) -> Integers:
        """Keep each of 0, ..., n-1 independently with probability p; return those kept, in order.

        Reads about n/9 random words; n is at most `MAX_TRIALS`.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().subset(3, p=Fraction(1))
        array([0, 1, 2])
        """
        refuse_if(not_whole("n", n), not_fraction("p", p, high=1))
        if n > MAX_TRIALS:
            raise TooLarge(f"subset: n is {n}; at most {MAX_TRIALS} trials can be drawn exactly.")
        if p == 1:
            return np.arange(n, dtype=np.int64)
        digits, rest = _binary_digits(p.numerator, p.denominator, 128)
        out = np.empty(_buffer_size(n, p), np.int64)
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
            if short:  # the digits did not decide a group, which restarts with more of them
                more, rest = _binary_digits(rest, p.denominator, len(digits))
                digits = np.concatenate((digits, more))
        return out[:kept].copy()


def _binary_digits(numerator: int, denominator: int, n_digits: int) -> tuple[Bools, int]:
    """Return binary digits of a fraction below 1 (up to its end, if finite) and the remainder."""
    whole, rest = divmod(numerator << n_digits, denominator)
    if not rest:
        n_zeros = (whole & -whole).bit_length() - 1 if whole else n_digits
        whole, n_digits = whole >> n_zeros, n_digits - n_zeros
    n_bytes = -(-n_digits // 8)
    digits = np.unpackbits(np.frombuffer(whole.to_bytes(n_bytes, "big"), np.uint8))
    return digits[8 * n_bytes - n_digits :].astype(np.bool_), rest


def _buffer_size(n: int, p: Fraction) -> int:
    mean = int(n * p)
    return min(n, mean + 8 * math.isqrt(mean)) + 64


# Random indexes and orders.


class IndexSampler(RandomWords):
    """Samplers of integers in [0, n), and of permutations of them."""

    def uniform_below(self, n: int, *, size: int) -> Integers:
        """Draw `size` independent uniform integers in [0, n), n at most 2**62.

        Examples
        --------
        >>> from hushtable import SecureNoise
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
        >>> from hushtable import SecureNoise
        >>> 0 <= SecureNoise().integer_below(10**40) < 10**40
        True
        """
        refuse_if(not_whole("n", n, low=1))
        return self._reader().below(n)

    def permutation(self, n: int) -> Integers:
        """Draw a uniformly random order of 0, ..., n-1.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> sorted(SecureNoise().permutation(4).tolist())
        [0, 1, 2, 3]
        """
        refuse_if(not_whole("n", n, high=KERNEL_LIMIT))
        items = np.arange(n, dtype=np.int64)
        bits = 2 * n.bit_length()
        self._fill(kernels.samplers.fill_shuffle, (), items, bits_per_draw=bits)
        return items


# Samplers of noise for counts: geometric, discrete Laplace, discrete and rounded Gaussian.

MAX_SCALE = 2**50
"""Noise of a larger scale might exceed int64."""


class CountNoiseSampler(RandomWords):
    """Samplers of integer noise."""

    def geometric(self, x: Fraction, *, size: int) -> Integers:
        """Draw `size` integers g >= 0 with P[g] = (1 - exp(-x)) * exp(-x * g), x > 0.

        The time per draw does not depend on x.

        Examples
        --------
        >>> from hushtable import SecureNoise
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

        Added to counts with L1 sensitivity `sensitivity`, a scale of sensitivity/epsilon gives
        epsilon-differential privacy.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().discrete_laplace(Fraction(10), size=5).dtype
        dtype('int64')
        """
        check_scale(scale, size)
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

        `variance` is the parameter of the distribution; for small values the true variance is
        smaller. A variance with a long denominator needs Python integers, which are some hundred
        times slower; round it up to a simple fraction to avoid this.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().discrete_gaussian(Fraction(9, 2), size=5).dtype
        dtype('int64')
        """
        check_variance(variance, size)
        a, b = variance.numerator, variance.denominator
        scale = math.isqrt(a // b) + 1
        over = 2 * a * b * scale * scale
        # The kernel squares |z| * scale * b - a; |z| < 2**12 * scale except with prob. e**-4096.
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

    def rounded_gaussian(self, variance: Fraction, *, size: int) -> Integers:
        """Draw `size` normal numbers of this variance, each rounded to the nearest integer.

        P[z] is Phi((z + 1/2) / sigma) - Phi((z - 1/2) / sigma). Added to integers, this is the
        Gaussian mechanism with its result rounded. The true variance is larger by 1/12, or by less
        if the standard deviation is below a half.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().rounded_gaussian(Fraction(9, 2), size=5).dtype
        dtype('int64')
        """
        check_variance(variance, size)
        a, b = variance.numerator, variance.denominator
        out = np.empty(size, np.int64)
        self._fill(
            kernels.samplers.fill_rounded_gaussian, (math.sqrt(a / b), DIGIT_BITS), out,
            bits_per_draw=240, undecided=lambda reader: reader.rounded_gaussian(a, b),
        )  # fmt: skip
        return out


def check_scale(scale: Fraction, size: int) -> None:
    """Raise `ParameterError` for a scale or size that `discrete_laplace` does not support."""
    problem = not_fraction("scale", scale, positive=True, high=MAX_SCALE)
    refuse_if(problem, not_whole("size", size))


def check_variance(variance: Fraction, size: int) -> None:
    """Raise `ParameterError` for a variance or size that Gaussian samplers do not support."""
    problem = not_fraction("variance", variance, positive=True, high=MAX_SCALE**2)
    refuse_if(problem, not_whole("size", size))


def not_rate(name: str, value: Fraction) -> str | None:
    """Return what is wrong with the rate of a geometric distribution, or None."""
    problem = not_fraction(name, value, positive=True)
    if problem is None and value * MAX_SCALE < 1:
        return f"{name}: {value} is below 1/{MAX_SCALE}; draws might not fit an int64."
    return problem


# Private selection: the exponential mechanism and permute-and-flip.


class ExponentialWeights:
    """Sampler of a level's index with probability proportional to mass * exp(-level), exactly.

    The weights are irrational, so they are bounded from both sides; a uniform number and the bounds
    are refined together until only one level is possible. The first round decides all except about
    one draw in 2**56. Levels too small to matter at the current precision are bounded together.
    """

    def __init__(self, levels: list[int], masses: list[int]) -> None:
        self.levels = levels  # ascending, the first is 0
        self._masses = masses
        self._tail_masses = list(itertools.accumulate(reversed(masses)))[::-1]
        self._bounds = functools.cache(self._compute_bounds)

    def _compute_bounds(self, bits: int) -> tuple[list[int], list[int], int]:
        """Return cumulative lower and upper bounds, and the upper bound of the total."""
        precision = bits + self._tail_masses[0].bit_length()
        lows, highs = [0], [0]
        for level, mass in zip(self.levels, self._masses, strict=True):
            if level > precision:  # exp(-level) < 2**-precision
                break
            low, high = _exp_minus(level, precision)
            lows.append(lows[-1] + mass * low)
            highs.append(highs[-1] + mass * high)
        n_near = len(lows) - 1
        # In units of 2**-precision, each weight beyond is below its mass.
        far = self._tail_masses[n_near] if n_near < len(self.levels) else 0
        return lows[1:], highs[1:], highs[-1] + far

    def draw(self, reader: BitReader) -> int:
        """Return the index of a level."""
        n_bits = 64
        uniform = reader.take(n_bits)  # the number is in [uniform, uniform + 1) / 2**n_bits
        while True:
            lows, highs, total_high = self._bounds(n_bits)
            total_low = lows[-1]
            # The first level not certainly passed is drawn if the number is certainly in it.
            at = bisect.bisect_right(highs, uniform * total_low >> n_bits)
            if at < len(lows) and (uniform + 1) * total_high <= lows[at] << n_bits:
                return at
            uniform = uniform << 64 | reader.take(64)
            n_bits += 64


@functools.lru_cache(maxsize=4096)
def _exp_minus(level: int, precision: int) -> tuple[int, int]:
    """Bound exp(-level) by integers over 2**precision."""
    low, high = exp_bounds(Fraction(-level), precision)
    return math.floor(low * (1 << precision)), math.ceil(high * (1 << precision))


Rule = Literal["exponential", "permute-and-flip"]

MAX_COPIES = 10**7
"""Limit of copies: permute-and-flip makes one draw per copy of a candidate in the base measure."""


def candidates_of(
    scores: Integers | Sequence[int], base: Sequence[int] | None
) -> tuple[Integers, NDArray[Any], list[int] | None]:
    """Return the candidates with positive base measure, their gaps to the best, and weights."""
    values = as_integers("scores", scores)
    if not len(values):
        raise ParameterError("scores is empty; at least one candidate is needed.")
    candidates, weights = np.arange(len(values)), None
    if base is not None:
        all_weights = as_weights("base", base)
        if len(all_weights) != len(values):
            raise ParameterError(f"base: {len(all_weights)} weights for {len(values)} scores.")
        candidates = np.array([i for i, w in enumerate(all_weights) if w])
        weights = [w for w in all_weights if w]
        values = values[candidates]
    best = int(values.max())
    if best - int(values.min()) >= KERNEL_LIMIT:
        values = values.astype(object)
    return candidates, best - values, weights


def exponent_per_score(epsilon: Fraction, sensitivity: Fraction, monotone: bool) -> Fraction:
    """Return the increase of the exponent per unit of score."""
    refuse_if(
        not_fraction("epsilon", epsilon, positive=True),
        not_fraction("sensitivity", sensitivity, positive=True),
        None if isinstance(monotone, bool) else f"monotone: {monotone!r} is not True or False.",
    )
    return Fraction(epsilon) / (sensitivity if monotone else 2 * sensitivity)


def times(gaps: NDArray[Any], factor: int) -> NDArray[Any]:
    """Multiply; use Python integers if the product might exceed int64."""
    if gaps.dtype != object and int(gaps.max()) * factor >= KERNEL_LIMIT:
        gaps = gaps.astype(object)
    return gaps * factor


class SelectionSampler(BernoulliSampler):
    """Samplers that select candidates with high scores."""

    def choose(
        self,
        scores: Integers | Sequence[int],
        *,
        epsilon: Fraction,
        sensitivity: Fraction,
        monotone: bool,
        base: Sequence[int] | None = None,
        rule: Rule = "exponential",
    ) -> int:
        """Select an index with a high score, epsilon-differentially private.

        Parameters
        ----------
        scores
            Integer scores of the candidates.
        epsilon, sensitivity
            Privacy cost of the selection, and the most by which one person changes any score.
        monotone
            Whether adding a person changes all scores in the same direction (or not at all). The
            exponent is then epsilon/sensitivity per unit of score, otherwise half of that.
        base
            Non-negative integer weights that do not depend on the private data: candidate i counts
            as base[i] candidates with the same score.
        rule
            ``"exponential"``: P[i] proportional to base[i] * exp(factor * scores[i]).
            ``"permute-and-flip"``: visit the candidates (each base[i] times) in random order and
            stop at the first success of a draw with probability exp(factor * (score - best)). It is
            better on average, and epsilon-differentially private with the same factors. But its
            privacy loss has a range of up to 2 epsilon, compared with epsilon for the exponential
            mechanism, so the bounded-range cost of epsilon**2/8 does not apply.

        Examples
        --------
        >>> from hushtable import SecureNoise
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

    def _exponential(self, gaps: NDArray[Any], factor: Fraction, base: list[int] | None) -> int:
        """Draw i with probability proportional to base[i] * exp(-factor * gaps[i]).

        Candidates are grouped by level = floor(factor * gap). A level is drawn with probability
        proportional to (its base measure) * exp(-level), then a candidate on it by base measure,
        which is accepted with probability exp(-(factor * gap - level)). The product of the three is
        the required weight. The last factor is above 1/e, so fewer than e rounds are expected,
        whatever the scores and the base measure.
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
        levels = ExponentialWeights([int(level) for level in sorted_levels[starts]], masses)
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
            if reader.bernoulli_exp(above, factor.denominator):
                return candidate

    def _permute_and_flip(
        self, gaps: NDArray[Any], factor: Fraction, base: list[int] | None
    ) -> int:
        """Draw the first success in a random order of candidates.

        If the order is independent of the draws, each success is equally likely to be the first:
        make all draws at once and select one of the successes uniformly. The best candidate has gap
        0 and always succeeds. With a base measure, each copy has its own draw.
        """
        copies = np.arange(len(gaps))
        if base is not None:
            if sum(base) > MAX_COPIES:
                raise TooLarge(
                    f"base has {sum(base)} copies in total; permute-and-flip makes a draw for each "
                    f"and allows at most {MAX_COPIES}. Use rule='exponential'."
                )
            copies = np.repeat(copies, base)
        coins = self.bernoulli_exp_each(
            times(gaps, factor.numerator)[copies], denominator=factor.denominator
        )
        heads = copies[coins]
        return int(heads[self._reader().below(len(heads))])
