"""Mistakes that no test of the auditor was designed for when they were written.

Contributions that are off by one, rows that affect others, noise drawn until it fits, caches,
clocks, warnings, links and attributes of files, columns with many values, groups that are one too
small, private priors, and budgets that are spent twice or in the wrong unit.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hushtable.methods.counts.columns as columns_module
import hushtable.methods.degrees.degrees as degrees_module
import hushtable.methods.diffgen.dp_c45 as dp_c45_module
import hushtable.methods.quilt.one_way as cuts_module
from audit.broken.budgets import _unsettled
from audit.broken.kind import (
    Broken,
    Patch,
    around,
    beside,
    cells_of,
    exact,
    n_rows,
)
from hushtable.engine import baskets, memory_engine
from hushtable.engine.graph import OrderedEdges, SealedDegrees
from hushtable.errors import HushtableWarning, Refused, TooLarge
from hushtable.methods import (
    AlphaBeta,
    Columns,
    ContingencyTable,
    DiffGen,
    GeneralizeSuppress,
    NoisyCounts,
    Partition,
    Quilt,
    TopDownSpecialization,
    Uncertain,
)
from hushtable.methods.base import Released
from hushtable.methods.counts.generalize_suppress import GeneralizeSuppressPlan
from hushtable.methods.counts.noisy_counts import NoisyCountsPlan
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.diffgen.contingency_table import ContingencyTablePlan
from hushtable.methods.diffgen.diffgen import DiffGenPlan
from hushtable.methods.diffgen.dp_c45 import DpC45
from hushtable.methods.diffgen.top_down_specialization import TopDownSpecializationPlan
from hushtable.methods.partition.mondrian import Mondrian
from hushtable.methods.quilt.budget import BudgetShares, PrivateMeasurer
from hushtable.methods.quilt.prior_weight import PriorRows
from hushtable.methods.quilt.quilt import QuiltPlan
from hushtable.methods.quilt.workload import WorkloadItem
from hushtable.methods.uncertain.uncertain import UncertainPlan
from hushtable.privacy.accounting.sealed import SealedCounts, unseal
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.mechanisms.cells import DomainMechanism, NoisyCells, TupleCounts
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.scored_splits import SplitChoice
from hushtable.privacy.mechanisms.tuple_perturbation import NextView, TupleSet, is_among, merged
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.release.writer import ReleaseWriter

TABLE = ContingencyTable(epsilon=1)
PURE = NoisyCounts(epsilon=1, mechanism="pure")
TIGHT = NoisyCounts(epsilon=1, delta="1/100", k=5)
QUILT = Quilt(epsilon=1, particles=1000)
STATISTIC = Quilt(epsilon=1, delta="1e-6", particles=1000, workload=["mean(x) by y"])
TWO_VIEWS = AlphaBeta(alpha="2/5", beta="1/10", views=2)
FEW_VALUES = Columns(
    epsilon=2, delta="1/100", k=1, max_columns=2, clusters=[2], item="movie", value="stars",
    max_values=2,
)  # fmt: skip
TREE = DpC45(epsilon=1, depth=1)


# --- rows -----------------------------------------------------------------------------------------


def one_row_too_many(patch: Patch) -> None:
    """A bound on a person's rows that is off by one."""
    real = memory_engine._bounded
    patch.setattr(
        memory_engine, "_bounded", lambda persons, most, noise: real(persons, most + 1, noise)
    )


def _changed_rows(patch: Patch, change: Any) -> None:
    """Use only the rows that `change` selects."""
    real = memory_engine.MemoryEngine.__dict__["_rows_and_persons"].func

    def changed(self: Any) -> Any:
        rows, persons = real(self)
        kept = change(np.stack(list(rows.values()), axis=1))
        found = {name: column[kept] for name, column in rows.items()}
        return memory_engine.Encoded(found, None if persons is None else persons[kept])

    prop = functools.cached_property(changed)
    prop.__set_name__(memory_engine.MemoryEngine, "_rows_and_persons")
    patch.setattr(memory_engine.MemoryEngine, "_rows_and_persons", prop)


def first_hundred_rows(patch: Patch) -> None:
    """A sorted table that is truncated: if one person leaves, another enters."""
    _changed_rows(patch, lambda rows: np.lexsort(rows.T)[:100])


