"""Exact samplers of `hushtable.privacy.noise.bit_reader`, compiled for parameters below 2**62.

They consume the stream bit for bit in the same way; tests compare the two draw for draw.

A kernel that runs out of words resets its state to the beginning of the current draw and returns.
The caller appends words and calls again, so the unfinished draw sees the same bits as before,
followed by more. No bits are discarded because of their value, which would bias the draw.

State of a kernel's stream: ``state[0]`` is the next word, ``state[1]`` the bits left of the last
word, ``state[2]`` their number. ``state[3]`` is 1 if the words ran out, and 2 if the kernel cannot
decide a draw with its precision; that draw is left to the `BitReader`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushtable.extras import needing

with needing("publish", "randomness"):
    from numba import njit


# ruff: noqa: PLR0917 - numba compiles positional parameters
# numba converts a mix of signed and unsigned integers to floats, so every cast below is needed.

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_WORD = np.uint64(64)
# A literal 1 has a type of its own in numba; each function called with it would compile again.
_UNIT = np.int64(1)


@njit
def _take(n_bits, words, state):  # type: ignore[no-untyped-def]
    """Return 1 to 62 random bits as int64, or set state[3] if there are not enough."""
    wanted = np.uint64(n_bits)
    held = state[2]
    if held >= wanted:
        taken = state[1] & ((_ONE << wanted) - _ONE)
        state[1] >>= wanted
        state[2] = held - wanted
        return np.int64(taken)
    if state[0] >= np.uint64(words.shape[0]):
        state[3] = _ONE
        return np.int64(0)
    word = words[state[0]]
    state[0] += _ONE
    missing = wanted - held
    taken = state[1] | ((word & ((_ONE << missing) - _ONE)) << held)
    state[1] = word >> missing
    state[2] = _WORD - missing
    return np.int64(taken)


@njit
def _below(n, words, state):  # type: ignore[no-untyped-def]
    """Return a uniform integer in [0, n), n <= 2**62."""
    n_bits = 0
    rest = n - 1
    while rest > 0:
        n_bits += 1
        rest >>= 1
    if n_bits == 0:
        return np.int64(0)
    while True:
        value = _take(n_bits, words, state)
        if value < n or state[3] != _ZERO:
            return value


@njit
def _bernoulli(numerator, denominator, words, state):  # type: ignore[no-untyped-def]
    if numerator >= denominator:
        return True
    while numerator > 0:
        numerator *= 2
        digit = numerator >= denominator
        if digit:
            numerator -= denominator
        bit = _take(1, words, state) != 0
        if state[3] != _ZERO:
            return False
        if bit != digit:
            return digit
    return False


@njit
def _bernoulli_exp_within_one(numerator, denominator, words, state):  # type: ignore[no-untyped-def]
    k = 1
    while (
        _below(k, words, state) == 0
        and _bernoulli(numerator, denominator, words, state)
        and state[3] == _ZERO
    ):
        k += 1
    return k % 2 == 1


@njit
def _bernoulli_exp(numerator, denominator, words, state):  # type: ignore[no-untyped-def]
    whole = numerator // denominator
    part = numerator - whole * denominator
    while whole > 0:
        if not _bernoulli_exp_within_one(_UNIT, _UNIT, words, state) or state[3] != _ZERO:
            return False
        whole -= 1
    return _bernoulli_exp_within_one(part, denominator, words, state)


@njit
def _geometric(numerator, denominator, words, state):  # type: ignore[no-untyped-def]
    while True:
        remainder = _below(denominator, words, state)
        accepted = _bernoulli_exp_within_one(remainder, denominator, words, state)
        if accepted or state[3] != _ZERO:
            break
    # (remainder + denominator * whole) // numerator, stored as quotient and remainder so that no
    # product is computed. The result grows by denominator/numerator <= 2**50 (the caller's limit)
    # per step, so int64 holds it for 2**12 steps; more have probability e**-4096.
    per_step = denominator // numerator
    rest_per_step = denominator - per_step * numerator
    result = remainder // numerator
    rest = remainder - result * numerator
    while _bernoulli_exp_within_one(_UNIT, _UNIT, words, state) and state[3] == _ZERO:
        result += per_step
        rest += rest_per_step
        if rest >= numerator:
            rest -= numerator
            result += 1
    return result


@njit
def _laplace(numerator, denominator, words, state):  # type: ignore[no-untyped-def]
    while True:
        magnitude = _geometric(denominator, numerator, words, state)
        negative = _take(1, words, state)
        if state[3] != _ZERO:
            return np.int64(0)
        if negative == 0:
            return magnitude
        if magnitude != 0:
            return -magnitude


@njit
def _put(state, into):  # type: ignore[no-untyped-def]
    """Copy the state; ``into[:] = state`` takes seconds to compile."""
    for i in range(4):
        into[i] = state[i]


@njit
def _ran_out(state, start):  # type: ignore[no-untyped-def]
    """Restore the state at the start of the draw if it is unfinished; otherwise save the state."""
    if state[3] != _ZERO:
        _put(start, state)
        return True
    _put(state, start)
    return False


@njit(nogil=True, cache=True)
def fill_below(n, out, done, words, state):  # type: ignore[no-untyped-def]
    """Fill out[done:] with uniform integers in [0, n); return the number of entries filled."""
    start = state.copy()
    while done < out.shape[0]:
        value = _below(n, words, state)
        if _ran_out(state, start):
            break
        out[done] = value
        done += 1
    return done


@njit(nogil=True, cache=True)
def fill_shuffle(items, done, words, state):  # type: ignore[no-untyped-def]
    """Put a uniformly chosen remaining item at each of the positions from `done` on."""
    start = state.copy()
    n = items.shape[0]
    while done < n:
        other = done + _below(n - done, words, state)
        if _ran_out(state, start):
            break
        items[done], items[other] = items[other], items[done]
        done += 1
    return done


@njit(nogil=True, cache=True)
def fill_bernoulli_exp(numerators, denominator, out, done, words, state):  # type: ignore[no-untyped-def]
    """Draw a boolean of probability exp(-numerators[i]/denominator) for each i from `done` on."""
    start = state.copy()
    while done < out.shape[0]:
        value = _bernoulli_exp(numerators[done], denominator, words, state)
        if _ran_out(state, start):
            break
        out[done] = value
        done += 1
    return done


@njit(nogil=True, cache=True)
def fill_geometric(numerator, denominator, out, done, words, state):  # type: ignore[no-untyped-def]
    """Fill out[done:] with draws of P[g] ~ exp(-g * numerator / denominator)."""
    start = state.copy()
    while done < out.shape[0]:
        value = _geometric(numerator, denominator, words, state)
        if _ran_out(state, start):
            break
        out[done] = value
        done += 1
    return done


@njit(nogil=True, cache=True)
def fill_laplace(numerator, denominator, out, done, words, state):  # type: ignore[no-untyped-def]
    """Fill out[done:] with draws of P[z] ~ exp(-abs(z) * denominator / numerator)."""
    start = state.copy()
    while done < out.shape[0]:
        value = _laplace(numerator, denominator, words, state)
        if _ran_out(state, start):
            break
        out[done] = value
        done += 1
    return done


@njit
def _square(x):  # type: ignore[no-untyped-def]
    """Return the high and low words of x * x."""
    high, low = x >> _HALF_WORD, x & _LOW_HALF
    cross = high * low
    low_part = low * low
    shifted = cross << np.uint64(33)
    total = low_part + shifted
    carry = _ONE if total < low_part else _ZERO
    return high * high + (cross >> np.uint64(31)) + carry, total


@njit
def _subtract(high, low, minus_high, minus_low):  # type: ignore[no-untyped-def]
    borrow = _ONE if low < minus_low else _ZERO
    return high - minus_high - borrow, low - minus_low


@njit
def _wide_bernoulli(high, low, over_high, over_low, words, state):  # type: ignore[no-untyped-def]
    """Draw like `_bernoulli` for a 128-bit fraction below 1 whose denominator is below 2**126."""
    while high != _ZERO or low != _ZERO:
        high = (high << _ONE) | (low >> np.uint64(63))
        low <<= _ONE
        digit = high > over_high or (high == over_high and low >= over_low)
        if digit:
            high, low = _subtract(high, low, over_high, over_low)
        bit = _take(1, words, state) != 0
        if state[3] != _ZERO:
            return False
        if bit != digit:
            return digit
    return False


@njit
def _wide_bernoulli_exp(high, low, over_high, over_low, words, state):  # type: ignore[no-untyped-def]
    while high > over_high or (high == over_high and low >= over_low):
        if not _bernoulli_exp_within_one(_UNIT, _UNIT, words, state) or state[3] != _ZERO:
            return False
        high, low = _subtract(high, low, over_high, over_low)
    k = 1
    while (
        _below(k, words, state) == 0
        and _wide_bernoulli(high, low, over_high, over_low, words, state)
        and state[3] == _ZERO
    ):
        k += 1
    return k % 2 == 1


@njit(nogil=True, cache=True)
def fill_gaussian(  # type: ignore[no-untyped-def]
    numerator, denominator, scale, over_high, over_low, out, done, words, state
):
    """Fill out[done:] with draws of P[z] ~ exp(-z**2 / (2 * numerator/denominator)).

    `over_high` and `over_low` are the words of 2 * numerator * denominator * scale**2.
    """
    start = state.copy()
    step = scale * denominator
    while done < out.shape[0]:
        while True:
            z = _laplace(scale, _UNIT, words, state)
            if state[3] != _ZERO:
                break
            high, low = _square(np.uint64(abs(abs(z) * step - numerator)))
            accepted = _wide_bernoulli_exp(high, low, over_high, over_low, words, state)
            if accepted or state[3] != _ZERO:
                break
        if _ran_out(state, start):
            break
        out[done] = z
        done += 1
    return done


@njit
def _bernoulli_tail(k, x, digit_bits, words, state):  # type: ignore[no-untyped-def]
    """Return True with probability exp(-x (2 k + x) / (2 k + 2)), from first digits of numbers."""
    last = x
    even = True
    while True:
        number = _take(digit_bits, words, state)
        if state[3] == _ZERO and number == last:
            state[3] = _TWO
        if state[3] != _ZERO or number > last:
            return even
        part = _below(2 * k + 2, words, state)
        if part == 2 * k and state[3] == _ZERO:
            other = _take(digit_bits, words, state)
            if state[3] == _ZERO and other == x:
                state[3] = _TWO
            if other > x:
                return even
        if state[3] != _ZERO or part > 2 * k:
            return even
        last = number
        even = not even


@njit
def _normal(digit_bits, words, state):  # type: ignore[no-untyped-def]
    """Draw the integer part and the first digit of the absolute value of a normal number."""
    while True:
        k = _geometric(_UNIT, np.int64(2), words, state)
        x = np.int64(0)
        accepted = _bernoulli_exp(k * (k - 1), np.int64(2), words, state)
        if accepted and state[3] == _ZERO:
            x = _take(digit_bits, words, state)
            tosses = 0
            while accepted and tosses <= k and state[3] == _ZERO:
                accepted = _bernoulli_tail(k, x, digit_bits, words, state)
                tosses += 1
        if accepted or state[3] != _ZERO:
            return k, x


@njit(nogil=True, cache=True)
def fill_rounded_gaussian(sigma, digit_bits, out, done, words, state):  # type: ignore[no-untyped-def]
    """Fill out[done:] with normal numbers of standard deviation `sigma`, rounded to integers.

    `sigma` is a float with a relative error below 2**-50. A draw is decided here if both ends of
    the interval left open by the first digit round to the same integer, each end moved outward by
    2**-48 of itself plus 1: the error of IEEE arithmetic is smaller. Otherwise, or if two digits
    were equal, the kernel stops before the draw, with ``state[3]`` at 2.
    """
    start = state.copy()
    unit = 1.0 / float(np.int64(1) << digit_bits)
    slack = 2.0**-48
    while done < out.shape[0]:
        k, x = _normal(digit_bits, words, state)
        negative = _take(1, words, state)
        low = sigma * (k + x * unit)
        high = sigma * (k + (x + 1) * unit)
        size = np.floor(low - (low + 1.0) * slack + 0.5)
        if state[3] == _ZERO and size != np.floor(high + (high + 1.0) * slack + 0.5):
            state[3] = _TWO
        undecided = state[3] == _TWO
        if _ran_out(state, start):
            if undecided:
                state[3] = _TWO
            break
        out[done] = -np.int64(size) if negative != 0 else np.int64(size)
        done += 1
    return done


@njit(nogil=True, cache=True)
def fill_subset(  # type: ignore[no-untyped-def]
    n, digits, finite, group, words, position, out, kept
):
    """Keep each index in [0, n) with the probability whose binary digits are given, 64 at a time.

    Each word provides one random bit to each index of a group of 64. An index is decided at the
    first bit that differs from the probability's digit. Returns (next group, next word, number
    kept, whether more digits are needed); a group that cannot be finished is left unchanged.
    """
    while group * 64 < n and kept + 64 <= out.shape[0]:
        at = position
        open_ = _ALL
        inside = _ZERO
        k = 0
        while open_ != _ZERO and k < digits.shape[0]:
            if at >= words.shape[0]:
                return group, position, kept, False
            word = words[at]
            at += 1
            if digits[k]:
                inside |= open_ & ~word
                open_ &= word
            else:
                open_ &= ~word
            k += 1
        if open_ != _ZERO and not finite:
            return group, position, kept, True
        position = at
        index = group * 64
        while inside != _ZERO and index < n:
            if inside & _ONE != _ZERO:
                out[kept] = index
                kept += 1
            inside >>= _ONE
            index += 1
        group += 1
    return group, position, kept, False


# Words of a ChaCha20 keystream, for reproducible noise.
#
# ChaCha20 as in RFC 8439, with a nonce of zeros and the original 64-bit counter: identical up to
# block 2**32, where the RFC's counter ends. No secret depends on it: noise for releases is read
# from the operating system.

# numba computes with 64 bits; storing into a 32-bit array truncates.

_SIGMA = np.frombuffer(b"expand 32-byte k", "<u4").astype(np.uint32)
_WORDS_PER_BLOCK = 8


@njit
def _mix(x, a, b, c, bits):  # type: ignore[no-untyped-def]
    """Add b to a, and rotate c xor a to the left by some bits."""
    x[a] += x[b]
    mixed = np.uint64(x[c] ^ x[a])
    x[c] = mixed << np.uint64(bits) | mixed >> np.uint64(32 - bits)


@njit
def _quarter_round(x, a, b, c, d):  # type: ignore[no-untyped-def]
    _mix(x, a, b, d, 16)
    _mix(x, c, d, b, 12)
    _mix(x, a, b, d, 8)
    _mix(x, c, d, b, 7)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def fill_words(key: NDArray[np.uint32], begin: int, out: NDArray[np.uint64]) -> None:
    """Fill `out` with the words of a key's stream, starting at word `begin`.

    The key is 8 words of 32 bits. Each output word is eight bytes of the stream, lowest first.
    """
    start, x = np.zeros(16, np.uint32), np.empty(16, np.uint32)
    for i in range(4):
        start[i] = _SIGMA[i]
    for i in range(8):
        start[4 + i] = key[i]
    done = 0
    while done < len(out):
        block, skipped = divmod(begin + done, _WORDS_PER_BLOCK)
        start[12] = np.uint64(block) & _LOW_HALF
        start[13] = np.uint64(block) >> _HALF_WORD
        for i in range(16):
            x[i] = start[i]
        for _ in range(10):
            for i in range(4):
                _quarter_round(x, i, 4 + i, 8 + i, 12 + i)
            for i in range(4):
                _quarter_round(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
        for i in range(16):
            x[i] += start[i]
        for i in range(skipped, min(_WORDS_PER_BLOCK, skipped + len(out) - done)):
            out[done] = np.uint64(x[2 * i]) | np.uint64(x[2 * i + 1]) << _HALF_WORD
            done += 1
