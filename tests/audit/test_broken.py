"""Every broken mechanism is seen by the auditor's defaults; benchmarks/broken_mechanisms: how soon.

What is seen by comparing runs with the same outcomes, by words or by draws on given words is seen
always. Where a difference is counted, it is certain, and the count misses none of it. Mechanisms
whose noise is off by a chance (a threshold one too low, seeds of 16 bits) are told by many times
the hits that would do, so that a miss has probability below 1e-9.
"""

from __future__ import annotations

import pytest

from audit.broken import BROKEN, Broken
from hushtable.audit import audit
from hushtable.errors import ParameterError
from hushtable.testing import check_audit_sees


def caught(broken: Broken) -> None:
    with pytest.MonkeyPatch.context() as patch:
        broken.breaks(patch)
        if broken.is_refused:
            with pytest.raises(ParameterError):  # it cannot even be planned
                audit(broken.method)
            return
        check_audit_sees(broken.method)


def named(broken: Broken) -> str:
    return broken.name.replace(" ", "-")


@pytest.mark.parametrize("broken", [b for b in BROKEN if b.quick], ids=named)
def test_a_broken_mechanism_is_seen(broken: Broken) -> None:
    caught(broken)


@pytest.mark.long
@pytest.mark.parametrize("broken", [b for b in BROKEN if not b.quick], ids=named)
def test_every_broken_mechanism_is_seen(broken: Broken) -> None:
    caught(broken)


def test_levels_that_take_long_to_find_leave_time_to_test_them() -> None:
    """All of the time went into choosing a record. Every run shows it: 20 of them are enough."""
    (broken,) = (b for b in BROKEN if b.name == "an eighth of a safe level")
    with pytest.MonkeyPatch.context() as patch:
        broken.breaks(patch)
        assert audit(broken.method, seconds=2).verdict == "VIOLATION"


def test_there_are_enough_of_them_in_all_families() -> None:
    assert len({broken.name for broken in BROKEN}) == len(BROKEN) >= 40
    assert {broken.method.name for broken in BROKEN} >= {
        "alpha-beta", "columns", "contingency-table", "degrees", "diffgen", "frapp",
        "dp-c45", "generalize-suppress", "mondrian", "noisy-counts", "partition", "quilt",
        "top-down-specialization", "uncertain",
    }  # fmt: skip
