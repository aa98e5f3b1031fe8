"""Inputs, schemas and observations for the tests of certain differences."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hushtable.audit import sweep
from hushtable.audit.cases import Case
from hushtable.audit.coverage import Lines, changes, lines_of
from hushtable.audit.differences import Observation
from hushtable.audit.features import Features
from hushtable.audit.folders import FolderSubject, published, scratch
from hushtable.audit.inputs import Input, TableInput
from hushtable.audit.loss import LossClaim
from hushtable.audit.neighbors import Pair
from hushtable.audit.subject import Prepared, Subject
from hushtable.errors import HushtableError
from hushtable.methods.base import GraphMethod, Plan
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.noise.seeded_noise import SeededNoise
from hushtable.schema import Schema

VARIANT_SIZES = (0, 1, 2, 5, 9, 10, 11, 29, 30, 39, 40, 49, 50, 60, 99, 100, 128, 200, 255, 299)
"""Rows of tables with variants of the schema."""

FOLDER_SIZES = (0, 5, 40, 150)
"""Rows of tables that are observed on disk, or that have several additional columns."""

DISTANT_SIZES = (7, 30_000)
"""Rows of tables that are compared with very different tables."""

GRAPH_SIZES = (*range(1, 41), 49, 50, 63, 64, 99, 100)
"""Numbers of edges of graphs, in each shape."""

FAR_SIZES = (sweep.MOST_ROWS, 512, 1024, 2048, 4096, 8192)
"""Sizes between which a change of the executed lines is searched."""

LARGE = 50_000
"""Rows of a large table."""

SEEDS = (1, 2)
"""Seeds of the runs whose lines are traced."""

TRACED = 2.0
"""CPU seconds after which the search for changes stops."""


def some_inputs(claim: LossClaim) -> list[Input]:
    """Return up to four different inputs."""
    pairs = list(claim.pairs)
    chosen = [pairs[0], pairs[len(pairs) // 2], pairs[-1]]
    return list(dict.fromkeys(side for pair in chosen for side in (pair.one, pair.two)))[:4]


def observations_of(
    claim: LossClaim, case: Case[Any], subject: Subject, *, is_given: bool, is_watched: bool
) -> Iterator[Observation]:
    """Yield the observations for the test of certain differences.

    If all runs were recorded (`hushtable.audit.white_box`), tables of many sizes were already
    tested more thoroughly.
    """
    plan = plan_of(subject)
    known_only = is_given or is_watched
    tried = neighbors_for(claim, case, subject, is_given=known_only)
    for number, (of, name, pairs) in enumerate(tried):
        yield Observation(name, of.seen_in_full, pairs)
        if plan is not None and number == 0:
            yield from _folder(claim, subject, plan, is_given=is_given)


def watched_for(
    claim: LossClaim, case: Case[Any], subject: Subject, *, is_given: bool
) -> Iterator[tuple[Subject, str, list[Pair]]]:
    """Yield the neighbors for recorded runs: all those to try, some as folders, and large ones."""
    plan = plan_of(subject)
    is_graph = isinstance(subject.method, GraphMethod)
    if not is_given and not is_graph:
        yield from _distant(claim, case, subject)
    for number, tried in enumerate(neighbors_for(claim, case, subject, is_given=is_given)):
        yield tried
        if plan is None or number > 0:
            continue
        with scratch() as place:
            pairs = _pairs_for_folders(claim, subject, is_given=is_given)
            yield FolderSubject.of(subject, plan, place), "the folder", pairs
        if not is_given and not is_graph and subject.schema.rows is None:
            large = itertools.islice(sweep.swept(subject.schema, claim.relation, [LARGE]), 2)
            yield subject, "large tables", list(large)
            named = sweep.large_sizes(plan)
            copies = itertools.islice(
                sweep.swept(subject.schema, claim.relation, named), len(named)
            )
            yield subject, "tables of sizes that the method names", list(copies)


def _distant(
    claim: LossClaim, case: Case[Any], subject: Subject
) -> Iterator[tuple[Subject, str, list[Pair]]]:
    """Yield very different tables, for all variants of the schema.

    A release depends only on outcomes, so this must hold for any two tables.
    """
    for name, of in itertools.chain([("", subject)], _variants(claim, case, subject)):
        sizes = DISTANT_SIZES if of.schema.rows is None else (of.schema.rows,)
        pairs = list(sweep.distant_pairs(of.schema, claim.relation, sizes))
        yield of, f"very different tables{name and f', {name}'}", pairs


def neighbors_for(
    claim: LossClaim, case: Case[Any], subject: Subject, *, is_given: bool
) -> Iterator[tuple[Subject, str, list[Pair]]]:
    """Yield the neighbors to try, with what is run on them; only the claim's pairs if given."""
    yield subject, "what is published", list(claim.pairs)
    if is_given:
        return
    if isinstance(subject.method, GraphMethod):
        listed = getattr(subject.method, "population", "listed") == "listed"
        graphs = list(sweep.swept_graphs(GRAPH_SIZES, listed=listed))
        yield subject, "graphs of many sizes", graphs
        plan = plan_of(subject)
        if plan is not None:
            # Post-processing is published, too, and is slower.
            whole = replace(subject, prepared=Prepared(plan.guarantees, plan.run))
            yield whole, "whole releases of graphs", graphs[::4]
        return
    if claim.relation == "add-remove" and subject.schema.rows is not None:
        return  # the number of rows is public, so neighbors must not differ in it
    for name, other in _variants(claim, case, subject):
        is_wide = len(other.schema.attributes) > len(subject.schema.attributes) + 1
        sizes = FOLDER_SIZES if is_wide else VARIANT_SIZES
        yield other, f"tables with {name}", list(sweep.swept(other.schema, claim.relation, sizes))
    plan = plan_of(subject)
    many = sweep.sizes_of(plan)
    if plan is not None:
        many = sorted({*many, *_turns(subject, plan)})
    yield subject, "tables of many sizes", list(sweep.swept(subject.schema, claim.relation, many))


