"""Every broken mechanism is detected with default settings; see benchmarks/broken_mechanisms.

Faults found by comparing runs with the same outcomes, random words, or draws on given words are
always detected. A certain difference is always counted. Mechanisms whose noise has a small error (a
threshold that is one too low, seeds of 16 bits) produce many times the required hits, so that a
miss has probability below 1e-9.
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
            with pytest.raises(ParameterError):  # the method refuses to plan it
                audit(broken.method)
            return
        check_audit_sees(broken.method)


def named(broken: Broken) -> str:
    return broken.name.replace(" ", "-")


@pytest.mark.parametrize("broken", [b for b in BROKEN if b.quick], ids=named)
def test_a_broken_mechanism_is_detected(broken: Broken) -> None:
    caught(broken)


@pytest.mark.long
@pytest.mark.parametrize("broken", [b for b in BROKEN if not b.quick], ids=named)
def test_every_broken_mechanism_is_detected(broken: Broken) -> None:
    caught(broken)


def test_levels_that_take_long_to_find_leave_time_to_test_them() -> None:
    """The selection of a record used all of the time. Every run shows the fault: 20 are enough."""
    (broken,) = (b for b in BROKEN if b.name == "an eighth of a safe level")
    with pytest.MonkeyPatch.context() as patch:
        broken.breaks(patch)
        assert audit(broken.method, seconds=2).verdict == "VIOLATION"


def test_all_families_have_enough_broken_mechanisms() -> None:
    assert len({broken.name for broken in BROKEN}) == len(BROKEN) >= 40
    assert {broken.method.name for broken in BROKEN} >= {
        "alpha-beta", "columns", "contingency-table", "degrees", "diffgen", "frapp",
        "dp-c45", "generalize-suppress", "mondrian", "noisy-counts", "partition", "quilt",
        "top-down-specialization", "uncertain",
    }  # fmt: skip
