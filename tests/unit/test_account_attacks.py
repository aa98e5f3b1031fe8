"""Attacks on the ledger's two compositions: adaptive charges, races at the limits, kills."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hushtable.errors import BudgetExceeded
from hushtable.privacy.composition import certified_share, concentrated_share
from hushtable.privacy.gaussian_dp import gaussian_share
from hushtable.privacy.guarantee import ApproxDP, PureDP, Unit
from hushtable.privacy.ledger import storage as file
from hushtable.privacy.ledger.budget import (
    NOTHING,
    Budget,
    Concentrated,
    GaussianLoss,
    LedgerCap,
    Loss,
)
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.rational import log_lower, log_upper

ROW: dict[str, Any] = {"unit": Unit(kind="row"), "neighbors": "add-remove"}


def pure(epsilon: Any) -> PureDP:
    return PureDP(epsilon=epsilon, **ROW)


def approx(epsilon: Any, delta: Any) -> ApproxDP:
    return ApproxDP(epsilon=epsilon, delta=delta, **ROW)


def quilt(epsilon: Any, delta: Any) -> ApproxDP:
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    return ApproxDP(epsilon=epsilon, delta=delta, rho=concentrated_share(epsilon, delta), **ROW)


# --- adversary, in fractions ----------------------------------------------------------------------

# Randomized response with the odds RATIO: a two-point mechanism that is pure DP with epsilon
# ln(RATIO) and no less. The charge is this epsilon, rounded up to a multiple of 2**-40.
RATIO = Fraction(21, 20)
UP = RATIO / (1 + RATIO)
STEP = log_upper(RATIO, bits=40)
N_BASIC = 20
EPSILON = N_BASIC * STEP
FACTOR = RATIO**N_BASIC  # at most e**EPSILON, so results computed with it are never too small
DELTA = Fraction(1, 100)
ALL = Fraction(1)


class Adversary:
    """Best of all strategies against an account, by dynamic programming in fractions.

    Before each charge it has seen all outcomes. It may query randomized response, or the same with
    probability `leak` of revealing the data, as often as the account allows, in any order, or stop.
    It maximizes the sum over all transcripts w of max(P(w) - e**EPSILON Q(w), 0): the smallest
    delta that all of them together keep at EPSILON.
    """

    def __init__(
        self,
        account: LedgerCap,
        leak: Fraction,
        *,
        rho_charged: Fraction = ALL,
        mu_squared_charged: Fraction = ALL,
    ) -> None:
        answer, leaky = (
            Loss(
                basic=loss.basic,
                concentrated=Concentrated(
                    rho=loss.concentrated.rho * rho_charged, delta=loss.concentrated.delta
                ),
                gaussian=GaussianLoss(
                    mu_squared=loss.gaussian.mu_squared * mu_squared_charged,
                    delta=loss.gaussian.delta,
                ),
            )
            for loss in (Loss.of(pure(STEP)), Loss.of(approx(STEP, leak)))
        )

        @cache
        def total(n: int, m: int) -> Loss:
            if m:
                return total(n, m - 1) + leaky
            return total(n - 1, 0) + answer if n else NOTHING

        @cache
        def allowed(n: int, m: int) -> bool:
            return account.allows(total(n, m))

        @cache
        def best(loss: int, n: int, m: int) -> tuple[Fraction, str]:
            """Return the value of a transcript per probability under P, and the next action."""
            found = max(Fraction(0), 1 - FACTOR / RATIO**loss), "stop"
            if allowed(n + 1, m):
                on = [best(loss + way, n + 1, m)[0] for way in (1, -1)]
                found = max(found, (UP * on[0] + (1 - UP) * on[1], "ask"))
            if allowed(n, m + 1):
                on = [best(loss + way, n, m + 1)[0] for way in (1, -1)]
                told = leak + (1 - leak) * (UP * on[0] + (1 - UP) * on[1])
                found = max(found, (told, "leak"))
            return found

        self._best, self._total, self._account = best, total, account
        self.value = best(0, 0, 0)[0]

    def visited(self) -> set[tuple[bool, ...]]:
        """Return which accounts admit the charges that the best strategy reaches."""
        found, seen, todo = set(), set(), [(0, 0, 0)]
        while todo:
            loss, n, m = todo.pop()
            total, what = self._total(n, m), self._best(loss, n, m)[1]
            pairs = zip(self._account.limits, total.amounts, strict=True)
            found.add(tuple(limit.covers(amount) for limit, amount in pairs))
            if what == "stop" or (loss, n, m) in seen:
                continue
            seen.add((loss, n, m))
            n, m = (n + 1, m) if what == "ask" else (n, m + 1)
            todo += [(loss + 1, n, m), (loss - 1, n, m)]
        return found


def with_shares(basic: Fraction, approximation: Fraction, conversion: Fraction) -> LedgerCap:
    rho, alpha = certified_share(EPSILON, conversion)
    return LedgerCap(
        basic=Budget(epsilon=EPSILON, delta=basic),
        concentrated=Concentrated(rho=rho, delta=approximation),
        alpha=alpha,
    )


def with_gaussian(basic: Fraction, approximation: Fraction, conversion: Fraction) -> LedgerCap:
    mu = gaussian_share(EPSILON, conversion)
    return LedgerCap(
        basic=Budget(epsilon=EPSILON, delta=basic),
        gaussian=GaussianLoss(mu_squared=mu**2, delta=approximation),
        mu=mu,
    )


def test_the_charges_are_what_the_mechanism_costs() -> None:
    assert log_lower(RATIO, bits=40) < STEP <= log_lower(RATIO, bits=40) + Fraction(1, 2**40)


@pytest.mark.parametrize("leak", [DELTA / 2, DELTA / 4, DELTA / 10])
def test_no_strategy_exceeds_the_cap(leak: Fraction) -> None:
    shared = LedgerCap.shared(Budget(epsilon=EPSILON, delta=DELTA))
    assert shared is not None
    assert Adversary(shared, leak).value <= DELTA  # exact, in fractions


@pytest.mark.parametrize("leak", [DELTA / 8, DELTA / 16])
def test_no_strategy_exceeds_the_cap_with_gaussian_composition(leak: Fraction) -> None:
    cap = Budget(epsilon=EPSILON, delta=DELTA)
    beside = LedgerCap.mostly_gaussian(cap)
    assert beside is not None
    assert Adversary(beside, leak).value <= DELTA
    # Many randomized responses lose epsilon**2 each, not (pi/2) epsilon**2; at that cost, the rule
    # is nearly tight.
    alone = with_gaussian(Fraction(0), Fraction(0), DELTA)
    needed = Adversary(alone, DELTA, mu_squared_charged=Fraction(113 * 2, 355)).value
    assert DELTA / 2 < needed <= DELTA


def test_the_best_strategy_alternates_between_accounts_and_comes_close() -> None:
    """On some paths the best strategy satisfies one condition, on others the other."""
    account = with_shares(DELTA * 9 / 10, Fraction(0), DELTA / 10)
    adversary = Adversary(account, DELTA * 9 / 10)
    assert {(True, False, False), (False, True, False)} <= adversary.visited()
    alone = Adversary(LedgerCap(basic=account.basic), DELTA * 9 / 10).value
    assert alone < adversary.value <= DELTA
    assert adversary.value > DELTA * Fraction(9, 10)


def test_slightly_wrong_rules_are_broken() -> None:
    """The same adversary breaks each rule that omits an assumption of the proof."""
    # The same delta for both accounts, or for the approximation and the conversion.
    assert Adversary(with_shares(DELTA, Fraction(0), DELTA), DELTA).value > DELTA
    assert Adversary(with_shares(Fraction(0), DELTA, DELTA), DELTA).value > DELTA
    shared = LedgerCap.shared(Budget(epsilon=EPSILON, delta=DELTA))
    assert shared is not None
    assert Adversary(shared, DELTA / 2, rho_charged=Fraction(1, 2)).value > DELTA
    # The same delta for basic and Gaussian composition, or costs in mu**2 that are too low.
    assert Adversary(with_gaussian(DELTA, Fraction(0), DELTA), DELTA).value > DELTA
    assert Adversary(with_gaussian(Fraction(0), DELTA, DELTA), DELTA).value > DELTA
    gaussian = with_gaussian(Fraction(0), Fraction(0), DELTA)
    assert Adversary(gaussian, DELTA, mu_squared_charged=Fraction(1, 2)).value > DELTA
    # One step too many by basic composition.
    basic = Budget(epsilon=EPSILON + STEP, delta=DELTA)
    assert Adversary(LedgerCap(basic=basic), DELTA).value > DELTA


# --- twenty publishers at each border -------------------------------------------------------------

RACE = """
import os, signal, sys
from fractions import Fraction
from hushtable.errors import BudgetExceeded
from hushtable.privacy.ledger import storage as file
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.guarantee import ApproxDP, PureDP, Unit
from hushtable.privacy.ledger.ledger import Ledger