def plan_of(subject: Subject) -> Plan[Any] | None:
    """Return the plan of the method; None if it has none."""
    method: Any = subject.method
    if not hasattr(method, "plan"):
        return None
    plan: Plan[Any] = (
        method.plan(subject.schema.name)
        if isinstance(method, GraphMethod)
        else method.plan(subject.schema)
    )
    return plan


def _folder(
    claim: LossClaim, subject: Subject, plan: Plan[Any], *, is_given: bool
) -> Iterator[Observation]:
    """Yield an observation of the written folder, for some of the neighbors."""
    pairs = _pairs_for_folders(claim, subject, is_given=is_given)
    with scratch() as place:

        def see(given: Input) -> Features:
            subject.n_runs += 1
            return published(plan, subject.opened(given), subject.noise, place)

        yield Observation("the folder", see, pairs)


def _pairs_for_folders(claim: LossClaim, subject: Subject, *, is_given: bool) -> list[Pair]:
    pairs: list[Pair] = list(claim.pairs)[:: max(1, len(claim.pairs) // 8)][:8]
    is_graph = isinstance(subject.method, GraphMethod)
    if not is_given and not is_graph and subject.schema.rows is None:
        pairs += list(sweep.swept(subject.schema, claim.relation, FOLDER_SIZES))
    return pairs


def _turns(subject: Subject, plan: Plan[Any]) -> list[int]:
    """Return sizes beyond the sweep at which runs start to execute other lines."""
    files = [_file_of(kind) for kind in type(plan).__mro__ if _file_of(kind)]
    found: list[int] = []
    started = time.process_time()
    for rows_of in list(sweep.shapes(subject.schema).values())[:2]:

        def lines_at(n: int, rows_of: sweep.Rows = rows_of) -> Lines:
            opened = TableInput(subject.schema, tuple(rows_of(n))).open(SeededNoise(1))

            def act() -> None:
                for seed in SEEDS:
                    try:
                        subject.prepared.run(opened, SeededNoise(seed))
                    except HushtableError:
                        continue

            return lines_of(act, files)

        found += changes(lines_at, FAR_SIZES, enough=lambda: time.process_time() - started > TRACED)
    return found


def _file_of(kind: type) -> str:
    import inspect  # noqa: PLC0415 - only needed here

    try:
        return inspect.getfile(kind)
    except (TypeError, OSError):
        return ""


def _variants(claim: LossClaim, case: Case[Any], subject: Subject) -> Iterator[tuple[str, Subject]]:
    """Yield the method prepared for variants of the schema, if its promise is the same."""
    counted = [p for p in subject.prepared.guarantees if isinstance(p, PureDP | ApproxDP)]
    if not counted:
        return
    prepared: dict[int, Prepared] = {}

    def fits(schema: Schema) -> None:
        prepared[id(schema)] = case.prepare(subject.method, schema)

    for name, schema in sweep.variants(subject.schema, fits):
        ready = prepared[id(schema)]
        same = [
            p
            for p in ready.guarantees
            if isinstance(p, PureDP | ApproxDP)
            and (float(p.epsilon), float(p.delta)) == (claim.forward, claim.delta)
            and p.neighbors == claim.relation
        ]
        if same:
            yield name, Subject(subject.method, schema, ready, subject.noise)
