"""Long ledgers: the work of opening one, and the size of one more charge."""

from __future__ import annotations

import copy
import gc
import json
import random
import sqlite3
from collections import Counter
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hushtable.errors import LedgerError
from hushtable.privacy import composition
from hushtable.privacy.composition import concentrated_implies, concentrated_share, is_concentrated
from hushtable.privacy.guarantee import ApproxDP, PureDP, Unit, parse_guarantee
from hushtable.privacy.ledger import state
from hushtable.privacy.ledger import storage as file
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.records import canonical, digest_of
from hushtable.privacy.ledger.state import read_quickly
from seeds import shifted

ROW: dict[str, Any] = {"unit": Unit(kind="row"), "neighbors": "add-remove"}
MILLIONTH = Fraction(1, 10**6)


def test_a_rho_is_certified_in_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every promise of a ledger is certified on each use; close bounds are too slow for that."""
    pairs = [(Fraction(n, 1000), MILLIONTH) for n in range(1, 3000, 37)]
    pairs += [(Fraction(n, 10**8), Fraction(1, 10**9)) for n in range(1, 10**4, 379)]
    pairs += [(Fraction(n), Fraction(1, 10**5)) for n in (5, 10, 30)]
    shares = [concentrated_share(epsilon, delta) for epsilon, delta in pairs]

    def unwanted(*_: Any) -> Any:
        raise AssertionError("a close bound was asked for")

    monkeypatch.setattr(composition, "exp_bounds", unwanted)
    monkeypatch.setattr(composition, "log_upper", unwanted)
    for (epsilon, delta), rho in zip(pairs, shares, strict=True):
        assert is_concentrated(rho, epsilon, delta)


@pytest.mark.parametrize(
    ("epsilon", "delta", "alpha"),
    [
        ("1", "1e-6", "21"),
        ("1/100", "1e-9", "3000"),
        ("1e-8", "1e-9", "400000000"),
        ("8", "1e-5", "4"),
        ("40", "1e-3", "5/4"),
        ("3", "1/200", "37/9"),
    ],
)
def test_the_integer_check_certifies_no_more_than_close_bounds(
    epsilon: str, delta: str, alpha: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Around the limit, in steps far below the integers' error, both checks agree."""
    promise, order = (Fraction(epsilon), Fraction(delta)), Fraction(alpha)
    quick = partial(composition._implies_in_integers, a=order.numerator, d=order.denominator)
    monkeypatch.setattr(composition, "_implies_in_integers", lambda *_: False)
    low, high = Fraction(0), promise[0]
    for _ in range(150):  # the largest rho that close bounds prove for this alpha
        middle = (low + high) / 2
        proved = concentrated_implies(middle, order, *promise)
        low, high = (middle, high) if proved else (low, middle)
    assert low > 0
    for places in range(20, 150, 5):
        assert not quick(high * (1 + Fraction(1, 2**places)), epsilon=promise[0], delta=promise[1])
    # The integer check certifies nearly all of it, up to a relative 1e-9.
    assert quick(low * (1 - Fraction(1, 10**9)), epsilon=promise[0], delta=promise[1])