def unique_rows_left_out(patch: Patch) -> None:
    """Unique rows are omitted: a duplicate brings two of them back."""

    def change(rows: Any) -> Any:
        _, which, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        return np.flatnonzero(counts[which.ravel()] > 1)

    _changed_rows(patch, change)


def all_values_count(patch: Patch) -> None:
    """A bound on the values of a person that is not enforced."""
    patch.setattr(baskets.Records, "at_most", lambda self, most, noise: self)


# --- noisy counts ---------------------------------------------------------------------------------


def _noisy_column(released: Released) -> Any:
    return released.tables["data"]["noisy_count"].to_numpy().copy()


def _with_counts(released: Released, noisy: Any) -> Released:
    table = released.tables["data"]
    place = table.column_names.index("noisy_count")
    changed = table.set_column(place, "noisy_count", pa.array(noisy))
    return replace(released, tables={**released.tables, "data": changed})


def no_more_than_there_are(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Counts capped at the true total."""
    released = real(plan, source, noise)
    return _with_counts(released, np.minimum(_noisy_column(released), n_rows(source)))


def adds_up(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """A last cell that makes the counts add up to the true total."""
    released = real(plan, source, noise)
    noisy = _noisy_column(released)
    noisy[-1] += n_rows(source) - noisy.sum()
    return _with_counts(released, noisy)


def drawn_until_it_pleases(patch: Patch) -> None:
    """Large noise is drawn again."""
    real = Laplace.draw

    def draw(self: Laplace, counts: Any, noise: Any) -> Any:
        noisy = real(self, counts, noise)
        while np.abs(noisy - counts).max(initial=0) > 3 * self.scale:
            noisy = real(self, counts, noise)
        return noisy

    patch.setattr(Laplace, "draw", draw)


def mirrored_noise(patch: Patch) -> None:
    """Two tables with opposite noise, so that their errors cancel."""
    kept: dict[Any, Any] = {}
    real = Laplace.draw

    def draw(self: Laplace, counts: Any, noise: Any) -> Any:
        key = (id(noise), counts.shape)
        if key in kept:
            return counts - kept.pop(key)
        noisy = real(self, counts, noise)
        kept[key] = noisy - counts
        return noisy

    patch.setattr(Laplace, "draw", draw)


def cached_by_counts(patch: Patch) -> None:
    """A cache of noisy tables, keyed by exact counts."""
    kept: dict[bytes, Any] = {}
    real = DomainMechanism.draw

    def draw(self: Any, cells: Any, noise: Any) -> Any:
        key = cells.counts.tobytes() + cells.codes.tobytes()
        if key not in kept:
            kept[key] = real(self, cells, noise)
        return kept[key]

    patch.setattr(DomainMechanism, "draw", draw)


def empty_leaves_are_not_drawn(patch: Patch) -> None:
    """No noise for empty groups, which are published as 0."""
    real = DomainMechanism.add

    def add(self: Any, codes: Any, counts: Any, noise: Any) -> NoisyCells:
        made = real(self, codes, counts, noise)
        there = self.domain.pack(codes)[:, 0]
        noisy = np.zeros_like(made.noisy)
        noisy[there] = made.noisy[there]
        return NoisyCells(made.codes, noisy)

    patch.setattr(DomainMechanism, "add", add)


def best_way(patch: Patch) -> None:
    """The best way, without randomness."""

    def draw(self: Any, ways: Any, noise: Any) -> Any:
        which = int(np.argmax([one.scores.max() for one in ways]))
        return which, int(ways[which].starts[int(np.argmax(ways[which].scores))])

    patch.setattr(SplitChoice, "draw", draw)


# --- texts ----------------------------------------------------------------------------------------


def warned(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    if n_rows(source) % 2:
        warnings.warn("the number of rows is odd.", HushtableWarning, stacklevel=1)
    return real(plan, source, noise)


def kind_of_a_refusal(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    if noise.uniform_below(2, size=1)[0]:
        raise (TooLarge if n_rows(source) % 2 else Refused)("these rows are too much alike.")
    return real(plan, source, noise)


def file_elsewhere(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """A file with private information outside of the release."""
    Path(tempfile.gettempdir(), "hushtable-last-run").write_text(f"{n_rows(source)}\n")
    return real(plan, source, noise)


def in_the_environment(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    os.environ["HUSHTABLE_LAST_ROWS"] = str(n_rows(source))
    return real(plan, source, noise)


def how_long_it_took(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    started = time.perf_counter()
    released = real(plan, source, noise)
    return beside(released, seconds=time.perf_counter() - started)


# --- folders --------------------------------------------------------------------------------------

_SEEN = [0]


def _durable(patch: Patch, change: Any) -> None:
    def counting(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        _SEEN[0] = n_rows(source)
        return real(plan, source, noise)

    around(ContingencyTablePlan, counting)(patch)
    real = ReleaseWriter.make_durable

    def make_durable(self: Any) -> None:
        real(self)
        change(Path(self._part))

    patch.setattr(ReleaseWriter, "make_durable", make_durable)


def attribute_of_a_file(patch: Patch) -> None:
    def change(folder: Path) -> None:
        os.setxattr(folder / "statement.json", "user.rows", str(_SEEN[0]).encode())

    _durable(patch, change)


def name_of_a_link(patch: Patch) -> None:
    _durable(patch, lambda folder: (folder / "source").symlink_to(f"table-of-{_SEEN[0]}"))


def time_of_a_folder(patch: Patch) -> None:
    _durable(patch, lambda folder: os.utime(folder, (1_500_000_000 + _SEEN[0],) * 2))


def payload_of_a_nan(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Private information in the 51 payload bits of a NaN."""
    released = real(plan, source, noise)
    bits = np.uint64(0x7FF8000000000000) | np.uint64(n_rows(source))
    table = released.tables["data"]
    column = pa.array(np.full(table.num_rows, bits, np.uint64).view(np.float64))
    changed = table.append_column("unknown", column)
    return replace(released, tables={**released.tables, "data": changed})


# --- inputs ---------------------------------------------------------------------------------------


def beyond(limit: int) -> Any:
    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        released = real(plan, source, noise)
        return beside(released, rows=n_rows(source)) if n_rows(source) > limit else released

    return change


def cuts_by_exact_counts(patch: Patch) -> None:
    """Wide columns binned by exact counts."""
    real = cuts_module._cut_heavy
    counts: list[Any] = []
    measure = PrivateMeasurer.measure

    def noticed(self: PrivateMeasurer, step: str, group: Any, share: Any, cells: Any = None) -> Any:
        counts[:] = [unseal(self._counts(group, cells))]
        return measure(self, step, group, share, cells)

    def by_exact(starts: Any, table: Any, *given: Any) -> Any:
        return real(starts, replace(table, counts=counts[0]), *given)

    patch.setattr(PrivateMeasurer, "measure", noticed)
    patch.setattr(cuts_module, "_cut_heavy", by_exact)


def cuts_are_free(patch: Patch) -> None:
    """Bins that are not charged."""
    _unsettled(patch)
    real = BudgetShares.spend

    def spend(self: BudgetShares, step: str, share: Fraction) -> None:
        if "cuts" not in step:
            real(self, step, share)

    patch.setattr(BudgetShares, "spend", spend)


def half_the_change_of_a_sum(patch: Patch) -> None:
    """Sums of a workload whose sensitivity is half of what a row may change."""
    real = Sensitivity.of_sums

    def halved(self: Sensitivity, *given: Any) -> Sensitivity:
        found = real(self, *given)
        assert found.norms is not None
        l1, l2_squared = found.norms
        return replace(found, norms=(l1 // 2, l2_squared // 4))

    patch.setattr(Sensitivity, "of_sums", halved)


def rounding_by_exact_total(patch: Patch) -> None:
    """Sums whose stated error follows from the exact number of rows."""
    real = WorkloadItem.measured

    def measured(self: WorkloadItem, measurer: PrivateMeasurer, group: Any, *given: Any) -> Any:
        exact = unseal(measurer._source.counts([measurer._names[group[0]]])).counts.sum()
        shares, total, share = given
        return real(self, measurer, group, shares, total + int(exact), share)

    patch.setattr(WorkloadItem, "measured", measured)


def rounds_by_exact_fit(patch: Patch) -> None:
    """Selection that stops when the model fits the exact tables."""
    real = PrivateMeasurer.choose

    def choose(
        self: PrivateMeasurer, step: str, candidates: Sequence[Any], **how: Any
    ) -> list[int]:
        off = [
            np.abs(unseal(self._counts(c.group, c.cells)) - c.expected).sum() for c in candidates
        ]
        return real(self, step, candidates, **how) if max(off, default=0) > 8 else []

    patch.setattr(PrivateMeasurer, "choose", choose)


def private_prior(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """A prior made from the private table."""
    codes, counts = cells_of(plan, source)
    rows = np.repeat(codes, counts, axis=0).astype(np.int64)
    if not len(rows):
        return real(plan, source, noise)
    names = list(plan.schema.attributes)
    prior = PriorRows({name: rows[:, place] for place, name in enumerate(names)})
    # The release's description of its prior does not depend on the rows.
    made = real(replace(plan, prior=prior), source, noise)
    return replace(made, settings={k: v for k, v in made.settings.items() if k != "prior"})


# --- units of cost --------------------------------------------------------------------------------


def gaussian_for_pure(patch: Patch) -> None:
    """A charge in rho for a promise of pure epsilon."""
    _unsettled(patch)
    whole = QuiltPlan.budget

    def purse(self: QuiltPlan) -> BudgetShares:
        made = whole(self)
        return BudgetShares(
            total=made.total**2 / 2, accounting="concentrated", rows_per_unit=made.rows_per_unit
        )

    patch.setattr(QuiltPlan, "budget", purse)


def delta_once(patch: Patch) -> None:
    """One delta for all columns, although each of them spends it."""
    real = columns_module.shares_of

    def shares(epsilon: Fraction, delta: Fraction, n: int) -> Any:
        return [(each, delta) for each, _ in real(epsilon, delta, n)][:1]

    patch.setattr(columns_module, "shares_of", shares)
    price = TupleCounts.cost

    def cheap(self: TupleCounts, sensitivity: Sensitivity) -> Any:
        made = price(self, sensitivity)
        return replace(made, delta=getattr(self.count, "delta", Fraction(0)))

    patch.setattr(TupleCounts, "cost", cheap)


def delta_by_rows(patch: Patch) -> None:
    """A delta divided evenly among a person's rows, as if it were additive."""
    for place in ("privacy.accounting.run_account", "methods.counts.noisy_counts"):
        patch.setattr(f"hushtable.{place}.delta_per_row", lambda _, delta, rows: delta / rows)
    _unsettled(patch)


def half_of_the_rows(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Sampling half of the rows, at half the cost."""
    return real(
        replace(plan, groups=replace(plan.groups, rate=2 * plan.groups.rate)), source, noise
    )


def half_of_the_rows_count(patch: Patch) -> None:
    _unsettled(patch)
    _changed_rows(patch, lambda rows: np.flatnonzero(SecureNoise().bernoulli(
        Fraction(1, 2), size=len(rows))))  # fmt: skip
    around(ContingencyTablePlan, half_of_the_rows)(patch)


# --- seeds ----------------------------------------------------------------------------------------


def words_of_the_clock(patch: Patch) -> None:
    """Words keyed by the time in nanoseconds."""
    patch.setattr(SecureNoise, "_words", lambda self, n: SeededNoise(time.time_ns())._words(n))


def words_of_the_process(patch: Patch) -> None:
    """Words keyed by the process ID and its start time in seconds."""
    streams: dict[int, SeededNoise] = {}

    def words(self: Any, n: int) -> Any:
        if os.getpid() not in streams:
            streams[os.getpid()] = SeededNoise(os.getpid() * 2**32 + int(time.time()))
        return streams[os.getpid()]._words(n)

    patch.setattr(SecureNoise, "_words", words)


def seed_of_the_clock(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    return real(plan, source, SeededNoise(time.time_ns()))


# --- graphs ---------------------------------------------------------------------------------------


def degrees_cut_off(patch: Patch) -> None:
    """Degrees clipped at the bound, without removing edges."""

    def degrees(self: OrderedEdges, max_degree: int) -> Any:
        ends = np.concatenate((self.source, self.target))
        return np.minimum(np.bincount(ends, minlength=self.n_nodes), max_degree).astype(np.int64)

    patch.setattr(OrderedEdges, "degrees", degrees)


def edges_of_hubs_first(patch: Patch) -> None:
    """Edges added in the order of degrees, which an edge changes."""

    def make(self: Any, graph: Any, *, key: int) -> None:
        degrees = graph.degrees()
        order = np.argsort(-(degrees[graph.source] + degrees[graph.target]), kind="stable")
        self.n_nodes = graph.n_nodes
        self.source, self.target = graph.source[order], graph.target[order]

    patch.setattr(OrderedEdges, "__init__", make)


def as_if_listed(patch: Patch) -> None:
    """Nodes that leave with their last edge, not counted as a change."""
    _unsettled(patch)
    patch.setattr(
        SealedDegrees, "cumulative",
        lambda self, bound, real=SealedDegrees.cumulative: _smaller(real(self, bound), bound),
    )  # fmt: skip


def _smaller(counts: SealedCounts, rows: int) -> SealedCounts:
    return SealedCounts(unseal(counts), Sensitivity(rows=rows), counts.part)


def ends_at_the_largest(patch: Patch) -> None:
    """No noise above the largest degree."""
    real = degrees_module.DegreesPlan.measure

    def measure(self: Any, graph: Any, noise: Any) -> Any:
        noisy, settings = real(self, graph, noise)
        largest = int(exact(graph.falling_degrees(1)).ravel()[0])
        return noisy.slice(0, max(1, largest)), settings

    patch.setattr(degrees_module.DegreesPlan, "measure", measure)


# --- views, trees ---------------------------------------------------------------------------------


def inserted_among_all(patch: Patch) -> None:
    """Tuples of earlier views are not inserted again, unless they are real."""

    def draw(self: NextView, cells: Any, noise: Any) -> Any:
        past = self.past
        table = TupleSet(cells.domain, cells.domain.pack(cells.codes))
        fresh = TupleSet(table.domain, table.keys[~is_among(table.keys, past.seen)])
        view = fresh.perturbed(self.law, noise)
        if past.views:
            again = past.views[-1][is_among(past.views[-1], table.keys)]
            view = merged(view[~is_among(view, again)], again)
        past.views.append(view)
        past.seen = merged(past.seen, fresh.keys)
        return past.views

    patch.setattr(NextView, "draw", draw)


def pruned_by_exact_counts(patch: Patch) -> None:
    """A tree without questions that are uninformative for the exact classes."""
    real = dp_c45_module._Grower.grow

    def grow(self: Any, rows: Any, names: Any, depth: int) -> Any:
        classes = exact(rows.table([self.target])).ravel()
        return real(self, rows, names, depth if (classes > 0).sum() > 1 else 0)

    patch.setattr(dp_c45_module._Grower, "grow", grow)


def levels_are_free(patch: Patch) -> None:
    """One budget for all levels of a tree."""
    _unsettled(patch)
    patch.setattr(DpC45, "step_epsilon", lambda self, schema: self.epsilon / 2)


# --- groups ---------------------------------------------------------------------------------------


def group_one_too_small(patch: Patch) -> None:
    """Groups with k - 1 rows."""
    real = Mondrian.divided
    patch.setattr(
        Mondrian, "divided", lambda self, *given: real(replace(self, k=self.k - 1), *given)
    )


def shown_one_too_early(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Tuples with k - 1 rows."""
    return real(replace(plan, method=replace(plan.method, k=plan.method.k - 1)), source, noise)


def shown_too_early(patch: Patch) -> None:
    around(GeneralizeSuppressPlan, shown_one_too_early)(patch)


def specialized_too_far(patch: Patch) -> None:
    around(TopDownSpecializationPlan, shown_one_too_early)(patch)


def cover_of_fewer(patch: Patch) -> None:
    """Each record's own k, read one too low."""
    real = UncertainPlan.wanted
    patch.setattr(UncertainPlan, "wanted", lambda self, values: np.maximum(
        real(self, values) - 1, 2))  # fmt: skip


def eighth_of_the_level(patch: Patch) -> None:
    """An eighth of the safe noise."""
    real = UncertainPlan._safe_widths
    patch.setattr(
        UncertainPlan, "_safe_widths",
        lambda self, finder, groups, shapes: real(self, finder, groups, shapes) // 8,
    )  # fmt: skip


def records_in_their_order(patch: Patch) -> None:
    """Noisy records in the original order."""
    real = UncertainPlan.released
    patch.setattr(
        UncertainPlan, "released",
        lambda self, perturbed, values, order: real(self, perturbed, values, np.sort(order)),
    )  # fmt: skip


BROKEN = (
    Broken("one row of a person too many", PURE, one_row_too_many),
    Broken("the first hundred rows", TABLE, first_hundred_rows, True),
    Broken("rows that are like no other", PURE, unique_rows_left_out, True),
    Broken("all values of a person count", FEW_VALUES, all_values_count),
    Broken("no count above the true total", TABLE,
           around(ContingencyTablePlan, no_more_than_there_are)),
    Broken("counts that add up to the true total", PURE, around(NoisyCountsPlan, adds_up)),
    Broken("noise that is drawn until it pleases", QUILT, drawn_until_it_pleases),
    Broken("noise with its sign turned", QUILT, mirrored_noise),
    Broken("a cache of noisy tables", TABLE, cached_by_counts),
    Broken("no noise for empty leaves", DiffGen(epsilon=1, specializations=1),
           empty_leaves_are_not_drawn),
    Broken("the best way", Partition(epsilon=1, max_depth=2), best_way),
    Broken("a warning", TABLE, around(ContingencyTablePlan, warned)),
    Broken("the kind of a refusal", PURE, around(NoisyCountsPlan, kind_of_a_refusal)),
    Broken("a file elsewhere", TABLE, around(ContingencyTablePlan, file_elsewhere)),
    Broken("a variable of the environment", TABLE,
           around(ContingencyTablePlan, in_the_environment), True),
    Broken("how long it took", DiffGen(epsilon=1, specializations=1),
           around(DiffGenPlan, how_long_it_took)),
    Broken("an attribute of a file", TABLE, attribute_of_a_file, True),
    Broken("the name of a link", TABLE, name_of_a_link, True),
    Broken("the time of a folder", TABLE, time_of_a_folder),
    Broken("the payload of a NaN", TABLE, around(ContingencyTablePlan, payload_of_a_nan)),
    Broken("tables above 70,000 rows", TABLE, around(ContingencyTablePlan, beyond(70_000))),
    Broken("cuts by exact counts", QUILT, cuts_by_exact_counts),
    Broken("cuts that are free", QUILT, cuts_are_free),
    Broken("half the change of a sum", STATISTIC, half_the_change_of_a_sum),
    Broken("rounding by the exact total", STATISTIC, rounding_by_exact_total),
    Broken("rounds by an exact fit", QUILT, rounds_by_exact_fit),
    Broken("a private prior", QUILT, around(QuiltPlan, private_prior)),
    Broken("rho for epsilon", QUILT, gaussian_for_pure, True),
    Broken("delta once for all columns",
           Columns(epsilon=1, delta="1/100", k=2, max_columns=2, columns=[["a"], ["b"]]),
           delta_once, True),
    Broken("delta that rows share evenly", TIGHT, delta_by_rows),
    Broken("half of the rows for twice the epsilon", TABLE, half_of_the_rows_count),
    Broken("words from the clock", PURE, words_of_the_clock),
    Broken("words from the number of the process", PURE, words_of_the_process),
    Broken("a seed from the clock", TABLE, around(ContingencyTablePlan, seed_of_the_clock)),
    Broken("degrees cut off", Degrees(epsilon=1, max_degree=2), degrees_cut_off),
    Broken("edges of hubs first", Degrees(epsilon=1, max_degree=2), edges_of_hubs_first),
    Broken("nodes of edges as if listed",
           Degrees(epsilon=1, max_degree=2, population="endpoints"), as_if_listed),
    Broken("degrees up to the largest", Degrees(epsilon=1, max_degree=8), ends_at_the_largest),
    Broken("views that keep what was somebody's", TWO_VIEWS, inserted_among_all),
    Broken("a tree pruned by exact counts", TREE, pruned_by_exact_counts),
    Broken("levels of a tree share a budget", TREE, levels_are_free),
    Broken("a group one too small", Mondrian(k=3), group_one_too_small),
    Broken("a tuple one too early", GeneralizeSuppress(k=5), shown_too_early),
    Broken("groups specialized too far", TopDownSpecialization(k=3), specialized_too_far),
    Broken("cover of one record less", Uncertain(k=4), cover_of_fewer),
    Broken("an eighth of a safe level", Uncertain(k=3, eta="1/5", edges="wrap"),
           eighth_of_the_level),
    Broken("records in their order", Uncertain(k=3), records_in_their_order),
)  # fmt: skip