ROW = {"unit": Unit(kind="row"), "neighbors": "add-remove"}
path, kind, n_killed = sys.argv[1], sys.argv[2], int(sys.argv[3])
epsilon, delta = Fraction(1), Fraction(1, 10**6)
quilt = ApproxDP(epsilon=epsilon, delta=delta, rho=concentrated_share(epsilon, delta), **ROW)
small = PureDP(epsilon=Fraction(1, 2), **ROW)

def die_before(statement):
    connect, seen = file._connect, []

    def see(_):
        seen.append(1)
        if len(seen) == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(*arguments):
        connection = connect(*arguments)
        connection.set_trace_callback(see)
        return connection

    file._connect = dying

start, started = os.pipe()
children = []
for number in range(20):
    promise = {"quilt": quilt, "pure": small, "both": (quilt, small)[number % 2]}[kind]
    child = os.fork()
    if child == 0:
        status = 2
        try:
            book = Ledger.open(path)
            if number < n_killed:
                die_before(1 + number)
            os.close(started)
            os.read(start, 1)  # returns for all at once, when the parent closes its end
            try:
                while True:
                    entry = book.charge([promise], purpose=kind)
                    os.write(1, f"{entry.receipt}\\n".encode())  # one write: lines stay whole
            except BudgetExceeded:
                status = 0
        finally:
            os._exit(status)
    children.append(child)
