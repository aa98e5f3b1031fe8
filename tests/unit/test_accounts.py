"""The ledger's compositions: admitted charges, attacks, and ledgers of older formats."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from mpmath import mp

from hushtable.errors import BudgetExceeded, HushtableError, LedgerError, ParameterError
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.composition import (
    certified_share,
    concentrated_implies,
    concentrated_share,
    is_concentrated,
)
from hushtable.privacy.gaussian_dp import gaussian_share
from hushtable.privacy.guarantee import ApproxDP, PureDP, Unit, parse_guarantee
from hushtable.privacy.ledger.budget import NOTHING, Budget, Concentrated, LedgerCap, Loss
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.records import FORMAT, canonical
from hushtable.privacy.ledger.state import LedgerState
from hushtable.schema import Schema
from seeds import shifted

ROW: dict[str, Any] = {"unit": Unit(kind="row"), "neighbors": "add-remove"}
SCHEMA = Schema.model_validate(
    {
        "name": "t",
        "columns": {"a": {"type": "categorical", "values": ["x", "y"]}},
    }
)


def pure(epsilon: Any) -> PureDP:
    return PureDP(epsilon=epsilon, **ROW)


def approx(epsilon: Any, delta: Any) -> ApproxDP:
    return ApproxDP(epsilon=epsilon, delta=delta, **ROW)


def quilt(epsilon: Any, delta: Any) -> ApproxDP:
    epsilon, delta = Fraction(str(epsilon)), Fraction(str(delta))
    return ApproxDP(epsilon=epsilon, delta=delta, rho=concentrated_share(epsilon, delta), **ROW)


def gaussian(epsilon: Any, delta: Any) -> ApproxDP:
    epsilon, delta = Fraction(str(epsilon)), Fraction(str(delta))
    return ApproxDP(epsilon=epsilon, delta=delta, mu=gaussian_share(epsilon, delta), **ROW)


def cap(epsilon: Any, delta: Any = 0) -> Budget:
    return Budget(epsilon=Fraction(str(epsilon)), delta=Fraction(str(delta)))


def fits(limit: Budget, promise: PureDP | ApproxDP) -> int:
    loss = Loss.of(promise)
    return LedgerCap.for_first(limit, loss).remaining_charges(NOTHING, loss)


# --- costs ----------------------------------------------------------------------------------------


def test_cost_of_promises() -> None:
    assert Loss.of(pure(1)).concentrated == Concentrated(rho=Fraction(1, 2))
    assert Loss.of(pure(8)).concentrated == Concentrated(rho=Fraction(8))  # not 32
    assert Loss.of(approx(1, "1e-6")).concentrated == Concentrated(
        rho=Fraction(1, 2), delta=Fraction(1, 10**6)
    )
    promise = quilt(1, "1e-6")
    assert Loss.of(promise).concentrated == Concentrated(rho=promise.rho or Fraction(0))
    assert Loss.of(promise).basic == cap(1, "1e-6")


def test_rho_is_rounded_up_and_never_to_zero() -> None:
    for epsilon in ("1/3", "1/1000003", f"1/{10**300 + 1}"):
        rho = Loss.of(pure(epsilon)).concentrated.rho
        assert 0 <= rho - Fraction(epsilon) ** 2 / 2 < Fraction(1, 2**64)
        assert rho > 0


def test_quilt_states_mu_or_rho_only_with_a_delta() -> None:
    (promise,) = Quilt(epsilon=1, delta="1e-6").guarantee(SCHEMA)
    mu = gaussian_share(Fraction(1), Fraction(1, 10**6))
    assert promise == ApproxDP(epsilon=1, delta="1e-6", mu=mu, **ROW)
    (promise,) = Quilt(epsilon=1, delta="1e-6", accounting="concentrated").guarantee(SCHEMA)
    assert promise == quilt(1, "1e-6")
    (without,) = Quilt(epsilon=1).guarantee(SCHEMA)
    assert without == pure(1)


def test_a_promise_without_rho_is_written_as_before() -> None:
    assert canonical(approx(1, "1e-6").to_dict()) == (
        '{"delta":"1/1000000","epsilon":"1","family":"approx-dp","neighbors":"add-remove",'
        '"unit":{"column":null,"kind":"row","max_rows":null}}'
    )
    promise = quilt(1, "1e-6")
    assert parse_guarantee(json.loads(json.dumps(promise.to_dict()))) == promise


@pytest.mark.parametrize("rho", ["1/30", 0, -1, 10**350, "1/2"])
def test_a_rho_must_imply_its_epsilon_and_delta(rho: Any) -> None:
    with pytest.raises(ParameterError, match="rho is"):
        ApproxDP(epsilon=1, delta="1e-6", rho=rho, **ROW)


def test_a_tiny_rho_is_certified_without_huge_numbers() -> None:
    assert is_concentrated(Fraction(1, 10**350), Fraction(1), Fraction(1, 10**6))


def test_no_renyi_order_certifies_too_large_a_rho() -> None:
    """A rho 1% above the largest is refused for every alpha on a wide grid."""
    epsilon, delta = Fraction(3), Fraction(1, 10**5)
    rho, alpha = certified_share(epsilon, delta)
    assert concentrated_implies(rho, alpha, epsilon, delta)
    for step in range(-60, 400):
        order = alpha * Fraction(100 + step, 100)
        assert not concentrated_implies(rho * Fraction(101, 100), order, epsilon, delta)
    assert not concentrated_implies(rho, Fraction(10**400), epsilon, delta)


def test_approximate_dp_decomposes_into_close_distributions_and_a_rest() -> None:
    """Lemma B of ``ledger.md``, by its construction, in fractions, for random pairs."""
    draw, factor = random.Random(shifted(1)), Fraction(3, 2)  # noqa: S311 - e**epsilon
    for _ in range(200):
        p, q = (law([draw.randrange(0, 6) for _ in range(5)] + [1]) for _ in "pq")
        cut = [
            sum(max(x - factor * y, Fraction(0)) for x, y in zip(a, b, strict=True))
            for a, b in ((p, q), (q, p))
        ]
        delta = max(cut)
        low = [min(x, factor * y) for x, y in zip(p, q, strict=True)]
        high = [min(y, factor * x) for x, y in zip(p, q, strict=True)]
        if cut[0] > cut[1]:
            low, high = high, low
        share = (sum(low) - sum(high)) / (sum(low) - sum(high) / factor)
        mixed = [(1 - share) * x + share * y / factor for x, y in zip(low, high, strict=True)]
        assert 0 <= share <= 1
        assert sum(mixed) == sum(high) == 1 - delta
        for x, y in zip(mixed, high, strict=True):
            assert y / factor <= x <= factor * y


def law(weights: list[int]) -> list[Fraction]:
    return [Fraction(weight, sum(weights)) for weight in weights]


# --- admitted charges -----------------------------------------------------------------------------


def test_many_more_releases_fit() -> None:
    assert fits(cap(3, "1e-5"), quilt(1, "1e-6")) >= 8
    assert fits(cap(10, "1e-6"), quilt(1, "1e-9")) >= 90
    assert fits(cap(3, "1e-5"), quilt("0.1", "1e-7")) >= 750


def test_gaussian_composition_admits_more_releases_with_a_mu() -> None:
    assert fits(cap(3, "1e-5"), gaussian(1, "1e-6")) == 9  # 9.2 with all of delta
    assert fits(cap(10, "1e-6"), gaussian(1, "1e-9")) == 101  # 103.1 with all of delta
    for limit, promise in ((cap(3, "1e-5"), (1, "1e-6")), (cap(10, "1e-6"), (1, "1e-9"))):
        assert fits(limit, gaussian(*promise)) > fits(limit, quilt(*promise))


def test_releases_of_other_kinds_fit_after_a_first_one_with_a_mu() -> None:
    first = Loss.of(gaussian(1, "1e-6"))
    account = LedgerCap.for_first(cap(3, "1e-5"), first)
    assert account.mu
    assert account.allows(first + Loss.of(pure(2)))  # by basic composition
    assert not account.allows(first + Loss.of(pure("2.1")))
    assert account.allows(first + Loss.of(approx("0.1", "6e-7")))  # by Gaussian composition
    # Its delta exceeds what both accounts have left for promises without a mu.
    assert not account.allows(first + Loss.of(approx("0.1", "7e-7")))


def exact_delta(epsilon: Fraction, mu_squared: Fraction, pure: Counter[Fraction]) -> Any:
    """Return the smallest delta at `epsilon` of Gaussian and pure mechanisms together.

    The privacy loss of randomized response with odds e**x is x or -x, and no pure mechanism is
    worse; Gaussian losses add up to one of variance mu**2. The sum over all signs is exact.
    """
    losses = {mp.mpf(0): mp.mpf(1)}
    for x, n in pure.items():
        size = mp.mpf(x.numerator) / x.denominator
        up = mp.e**size / (1 + mp.e**size)
        steps = [
            (size * (2 * k - n), mp.binomial(n, k) * up**k * (1 - up) ** (n - k))
            for k in range(n + 1)
        ]
        losses = {a + b: p * q for a, p in losses.items() for b, q in steps}
    limit, mu = mp.mpf(epsilon.numerator) / epsilon.denominator, mp.sqrt(
        mp.mpf(mu_squared.numerator) / mu_squared.denominator
    )  # fmt: skip
    total = mp.mpf(0)
    for loss, chance in losses.items():
        rest = limit - loss
        if mu:
            near, far = rest / mu - mu / 2, rest / mu + mu / 2
            total += chance * (mp.ncdf(-near) - mp.e**rest * mp.ncdf(-far))
        elif rest < 0:
            total += chance * (1 - mp.e**rest)
    return total


def test_random_histories_stay_within_the_cap_by_an_independent_accountant() -> None:
    """Whatever fits into an account keeps the cap by the exact distribution of privacy losses."""
    draw, closest = random.Random(shifted(7)), 0.0  # noqa: S311 - made-up histories
    kinds = {
        "small": gaussian("0.3", "1e-7"), "one": gaussian(1, "1e-6"), "pure": pure("1/4"),
        "weak": pure("1/20"), "leaky": approx("1/10", "1e-7"),
    }  # fmt: skip
    losses = {name: Loss.of(promise) for name, promise in kinds.items()}
    for _ in range(25):
        limit = cap(draw.choice([1, 2, 3, 6]), draw.choice(["1e-6", "1e-5"]))
        some = draw.sample(sorted(kinds), draw.randint(1, 3))
        account, total, n = None, NOTHING, Counter[str]()
        while some:
            name = draw.choice(some)
            account = account or LedgerCap.for_first(limit, losses[name])
            if account.allows(total + losses[name]):
                total += losses[name]
                n[name] += 1
            else:
                some.remove(name)
                account = account if n else None
        mu_squared = sum((n[m] * Fraction(kinds[m].mu) ** 2 for m in ("small", "one")), Fraction(0))
        steps = Counter({kinds[m].epsilon: n[m] for m in ("pure", "weak", "leaky") if n[m]})
        with mp.workdps(30):
            leaked = 1 - (1 - mp.mpf("1e-7")) ** n["leaky"]
            found = leaked + (1 - leaked) * exact_delta(limit.epsilon, mu_squared, steps)
            share = float(found / (mp.mpf(limit.delta.numerator) / limit.delta.denominator))
        assert share <= 1
        closest = max(closest, share)
    assert closest > 0.05  # some histories come close, so the check is not empty


def test_ten_thousand_releases_stay_within_the_cap() -> None:
    limit, each = cap(2, "1e-6"), gaussian("0.02", "1e-9")
    account = LedgerCap.for_first(limit, Loss.of(each))
    n = account.remaining_charges(NOTHING, Loss.of(each))
    assert n > 10_000
    total = sum((Loss.of(each) for _ in range(n)), start=NOTHING)
    assert account.allows(total)
    assert not account.allows(total + Loss.of(each))
    with mp.workdps(30):
        delta = exact_delta(limit.epsilon, n * Fraction(each.mu) ** 2, Counter())
        assert 0.75 < float(delta / mp.mpf("1e-6")) < 0.8125  # the share that converts mu


SMALL = {
    "gaussian": gaussian("0.02", "1e-9"), "pure": pure("1/250"), "leaky": approx("1/250", "1e-11"),
}  # fmt: skip


def long_history(seed: int) -> tuple[Budget, Counter[str]]:
    """Attempt 10,000 random charges; return the cap and how many of each kind are admitted."""
    draw = random.Random(shifted(seed))  # noqa: S311 - made-up histories
    limit = cap(draw.choice(["1/2", 1]), draw.choice(["1e-7", "1e-6"]))
    losses = {
        name: Loss.of(SMALL[name]) for name in draw.sample(sorted(SMALL), draw.choice([1, 2]))
    }
    account, total, n = None, NOTHING, Counter[str]()
    for name in draw.choices(list(losses), weights=[1, 4][: len(losses)], k=10_000):
        account = account or LedgerCap.for_first(limit, losses[name])
        if account.allows(total + losses[name]):
            total += losses[name]
            n[name] += 1
    return limit, n


@pytest.mark.parametrize("seed", range(4))
def test_ten_thousand_random_charges_stay_within_the_cap_exactly(seed: int) -> None:
    limit, n = long_history(seed)
    mu_squared = n["gaussian"] * Fraction(SMALL["gaussian"].mu or 0) ** 2
    # A leaky charge is the pure one with the same epsilon, and a leak.
    steps = Counter({Fraction(1, 250): n["pure"] + n["leaky"]}) if n["pure"] + n["leaky"] else {}
    with mp.workdps(30):
        leaked = 1 - (1 - mp.mpf("1e-11")) ** n["leaky"]
        found = leaked + (1 - leaked) * exact_delta(limit.epsilon, mu_squared, Counter(steps))
        assert found <= mp.mpf(limit.delta.numerator) / limit.delta.denominator


@pytest.mark.parametrize("seed", range(4))
def test_ten_thousand_random_charges_stay_within_the_cap_by_loss_distributions(seed: int) -> None:
    """Compare with Google's accountant, whose upper bound is discretized: 1% more is allowed."""
    oracle = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    common = pytest.importorskip("dp_accounting.pld.common")
    limit, n = long_history(seed)
    whole = None
    for name, times in n.items():
        promise = SMALL[name]
        if promise.family == "approx-dp" and promise.mu is not None:
            # n Gaussian mechanisms are one of mu * sqrt(n).
            one = oracle.from_gaussian_mechanism(
                1 / (float(promise.mu) * times**0.5), value_discretization_interval=2e-5
            )
        else:
            delta = float(getattr(promise, "delta", 0))
            one = oracle.from_privacy_parameters(
                common.DifferentialPrivacyParameters(float(promise.epsilon), delta),
                value_discretization_interval=2e-5,
            ).self_compose(times)
        whole = one if whole is None else whole.compose(one)
    assert whole is not None
    assert whole.get_delta_for_epsilon(float(limit.epsilon)) <= 1.01 * float(limit.delta)


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "3"])
@pytest.mark.parametrize("delta", ["0", "1e-9", "1e-6", "3e-6", "1e-5"])
def test_never_fewer_than_by_basic_composition(epsilon: str, delta: str) -> None:
    promises = [approx(epsilon, delta), quilt(epsilon, delta)] if float(delta) else [pure(epsilon)]
    for promise in promises:
        loss = Loss.of(promise)
        for limit in (cap(1, "1e-6"), cap(3, "1e-5"), cap(10, "1e-6"), cap(3)):
            assert fits(limit, promise) >= LedgerCap(basic=limit).remaining_charges(NOTHING, loss)