def changed(draw: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    """Tamper with a promise: remove a part, change it, or add one."""
    name = draw.choice([*document, "rho", "delta", "more"])
    values = [
        "0", "-1/2", "1/0", "1/2", "0.5", " 1/2", "ln(2)", "1e-9", "1/100", "10001", "9" * 401,
        "2/4", "\u0663", 1, 0.5, True, None, [], {}, "pure-dp", "approx-dp", "threshold", "replace",
        "row", {"kind": "row"}, {"column": None, "kind": "row", "max_rows": True},
        {"column": None, "kind": "node", "max_rows": None},
    ]  # fmt: skip
    if draw.random() < 0.15:
        return {key: value for key, value in document.items() if key != name}
    return {**document, name: draw.choice(values)}


def written_promises() -> list[dict[str, Any]]:
    delta = Fraction(1, 10**9)
    rho = concentrated_share(Fraction(1, 2), delta)
    promises = [
        PureDP(epsilon="1/3", **ROW),
        ApproxDP(epsilon=2, delta="1e-6", **ROW),
        ApproxDP(epsilon="1/2", delta=delta, rho=rho, **ROW),
        ApproxDP(epsilon="1/2", delta=delta, rho=rho, **{**ROW, "neighbors": "replace"}),
    ]
    return [promise.to_dict() for promise in promises]


def test_what_is_read_quickly_is_what_the_model_reads() -> None:
    """The fast parser accepts nothing that the model refuses, and reads nothing differently."""
    draw, n_read, n_left = random.Random(shifted(1)), 0, 0  # noqa: S311 - made-up documents
    row = ROW["unit"]
    for document in written_promises():
        assert read_quickly(document, row) == parse_guarantee(document)
        for _ in range(1500):
            tampered = changed(draw, document)
            if draw.random() < 0.3:
                tampered = changed(draw, tampered)
            quick = read_quickly(tampered, row)
            if quick is None:
                n_left += 1
                continue
            n_read += 1
            slow = parse_guarantee({**tampered, "unit": document["unit"]})
            assert (quick, quick.to_dict()) == (slow, slow.to_dict())
            assert hash(quick) == hash(slow)
    assert min(n_read, n_left) > 500


def told(path: Path) -> str:
    """Return the result of opening a ledger."""
    try:
        return str(Ledger.open(path).show())
    except LedgerError as error:
        return str(error)


def test_fast_and_full_parsing_refuse_tampered_ledgers_with_the_same_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digests are recomputed, so that only the rules can detect it."""
    draw = random.Random(shifted(2))  # noqa: S311 - made-up documents
    book = Ledger.create(tmp_path / "book", epsilon=3, delta="1e-5", allow_uncounted=True)
    for document in written_promises()[:3]:
        entry = book.charge([parse_guarantee(document)], purpose="x")
        book.mark_released(entry.id, "0" * 64)
    connection = sqlite3.connect(book.path)
    rows = connection.execute("SELECT body FROM records ORDER BY seq").fetchall()
    records = [json.loads(body) for (body,) in rows]
    said: Counter[str] = Counter()
    for number in range(60):
        new = copy.deepcopy(records)
        place = draw.choice([1, 3, 5])
        whole = new[place]["guarantees"][0]
        if number % 10 > 1:
            new[place]["guarantees"][0] = changed(draw, whole)
        elif number % 10 == 1:
            new[place]["guarantees"] = draw.choice([["x"], [None], 7, None, [], [whole, whole]])
        _rewrite(connection, new)
        quick = told(book.path)
        with monkeypatch.context() as patch:
            patch.setattr(state, "read_quickly", lambda *_: None)
            assert told(book.path) == quick
        said["refused" if "breaks the ledger's rules" in quick else "opened"] += 1
    connection.close()
    assert said["opened"] >= 6  # every tenth is unchanged
    assert said["refused"] > 0  # most others; all 54 are fine with probability below 1e-6


def _rewrite(connection: sqlite3.Connection, records: list[dict[str, Any]]) -> None:
    """Write all records with matching digests."""
    digest = "0" * 64
    for seq, record in enumerate(records):
        body = canonical(record)
        digest = digest_of(digest, body)
        connection.execute(
            "UPDATE records SET body = ?, digest = ? WHERE seq = ?", (body, digest, seq)
        )
    connection.execute("UPDATE head SET digest = ?", (digest,))
    connection.commit()


def test_a_record_that_is_not_canonical_is_refused(tmp_path: Path) -> None:
    """The same content with an extra space, a duplicate key, or nested too deeply."""
    for name, edit in {
        "space": lambda body: body.replace(":", ": ", 1),
        "twice": lambda body: '{"kind":"charge",' + body[1:],
        "deep": lambda body: "[" * 100_000,
    }.items():
        book = Ledger.create(tmp_path / name, epsilon=3)
        book.charge([PureDP(epsilon=1, **ROW)], purpose="x")
        connection = sqlite3.connect(book.path)
        ((first,),) = connection.execute("SELECT digest FROM records WHERE seq = 0")
        ((body,),) = connection.execute("SELECT body FROM records WHERE seq = 1")
        digest = digest_of(first, edit(body))
        connection.execute(
            "UPDATE records SET body = ?, digest = ? WHERE seq = 1", (edit(body), digest)
        )
        connection.execute("UPDATE head SET digest = ?", (digest,))
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError, match=r"not in canonical form|breaks the ledger's rules"):
            Ledger.open(book.path)


def test_the_garbage_collector_is_restored_after_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects frozen by other code stay frozen, and collection is enabled again."""
    monkeypatch.setattr("hushtable.privacy.ledger.ledger.LONG", 1)
    gc.unfreeze()  # objects frozen after test collection, or by a command
    book = Ledger.create(tmp_path / "book", epsilon=3)
    book.verify()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.freeze()
    book.verify()
    assert gc.get_freeze_count() > 0


def test_a_charge_writes_as_much_in_a_long_ledger_as_in_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Ledger.create(tmp_path / "book", epsilon=10, delta="1e-5")
    changes: list[int] = []
    append = file.append

    def watch(connection: sqlite3.Connection, *content: Any) -> None:
        append(connection, *content)
        changes.append(connection.total_changes)

    monkeypatch.setattr(file, "append", watch)
    for n in range(60):
        promise = PureDP(epsilon=Fraction(n + 1, 10**6), **ROW)
        if n % 2:
            delta = Fraction(1, 10**9)
            rho = concentrated_share(promise.epsilon, delta)
            book.charge(
                [ApproxDP(epsilon=promise.epsilon, delta=delta, rho=rho, **ROW)], purpose="x"
            )
        else:
            book.charge([promise], purpose="x")
    assert set(changes) == {2}  # the record, and the head
    connection = sqlite3.connect(book.path)
    sizes = [len(body) for (body,) in connection.execute("SELECT body FROM records ORDER BY seq")]
    connection.close()
    # The first charge also contains the allocation; later ones do not depend on their position.
    assert max(sizes[2:]) <= sizes[2] + 40
