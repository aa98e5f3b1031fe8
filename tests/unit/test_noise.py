"""Samplers bit by bit: kernels, refills, ties, limits, forks, threads, seeds."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections import defaultdict
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from hushtable.errors import ParameterError, TooLarge
from hushtable.kernels import samplers
from hushtable.privacy.mechanisms.mechanism import add_noise
from hushtable.privacy.noise import sources
from hushtable.privacy.noise.bit_reader import BitReader
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.samplers import ExponentialWeights
from hushtable.privacy.noise.sources import OpenDPNoise, SecureNoise, SeededNoise, make_noise
from hushtable.privacy.rational import exp_bounds
from seeds import shifted

ONE = Fraction(1)


class ScriptedNoise(Noise):
    """Noise that returns given words first, then those of a seed."""

    is_private = False

    def __init__(self, script=(), seed=0):
        self._script = list(script)
        self._rest = SeededNoise(shifted(seed))

    def _words(self, n):
        head, self._script = self._script[:n], self._script[n:]
        return np.concatenate((np.array(head, np.uint64), self._rest._words(n - len(head))))


class DripNoise(ScriptedNoise):
    """Noise that fetches one word at a time, so that nearly every draw runs out of words."""

    _chunk = 1


# --- the algorithms, by walking the tree of all bit strings ---


class _OutOfBits(Exception):  # noqa: N818
    pass


class _PathReader(BitReader):
    def __init__(self, bits):
        self._bits = bits
        self._at = 0

    def take(self, n_bits):
        if self._at + n_bits > len(self._bits):
            raise _OutOfBits
        taken = self._bits[self._at : self._at + n_bits]
        self._at += n_bits
        return sum(bit << i for i, bit in enumerate(taken))


def _masses(sampler, depth):
    """Return the exact probability of each outcome within `depth` bits, and the undecided rest."""
    masses, undecided = defaultdict(Fraction), Fraction(0)
    paths = [()]
    while paths:
        bits = paths.pop()
        try:
            masses[sampler(_PathReader(bits))] += Fraction(1, 2 ** len(bits))
        except _OutOfBits:
            if len(bits) == depth:
                undecided += Fraction(1, 2**depth)
            else:
                paths += [(*bits, 0), (*bits, 1)]
    return masses, undecided


def _laplace_mass(scale):
    def mass(z):
        q = math.exp(-1 / scale)
        return (1 - q) / (1 + q) * q ** abs(z)

    return mass


def _gaussian_mass(variance):
    total = sum(math.exp(-z * z / (2 * variance)) for z in range(-200, 201))
    return lambda z: math.exp(-z * z / (2 * variance)) / total


def _rounded_mass(variance):
    def above(x):
        return math.erfc(x / math.sqrt(2 * variance)) / 2

    return lambda z: above(z - 0.5) - above(z + 0.5)


@pytest.mark.parametrize(
    ("sampler", "mass", "depth", "most_open"),
    [
        (lambda r: r.below(5), lambda _: 1 / 5, 15, 0.5),
        (lambda r: r.bernoulli(2, 7), lambda b: 2 / 7 if b else 5 / 7, 14, 0.5),
        (lambda r: r.bernoulli(3, 8), lambda b: 3 / 8 if b else 5 / 8, 14, 0.5),
        (
            lambda r: r.bernoulli_exp(1, 3),
            lambda b: math.exp(-1 / 3) if b else 1 - math.exp(-1 / 3),
            15,
            0.5,
        ),
        (
            lambda r: r.bernoulli_exp(7, 2),
            lambda b: math.exp(-3.5) if b else 1 - math.exp(-3.5),
            15,
            0.5,
        ),
        (
            lambda r: r.geometric(2, 3),
            lambda g: (1 - math.exp(-2 / 3)) * math.exp(-2 * g / 3),
            17,
            0.5,
        ),
        (lambda r: r.laplace(3, 2), _laplace_mass(1.5), 17, 0.5),
        (lambda r: r.laplace(1, 2), _laplace_mass(0.5), 17, 0.5),
        (lambda r: r.gaussian(3, 4, 1), _gaussian_mass(0.75), 18, 0.5),
        (lambda r: r.rounded_gaussian(3, 4, 1), _rounded_mass(0.75), 18, 0.65),
        (lambda r: r.rounded_gaussian(2, 1, 1), _rounded_mass(2.0), 18, 0.65),
    ],
)
def test_every_bit_string_adds_up_to_the_distribution(sampler, mass, depth, most_open):
    """Deterministic: decided outcomes never exceed their probability; the rest is undecided."""
    masses, undecided = _masses(sampler, depth)
    assert sum(masses.values()) + undecided == 1
    # Normal numbers need more bits than the others: fewer of their strings end early.
    assert undecided < most_open
    for outcome, decided in masses.items():
        assert float(decided) <= mass(outcome) + 1e-15 <= float(decided + undecided) + 2e-15


# --- kernels against Python integers ---

BIG = 2**62 - 57
KERNELS = [
    ("below 1", lambda n, s: n.uniform_below(1, size=s), lambda r, _: r.below(1)),
    ("below 10", lambda n, s: n.uniform_below(10, size=s), lambda r, _: r.below(10)),
    ("below 2**62", lambda n, s: n.uniform_below(2**62, size=s), lambda r, _: r.below(2**62)),
    (
        "exp coin each",
        lambda n, s: n.bernoulli_exp_each(np.arange(s), denominator=97),
        lambda r, i: r.bernoulli_exp(i, 97),
    ),
    (
        "exp coin big",
        lambda n, s: n.bernoulli_exp(Fraction(BIG - 1, BIG), size=s),
        lambda r, _: r.bernoulli_exp(BIG - 1, BIG),
    ),
    *(
        (
            f"geometric {x}",
            lambda n, s, x=x: n.geometric(x, size=s),
            lambda r, _, x=x: r.geometric(x.numerator, x.denominator),
        )
        for x in (ONE, Fraction(2, 7), Fraction(7, 2), Fraction(1, 2**50), Fraction(BIG, BIG - 1))
    ),
    *(
        (
            f"laplace {x}",
            lambda n, s, x=x: n.discrete_laplace(x, size=s),
            lambda r, _, x=x: r.laplace(x.numerator, x.denominator),
        )
        for x in (
            ONE,
            Fraction(10),
            Fraction(100, 7),
            Fraction(1, 30),
            Fraction(2**50),
            Fraction(BIG, BIG - 1),
            Fraction(10**16, 3333333333333333),
        )
    ),
    *(
        (
            f"gaussian {v}",
            lambda n, s, v=v: n.discrete_gaussian(v, size=s),
            lambda r, _, v=v: r.gaussian(
                v.numerator, v.denominator, math.isqrt(v.numerator // v.denominator) + 1
            ),
        )
        for v in (
            ONE,
            Fraction(100),
            Fraction(1, 9),
            Fraction(9, 2),
            Fraction(10**12, 7),
            Fraction(2**20, 2**26 + 1),
            Fraction(2**50 - 1, 2),
        )
    ),
    *(
        (
            f"rounded gaussian {v}",
            lambda n, s, v=v: n.rounded_gaussian(v, size=s),
            lambda r, _, v=v: r.rounded_gaussian(v.numerator, v.denominator),
        )
        for v in (
            ONE,
            Fraction(100),
            Fraction(1, 9),
            Fraction(10**40 + 1, 10**39),
            Fraction(1, 10**400),
            Fraction(2**99),
        )
    ),
]


@pytest.mark.parametrize(("label", "draw", "slow"), KERNELS, ids=[k[0] for k in KERNELS])
@pytest.mark.parametrize("source", [ScriptedNoise, DripNoise])
def test_kernels_draw_what_python_integers_draw(label, draw, slow, source):
    size = 400
    reader = BitReader(SeededNoise(shifted(0))._words)
    expected = [slow(reader, i) for i in range(size)]
    assert draw(source(), size).tolist() == expected, label


@pytest.mark.parametrize("source", [ScriptedNoise, DripNoise])
@pytest.mark.parametrize("digit_bits", [1, 2, 5])
@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(50), Fraction(10**5, 3)])
def test_draws_that_a_kernel_cannot_decide_are_drawn_from_the_same_bits(
    variance, digit_bits, source
):
    """With digits of few bits, Python integers make most draws, and the bits must agree."""
    a, b = variance.numerator, variance.denominator
    undecided = []

    def slow(reader):
        undecided.append(reader)
        return reader.rounded_gaussian(a, b, digit_bits)

    out = np.empty(400, np.int64)
    source()._fill(
        samplers.fill_rounded_gaussian, (math.sqrt(a / b), digit_bits), out,
        bits_per_draw=40, undecided=slow,
    )  # fmt: skip
    reader = BitReader(SeededNoise(shifted(0))._words)
    assert out.tolist() == [reader.rounded_gaussian(a, b, digit_bits) for _ in range(400)]
    assert len(undecided) > 20


def _two_words(value):
    return np.uint64(value >> 64), np.uint64(value & 2**64 - 1)


def test_arithmetic_on_two_words():
    """A wrong low word would change so few draws that comparing draws cannot detect it."""
    reader = BitReader(SeededNoise(shifted(1))._words)
    for _ in range(300):
        x = reader.take(1 + reader.below(63))
        high, low = samplers._square(np.uint64(x))
        assert (int(high) << 64) + int(low) == x * x
        larger, smaller = sorted((reader.take(126), reader.take(126)), reverse=True)
        high, low = samplers._subtract(*_two_words(larger), *_two_words(smaller))
        assert (int(high) << 64) + int(low) == larger - smaller
    for x in (0, 1, 2**32 - 1, 2**32, 2**63 - 1):
        high, low = samplers._square(np.uint64(x))
        assert (int(high) << 64) + int(low) == x * x


def test_bernoulli_draws_on_two_words():
    for seed in range(300):
        reader = BitReader(SeededNoise(shifted(seed))._words)
        denominator = 2**125 + reader.take(125)
        numerator = reader.below(denominator)
        # Random bits that follow the exact digits for a while reach the low words.
        digits = (numerator << 150) // denominator
        bits = digits ^ (1 << reader.below(150))
        words = [int(f"{bits:0192b}"[42:][i : i + 64][::-1] or "0", 2) for i in (0, 64, 128)]
        state = np.zeros(4, np.uint64)
        given = np.array(words, np.uint64)
        drawn = samplers._wide_bernoulli(
            *_two_words(numerator), *_two_words(denominator), given, state
        )
        assert state[3] == 0
        assert drawn == BitReader(ScriptedNoise(words)._words).bernoulli(numerator, denominator)
        assert drawn == (bits < digits)


def test_big_parameters_fall_back_on_python_integers():
    noise, reader = ScriptedNoise(), BitReader(SeededNoise(shifted(0))._words)
    scale = Fraction(10**40 + 1, 10**39)
    assert noise.discrete_laplace(scale, size=50).tolist() == [
        reader.laplace(scale.numerator, scale.denominator) for _ in range(50)
    ]
    assert len(noise.geometric(1 / scale, size=3)) == 3
    assert len(noise.discrete_gaussian(scale, size=3)) == 3
    assert noise.bernoulli_exp(Fraction(10**40, 10**40 - 1), size=3).dtype == np.bool_
    assert not noise.bernoulli_exp(Fraction(10**40), size=3).any()


def test_refills_do_not_change_the_other_samplers():
    for draw in (
        lambda n: n.subset(1000, p=Fraction(1, 3)),
        lambda n: n.subset(1000, p=Fraction(1, 1000)),
        lambda n: n.subset(1000, p=Fraction(5, 8)),
        lambda n: n.bernoulli(Fraction(1, 3), size=1000),
        lambda n: n.permutation(1000),
    ):
        assert draw(ScriptedNoise()).tolist() == draw(DripNoise()).tolist()


# --- ties are resolved by more bits ---

THIRD = (1 << 64) // 3  # the first 64 binary digits of 1/3, and also the next 64


@pytest.mark.parametrize(("next_word", "expected"), [(0, True), (2**64 - 1, False)])
def test_bernoulli_draws_continue_after_64_equal_bits(next_word, expected):
    noise = ScriptedNoise([THIRD, next_word])
    assert noise.bernoulli(Fraction(1, 3), size=1).tolist() == [expected]


def test_bernoulli_draws_of_a_finite_expansion_end_there():
    assert not ScriptedNoise([1 << 63]).bernoulli(Fraction(1, 2), size=1)[0]
    assert ScriptedNoise([(1 << 63) - 1]).bernoulli(Fraction(1, 2), size=1)[0]


def test_subset_draws_continue_after_all_given_digits():
    """1/3 is .010101...: words that repeat its digits leave all 64 indexes open."""
    agree = [0, 2**64 - 1] * 150  # 300 digits; 128 are computed at first
    assert ScriptedNoise([*agree, 2**64 - 1]).subset(64, p=Fraction(1, 3)).tolist() == []
    assert ScriptedNoise([*agree, 0, 0]).subset(64, p=Fraction(1, 3)).tolist() == list(range(64))
    # The next digit decides for the second index; the others agree with it and continue.
    assert 1 in ScriptedNoise([*agree, 0, 5]).subset(3, p=Fraction(1, 3)).tolist()


def test_levels_refine_until_certain():
    """A uniform number on the boundary between two levels is not decided by its first 64 bits."""
    levels = ExponentialWeights([0, 1], [1, 1])
    boundary = exp_bounds(Fraction(-1), 300)[0]
    digits = math.floor(2**192 / (1 + boundary))  # binary digits of 1 / (1 + 1/e)
    words = [digits >> 128, digits >> 64 & 2**64 - 1, digits & 2**64 - 1]
    first, second, third = words
    assert levels.draw(BitReader(ScriptedNoise([first, second, third - 2**40])._words)) == 0
    assert levels.draw(BitReader(ScriptedNoise([first, second, third + 2**40])._words)) == 1
    assert levels.draw(BitReader(ScriptedNoise([first, second - 2**40])._words)) == 0
    assert levels.draw(BitReader(ScriptedNoise([first, second + 2**40])._words)) == 1


# --- edges ---


@pytest.mark.parametrize(
    "make", [SecureNoise, lambda: SeededNoise(shifted(1)), DripNoise, OpenDPNoise]
)
def test_nothing_is_drawn_when_nothing_is_asked(make):
    noise = make()
    empty = np.empty(0, np.int64)
    for drawn in (
        noise.uniform_below(5, size=0),
        noise.bernoulli(Fraction(1, 2), size=0),
        noise.bernoulli_exp(ONE, size=0),
        noise.bernoulli_exp_each(empty, denominator=5),
        noise.geometric(ONE, size=0),
        noise.discrete_laplace(ONE, size=0),
        noise.discrete_gaussian(ONE, size=0),
        noise.rounded_gaussian(ONE, size=0),
        noise.subset(0, p=Fraction(1, 2)),
        noise.permutation(0),
        add_noise(empty, empty),
    ):
        assert len(drawn) == 0


def test_certain_outcomes():
    noise = SecureNoise()
    assert not noise.bernoulli(Fraction(0), size=100).any()
    assert noise.bernoulli(ONE, size=100).all()
    assert noise.bernoulli_exp(Fraction(0), size=100).all()
    assert noise.subset(1000, p=Fraction(0)).tolist() == []
    assert noise.subset(100, p=ONE).tolist() == list(range(100))
    assert noise.choose([4], epsilon=ONE, sensitivity=ONE, monotone=False) == 0


def test_a_permutation_has_each_integer_once():
    for n in (1, 2, 10, 100_000):
        assert sorted(SecureNoise().permutation(n).tolist()) == list(range(n))


def test_subset_is_sorted_and_inside():
    for n in (1, 63, 64, 65, 1000):
        kept = SecureNoise().subset(n, p=Fraction(9, 10))
        assert (np.diff(kept) > 0).all()
        assert kept.size == 0 or (kept[0] >= 0 and kept[-1] < n)


def test_adding_noise_stops_at_the_ends():
    ends = np.iinfo(np.int64)
    counts = np.array([1, ends.max, ends.max, ends.min, ends.min, 0, -5])
    noise = np.array([-3, 1, -1, -1, 1, ends.min, ends.max])
    exact = [int(a) + int(b) for a, b in zip(counts, noise, strict=True)]
    expected = [min(max(x, ends.min), ends.max) for x in exact]
    assert add_noise(counts, noise).tolist() == expected
    assert counts[1] == ends.max
    with pytest.raises(ParameterError, match="float64") as caught:
        add_noise(np.zeros(3), np.zeros(2, np.int64))
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda n: n.uniform_below(0, size=1), "n: 0 is below 1"),
        (lambda n: n.uniform_below(2**62 + 1, size=1), "above"),
        (lambda n: n.uniform_below(5, size=-1), "size: -1"),
        (lambda n: n.integer_below(0), "n: 0"),
        (lambda n: n.bernoulli(0.5, size=1), "p: 0.5 is not a Fraction"),
        (lambda n: n.bernoulli(True, size=1), "not a Fraction"),
        (lambda n: n.bernoulli(Fraction(3, 2), size=1), "above 1"),
        (lambda n: n.bernoulli(Fraction(-1, 2), size=1), "at least 0"),
        (lambda n: n.bernoulli_exp_each(np.array([0.5]), denominator=2), "integers"),
        (lambda n: n.bernoulli_exp(Fraction(-1), size=1), "at least 0"),
        (lambda n: n.bernoulli_exp_each(np.array([-1]), denominator=2), "numerators"),
        (lambda n: n.geometric(Fraction(0), size=1), "above 0"),
        (lambda n: n.geometric(Fraction(1, 2**51), size=1), "int64"),
        (lambda n: n.discrete_laplace(Fraction(0), size=1), "above 0"),
        (lambda n: n.discrete_laplace(Fraction(2**51), size=1), "above"),
        (lambda n: n.discrete_gaussian(Fraction(0), size=1), "above 0"),
        (lambda n: n.rounded_gaussian(Fraction(0), size=1), "above 0"),
        (lambda n: n.permutation(-1), "n: -1"),
        (lambda n: _choose(n, []), "at least one candidate"),
        (lambda n: _choose(n, [1.5]), "integers"),
        (lambda n: _choose(n, [1], epsilon=Fraction(0)), "epsilon: 0 must be above 0"),
        (lambda n: _choose(n, [1], sensitivity=Fraction(-1)), "sensitivity"),
        (lambda n: _choose(n, [1], monotone=1), "monotone"),
        (lambda n: _choose(n, [1, 2], base=[1]), "base: 1 weights for 2 scores"),
        (lambda n: _choose(n, [1, 2], base=[0, 0]), "base"),
        (lambda n: _choose(n, [1, 2], rule="gumbel"), "rule: 'gumbel'"),
        (lambda _: make_noise("numpy"), "noise: 'numpy'"),
        (lambda _: SeededNoise("x"), "seed"),
    ],
)
def test_wrong_parameters_are_refused_by_name(call, match):
    with pytest.raises(ParameterError, match=match):
        call(SecureNoise())


def _choose(noise, scores, **changed):
    given = {"epsilon": ONE, "sensitivity": ONE, "monotone": True} | changed
    return noise.choose(scores, **given)


def test_all_problems_are_listed_at_once():
    with pytest.raises(ParameterError) as caught:
        SecureNoise().bernoulli(2.0, size=-1)
    assert len(caught.value.problems) == 2


def test_what_is_too_large_is_refused():
    noise = SecureNoise()
    with pytest.raises(TooLarge, match="subset"):
        noise.subset(10**13, p=Fraction(1, 2))
    with pytest.raises(TooLarge, match="exponential"):
        _choose(noise, [1, 2], base=[1, 10**8], rule="permute-and-flip")


# --- selection ---


def test_selection_ends_quickly_however_lopsided():
    noise = SecureNoise()
    # The best has 10**-100 of the base measure and e**300 times the weight: a rejection sampler on
    # the base measure alone would never end.
    picks = [_choose(noise, [0, 300], base=[10**100, 1]) for _ in range(20)]
    assert picks == [1] * 20
    assert _choose(noise, [0, 10**18, -(10**18)], epsilon=Fraction(1, 3)) == 1
    assert _choose(noise, [2**70, 2**71], rule="permute-and-flip") == 1
    assert _choose(noise, [-(2**63), 2**63 - 1]) == 1
    assert _choose(noise, np.array([5, 9]), epsilon=Fraction(10**30), base=[10**50, 1]) == 1
    assert _choose(noise, [9, 5], base=[0, 1]) == 1
    spread = np.arange(100_000) * 70
    assert 0 <= _choose(noise, spread, epsilon=Fraction(1, 10**6)) < 100_000


def permute_and_flip_masses(gaps, factor):
    """Compute the probabilities by enumerating all orders."""
    heads = [math.exp(-factor * gap) for gap in gaps]
    masses = [0.0] * len(gaps)
    orders = list(permutations(range(len(gaps))))
    for order in orders:
        alive = 1 / len(orders)
        for i in order:
            masses[i] += alive * heads[i]
            alive *= 1 - heads[i]
    return masses


def test_permute_and_flip_keeps_its_promise_but_not_a_range_of_epsilon():
    """Enumerated: the loss is within epsilon, monotone or not; its range is above epsilon."""
    epsilon, widest = 1.0, 0.0
    for scores in ([0, 0, 0], [0, 1, 3], [0, 4, 4], [2, 2, 5]):
        for change in np.ndindex(3, 3, 3):
            steps = np.array(change) - 1
            monotone = (steps >= 0).all() or (steps <= 0).all()
            factor = epsilon if monotone else epsilon / 2
            before, after = np.array(scores), np.array(scores) + steps
            losses = np.log(
                np.array(permute_and_flip_masses(before.max() - before, factor))
                / np.array(permute_and_flip_masses(after.max() - after, factor))
            )
            assert abs(losses).max() <= epsilon + 1e-12
            widest = max(widest, losses.max() - losses.min())
    assert epsilon < widest <= 1.5 * epsilon


# --- sources ---


def test_seeds_repeat_and_differ():
    def draws(noise):
        return [
            noise.discrete_laplace(Fraction(10), size=100).tolist(),
            noise.discrete_gaussian(Fraction(10), size=100).tolist(),
            noise.subset(1000, p=Fraction(1, 3)).tolist(),
            noise.permutation(100).tolist(),
            noise.integer_below(10**40),
            _choose(noise, list(range(50)), epsilon=Fraction(1, 20)),
        ]

    assert draws(SeededNoise(shifted(5))) == draws(SeededNoise(shifted(5)))
    assert draws(SeededNoise(shifted(5))) != draws(SeededNoise(shifted(6)))
    one = SeededNoise(shifted(5))
    assert draws(one) != draws(one)
    assert not SeededNoise(shifted(5)).is_private


def test_only_secure_sources_call_themselves_private():
    assert SecureNoise.is_private
    assert OpenDPNoise.is_private
    assert not SeededNoise.is_private
    assert isinstance(make_noise(), SecureNoise)
    assert isinstance(make_noise("opendp"), OpenDPNoise)
    seeded = SeededNoise(shifted(1))
    assert make_noise(seeded) is seeded


def test_no_method_takes_a_seed():
    for name in dir(SecureNoise):
        method = getattr(SecureNoise, name)
        assert "seed" not in getattr(getattr(method, "__code__", None), "co_varnames", ())


@pytest.mark.parametrize("size", [4, 1000])
def test_a_forked_child_draws_other_noise(size):
    """For few words and for many.

    In a test the words come from a seed (`repeatable.py`); a child draws as releases do. So a child
    draws, forks, and then draws again, as does its own child. Two of 3,000 independent numbers are
    equal with probability 1e-12.
    """
    noise = SecureNoise()
    noise.uniform_below(2**62, size=size)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, noise.uniform_below(2**62, size=size).tobytes())
            grandchild = os.fork()
            if grandchild:
                os.waitpid(grandchild, 0)
            os.write(write, noise.uniform_below(2**62, size=size).tobytes())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        drawn = np.frombuffer(stream.read(), np.int64).tolist()
    os.waitpid(child, 0)
    assert len(drawn) == len(set(drawn)) == 3 * size


@pytest.mark.parametrize("make", [SecureNoise, lambda: SeededNoise(shifted(3))])
def test_threads_never_get_the_same_words(make):
    noise, drawn = make(), []

    def work():
        for size in (3, 500):
            drawn.extend(noise.uniform_below(2**62, size=size).tolist())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == len(set(drawn)) == 8 * 503


def test_opendp_noise_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ParameterError, match=r"hushtable\[opendp\]"):
        make_noise("opendp")


def test_scales_for_opendp_are_rounded_up():
    for value in (Fraction(1, 3), Fraction(10**20 + 1, 7), Fraction(5)):
        assert Fraction(sources._float_at_least(value)) >= value
        assert Fraction(sources._root_at_least(value)) ** 2 >= value
    assert sources._float_at_least(Fraction(5)) == 5.0
    assert sources._root_at_least(Fraction(9)) == 3.0


def test_importing_compiles_nothing_and_leaves_opendp_alone():
    code = (
        "import sys, hushtable.privacy.noise.sources, hushtable.privacy.noise.sources\n"
        "from hushtable.kernels import samplers\n"
        "assert not any(name.split('.')[0] == 'opendp' for name in sys.modules)\n"
        "assert not samplers.fill_laplace.signatures\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