os.close(started)
ends = [os.waitpid(child, 0)[1] for child in children]
died = sum(end == signal.SIGKILL for end in ends)
os.write(1, f"died {died}\\n".encode())
sys.exit(any(end not in (0, signal.SIGKILL) for end in ends))
"""

N_KILLED = 8
"""How many of the twenty are killed, each before another of its first statements."""


@pytest.mark.parametrize("n_killed", [0, N_KILLED], ids=["all live", "some are killed"])
@pytest.mark.parametrize("kind", ["quilt", "pure", "both"])
def test_twenty_processes_race_at_the_border(kind: str, n_killed: int, tmp_path: Path) -> None:
    path = tmp_path / "book"
    Ledger.create(path, epsilon=3, delta="1e-5")
    command = [sys.executable, "-c", RACE, str(path), kind, str(n_killed)]
    done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    *told, died = done.stdout.splitlines()
    n_died = int(died.removeprefix("died "))
    assert n_died >= n_killed // 2  # the first statements come before any refusal
    book = Ledger.open(path)
    state = book._read()
    assert state.account is not None
    assert state.account.allows(state.spent)
    # Every acknowledged charge is recorded; a killed process may have one more.
    receipts = {entry.receipt for entry in book.entries()}
    assert set(told) <= receipts
    assert len(receipts) <= len(told) + n_died
    if kind == "quilt":  # the limit of zCDP composition
        assert len(book.entries()) == 8
        assert not state.account.basic.covers(state.spent.basic)
    if kind == "pure":  # the limit of basic composition
        assert len(book.entries()) == 6
        assert not state.account.concentrated.covers(state.spent.concentrated)
    # Every process continued until none of its charges was admitted.
    for promise in {"quilt": [quilt(1, "1e-6")], "pure": [pure("1/2")]}.get(
        kind, [quilt(1, "1e-6"), pure("1/2")]
    ):
        assert not book.quote([promise]).fits


# --- kills ----------------------------------------------------------------------------------------


def killed_at(path: Path, act: Any, statement: int) -> bool:
    """Act in a child that is killed before its n-th SQL statement; return whether it was."""
    child = os.fork()
    if child == 0:
        n_seen = 0
        connect = file._connect

        def dying(path: Path, timeout: float) -> sqlite3.Connection:
            def see(_: str) -> None:
                nonlocal n_seen
                n_seen += 1
                if n_seen == statement:
                    os.kill(os.getpid(), signal.SIGKILL)

            connection = connect(path, timeout)
            connection.set_trace_callback(see)
            return connection

        status = 1
        try:
            book = Ledger.open(path)
            file._connect = dying
            act(book)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


ACTS: dict[str, Any] = {
    "the first charge, which fixes the shares": lambda book: book.charge(
        [quilt(1, "1e-6")], purpose="x"
    ),
    "a reservation": lambda book: book.reserve([quilt(1, "1e-6")], purpose="x"),
}


@pytest.mark.parametrize("what", ACTS)
def test_a_kill_between_any_two_statements_leaves_a_whole_record_or_none(
    what: str, tmp_path: Path
) -> None:
    """Both accounts are in one record and one transaction."""
    statement, n_killed = 0, 0
    used_up = set()
    while True:
        statement += 1
        path = tmp_path / f"book{statement}"
        Ledger.create(path, epsilon=3, delta="1e-5")
        before = Ledger.open(path)._read()
        killed = killed_at(path, ACTS[what], statement)
        after = Ledger.open(path)._read()  # opens and satisfies every rule
        assert len(after.digests) in {1, 2}
        if len(after.digests) == 1:
            assert killed
            assert after == before
        else:
            assert after.account is not None
            assert after.account.concentrated.rho
            assert after.total == Loss.of(quilt(1, "1e-6"))
        if len(after.digests) not in used_up:
            # In any case, exactly the whole cap can be used.
            used_up.add(len(after.digests))
            book = Ledger.open(path)
            n_fitting = 0
            while book.quote([quilt(1, "1e-6")]).fits:
                book.charge([quilt(1, "1e-6")], purpose="x")
                n_fitting += 1
            assert n_fitting == 8 - (len(after.digests) == 2)
        if not killed:
            break
        n_killed += 1
    assert n_killed >= 5


def life(book: Ledger, told: Any) -> None:
    """Do everything that writes to a ledger, in order, and report after each step."""
    kept = book.reserve([quilt(1, "1e-6")], purpose="kept for later")
    told()
    paid = book.charge([quilt(1, "1e-6")], purpose="a first release")
    told()
    drawn = book.charge([quilt("1/2", "1e-7")], purpose="drawn", reservation=kept)
    told()
    book.mark_released(paid.id, "ab" * 32)
    told()
    book.void(drawn.id, "the disk was full")
    told()
    book.release_reservation(kept)
    told()


def test_a_kill_at_any_time_loses_no_acknowledged_record(tmp_path: Path) -> None:
    """After any prefix of reserve, charge, draw, release and void, work can continue."""
    spent_after = [NOTHING]
    book = Ledger.create(tmp_path / "whole", epsilon=3, delta="1e-5")
    life(book, lambda: spent_after.append(book._read().spent))
    n_records = len(book._read().digests)
    assert n_records == len(spent_after)

    statement, killed, seen = 0, True, set()
    while killed:
        statement += 1
        path, heard = tmp_path / f"book{statement}", tmp_path / f"heard{statement}"
        Ledger.create(path, epsilon=3, delta="1e-5")
        heard.touch()

        def act(book: Ledger, heard: Path = heard) -> None:
            def told() -> None:
                with heard.open("a") as file:
                    file.write("x")

            life(book, told)

        killed = killed_at(path, act, statement)
        n_told = len(heard.read_text())
        state = Ledger.open(path)._read()  # opens and satisfies every rule
        n_written = len(state.digests) - 1  # the first is the ledger itself
        assert n_told <= n_written <= n_told + killed
        assert state.spent == spent_after[n_written]
        if (n_told, n_written) in seen:
            continue
        seen.add((n_told, n_written))
        # The limit is unchanged: as many charges are admitted as without the kill.
        book = Ledger.open(path)
        for reservation in book.reservations():
            if reservation.status == "open":
                book.release_reservation(reservation.id)
        more = 0
        while book.quote([quilt(1, "1e-6")]).fits:
            book.charge([quilt(1, "1e-6")], purpose="x")
            more += 1
        account = book._read().account
        assert account is not None
        assert account.allows(book._read().spent)
        assert more == account.remaining_charges(spent_after[n_written], Loss.of(quilt(1, "1e-6")))
    assert {told for told, _ in seen} == set(range(n_records))


# --- reservations, split and joined ---------------------------------------------------------------


def test_a_divided_reservation_allows_no_more_than_a_whole_one(tmp_path: Path) -> None:
    """Epsilon adds up and rho does not: reserved in many parts and drawn in few, or the reverse.

    The final charges must be admissible as if nothing had ever been reserved.
    """
    for reserved, drawn in (("1/10", "1/2"), ("1/2", "1/10")):
        path = tmp_path / reserved.replace("/", "-")
        book = Ledger.create(path, epsilon=2, delta="1e-5")
        pieces = [pure(reserved)] * int(Fraction(1, 2) / Fraction(reserved))
        number = book.reserve(pieces, purpose="x")
        for _ in range(int(Fraction(1, 2) / Fraction(drawn))):
            book.charge([pure(drawn)], purpose="x", reservation=number)
        while book.quote([pure(drawn)]).fits:
            book.charge([pure(drawn)], purpose="x")
        state = book._read()
        assert state.account is not None
        assert state.reserved.basic == Budget()
        assert state.account.allows(state.spent)
        n_fitting = len(book.entries())
        plain = state.account.remaining_charges(NOTHING, Loss.of(pure(drawn)))
        assert n_fitting <= plain


def test_a_draw_does_not_bypass_a_full_account(tmp_path: Path) -> None:
    """A draw with more rho than was reserved is checked against the remaining rho."""
    book = Ledger.create(tmp_path / "book", epsilon=3, delta="1e-5")
    number = book.reserve([quilt("1/10", "1e-8")] * 10, purpose="in pieces: little rho")
    while book.quote([quilt(1, "1e-6")]).fits:
        book.charge([quilt(1, "1e-6")], purpose="x")
    # Epsilon 1 is left, but as one release it has a rho of 1/2.
    with pytest.raises(BudgetExceeded):
        book.charge([pure(1)], purpose="joined", reservation=number)
    state = book._read()
    assert state.account is not None
    assert state.account.allows(state.total)