def test_the_whole_cap_in_one_release_fits(tmp_path: Path) -> None:
    whole = [approx(3, "1e-5"), quilt(3, "1e-5"), gaussian(3, "1e-5"), pure(3)]
    for number, promise in enumerate(whole):
        book = Ledger.create(tmp_path / f"{number}", epsilon=3, delta="1e-5")
        assert book.quote([promise]).fits
        book.charge([promise], purpose="all")
        assert not book.quote([promise]).fits


def test_the_refusal_of_the_ninth_charge_names_both_compositions(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=3, delta="1e-5")
    for left in range(7, -1, -1):
        book.charge([quilt(1, "1e-6")], purpose="x")
        assert book.left().more == left
    with pytest.raises(BudgetExceeded) as caught:
        book.charge([quilt(1, "1e-6")], purpose="x")
    said = " ".join(caught.value.problems)
    assert "epsilon 1 was requested, but 0 remains" in said
    assert "zCDP composition does not allow it either: rho of about 0.02436" in said
    assert book.remaining() == Budget()
    assert book.verify() == book.entries()[-1].receipt
    assert book.show()["spent"]["epsilon"] == "8"


def test_publishers_racing_at_the_border_of_the_concentrated_account(tmp_path: Path) -> None:
    path = Ledger.create(tmp_path / "book", epsilon=3, delta="1e-5").path

    def publish(_: int) -> bool:
        try:
            Ledger.open(path).charge([quilt(1, "1e-6")], purpose="x")
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(20) as publishers:
        assert sum(publishers.map(publish, range(20))) == 8
    assert len(Ledger.open(path).entries()) == 8


def test_only_the_first_record_with_nonzero_cost_stores_the_allocation(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=3, delta="1e-5")
    book.reserve([pure("1/10")], purpose="first")
    for _ in range(3):
        book.charge([pure("1/10")], purpose="x")
    bodies = [json.loads(body) for _, body, _ in rows_of(book.path)]
    assert ["allocation" in body for body in bodies] == [False, True, False, False, False]


# --- random histories -----------------------------------------------------------------------------

PROMISES = [
    pure("1/10"), pure("1/2"), approx("1/4", "1e-6"), approx("1/10", "3e-6"), quilt("1/2", "1e-6"),
    quilt(1, "1e-6"), quilt("1/10", "1e-7"), pure("1/100"),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_every_history_stays_within_one_of_the_accounts(seed: int) -> None:
    """Charges, divided and joined reservations, draws, cancels and voids, in random order."""
    draw = random.Random(shifted(seed))  # noqa: S311
    state = LedgerState()
    apply(state, "init", **INIT)
    accepted = 0
    for _ in range(80):
        chosen = [draw.choice(PROMISES).to_dict() for _ in range(draw.choice([1, 1, 1, 2, 4]))]
        kind = draw.choice(["charge"] * 3 + ["reserve", "draw", "draw", "cancel", "void"])
        number = draw.choice([*state.reservations, *state.entries, 1])
        held = draw.choice([*state.left, None])
        content: dict[str, Any] = {
            "charge": {"guarantees": chosen, "purpose": "x", "reservation": None},
            "reserve": {"guarantees": chosen, "purpose": "x"},
            "draw": {"guarantees": chosen, "purpose": "x", "reservation": held},
            "cancel": {"reservation": number},
            "void": {"entry": number, "reason": "x"},
        }[kind]
        try:
            apply(state, "charge" if kind == "draw" else kind, **content)
        except HushtableError:
            continue
        accepted += 1
        spent = [
            Loss.of(g)
            for entry in state.entries.values()
            if entry.status != "void"
            for g in entry.guarantees
            if isinstance(g, PureDP | ApproxDP)
        ]
        total = sum(spent, start=NOTHING)
        assert state.spent == total or not spent
        if state.account is not None:
            assert state.account.allows(total)
        held_now = sum(state.left.values(), start=NOTHING)
        assert (state.reserved - held_now).basic == Budget()
        assert state.reserved.basic.covers(Budget())
        assert state.reserved.concentrated.covers(Concentrated())
    assert accepted > 5


INIT: dict[str, Any] = {
    "format": FORMAT, "name": "", "epsilon": "2", "delta": "1/100000",
    "unit": {"kind": "row", "column": None, "max_rows": None}, "neighbors": "add-remove",
    "allow_uncounted": False, "table": None,
}  # fmt: skip


UNBOUND = {"table": None, "same_people": None}


def apply(state: LedgerState, kind: str, **content: Any) -> None:
    record = {"seq": len(state.digests), "kind": kind, "time": "2026-01-01T00:00:00+00:00"}
    record |= UNBOUND if kind == "charge" else {}
    record |= content
    state.apply(state.completed(record) if kind != "init" else record)


def test_more_rho_than_was_reserved_is_not_taken_off_what_is_spent() -> None:
    """Reserved in small parts, drawn in one: epsilon adds up, rho does not."""
    state = LedgerState()
    apply(state, "init", **INIT)
    apply(state, "reserve", guarantees=[pure("1/10").to_dict()] * 2, purpose="x")
    draw = {"guarantees": [pure("1/5").to_dict()], "purpose": "x", "reservation": 1}
    apply(state, "charge", **draw)
    rho = Loss.of(pure("1/5")).concentrated.rho
    assert rho > 2 * Loss.of(pure("1/10")).concentrated.rho - Fraction(1, 2**60)
    assert state.total.concentrated.rho == state.spent.concentrated.rho == rho
    assert state.reserved == NOTHING
    assert state.total.gaussian == state.spent.gaussian == Loss.of(pure("1/5")).gaussian


def test_a_voided_charge_does_not_fix_the_allocation_of_delta(tmp_path: Path) -> None:
    """No output of a voided charge was seen, so the next charge may fix a new allocation."""
    book = Ledger.create(tmp_path / "book", epsilon=3, delta="1e-5")
    wrong = book.charge([pure("1/10")], purpose="wrong file")
    held = book.reserve([pure("1/10")], purpose="x")
    assert not book.quote([approx(3, "1e-5")]).fits
    book.void(wrong.id, "nothing came out")
    assert not book.quote([approx(3, "1e-5")]).fits  # something is still reserved
    book.release_reservation(held)
    assert book.remaining() == cap(3, "1e-5")
    assert book.quote([approx(3, "1e-5")]).fits
    book.charge([approx(3, "1e-5")], purpose="all")
    book = Ledger.open(book.path)  # replayed, with every rule checked again
    assert book.remaining() == Budget()
    assert not book.quote([pure("1/100")]).fits
    kinds = [(body["kind"], "allocation" in body) for body in (json.loads(b) for _, b, _ in
             rows_of(book.path))]  # fmt: skip
    assert [kind for kind in kinds if kind[1]] == [("charge", True), ("charge", True)]


def test_a_release_fixes_the_allocation_of_delta(tmp_path: Path) -> None:
    state = LedgerState()
    apply(state, "init", **INIT)
    charge = {"guarantees": [pure("1/10").to_dict()], "purpose": "x", "reservation": None}
    apply(state, "charge", **charge)
    apply(state, "charge", **charge)
    apply(state, "void", entry=1, reason="x")
    other = LedgerCap(basic=cap(2, "1e-5")).to_dict()
    with pytest.raises(LedgerError, match="although that is fixed"):
        apply(state, "charge", **charge, allocation=other)


def test_only_records_with_nonzero_cost_fix_the_allocation() -> None:
    state = LedgerState()
    apply(state, "init", **{**INIT, "allow_uncounted": True})
    record = {"guarantees": [{"family": "threshold", "k": 5}], "purpose": "x", "reservation": None}
    with pytest.raises(LedgerError, match="although it costs nothing"):
        apply(state, "charge", **record, allocation=LedgerCap(basic=cap(2, "1e-5")).to_dict())
    apply(state, "charge", **record)
    assert state.account is None
    missing = {"seq": 2, "kind": "charge", "time": "2026-01-01T00:00:00+00:00", "purpose": "x",
               "guarantees": [pure(1).to_dict()], "reservation": None, **UNBOUND}  # fmt: skip
    with pytest.raises(LedgerError, match="has no allocation"):
        state.apply(missing)


# --- older formats, and forgeries -----------------------------------------------------------------


def rows_of(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT seq, body, digest FROM records ORDER BY seq").fetchall()
    connection.close()
    return rows


@pytest.mark.parametrize("older", [1, 2, 3, 4])
def test_ledgers_of_older_formats_are_refused(tmp_path: Path, older: int) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=3, delta="1e-5")
    connection = sqlite3.connect(book.path)
    with connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
        connection.execute(f"PRAGMA user_version = {older}")
    connection.close()
    with pytest.raises(LedgerError, match=f"has ledger format {older}; .* reads only format"):
        Ledger.open(book.path)


@pytest.mark.parametrize(
    "forged",
    [
        {"basic_delta": "1/100000"},  # more than delta in total
        {"zcdp_delta": "1/100000"},
        {"mu": "1"},
        {"mu": "1/10"},  # no share of delta converts it
        {"mu_delta": "1/100000"},
        {"basic_delta": "-1/100000"},
        {"rho": "1"},
        {"rho": "-1"},
        {"alpha": "1"},
        {"alpha": f"{10**300}"},
        {"rho": "1/1000000000", "alpha": "0"},
        {"more": "1"},
    ],
)
def test_an_allocation_that_exceeds_the_cap_is_refused(forged: dict[str, str]) -> None:
    limit = cap(3, "1e-5")
    shared = LedgerCap.shared(limit)
    assert shared is not None
    document = shared.to_dict()
    assert LedgerCap.from_dict(document, limit) == shared
    with pytest.raises(ParameterError):
        LedgerCap.from_dict({**document, **forged}, limit)


def test_the_allocation_is_fixed_once() -> None:
    state = LedgerState()
    apply(state, "init", **INIT)
    charge = {"guarantees": [pure("1/10").to_dict()], "purpose": "x", "reservation": None}
    apply(state, "charge", **charge)
    account = LedgerCap(basic=cap(2, "1e-5")).to_dict()
    with pytest.raises(LedgerError, match="although that is fixed"):
        apply(state, "charge", **charge, allocation=account)
