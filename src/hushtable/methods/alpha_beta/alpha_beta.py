"""Alpha-beta: publish a set of tuples, some of the table's left out and many others put in.

The promise, the algorithm and the proofs are in ``alpha_beta.md`` beside this file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import to_values
from hushtable.domain import Domain
from hushtable.engine.base import Engine
from hushtable.engine.cells import Cells
from hushtable.errors import ParameterError, Refused, TooLarge
from hushtable.methods.alpha_beta.insertions import (
    SourceNoise,
    SourcePrior,
    UniformNoise,
    source_weights,
)
from hushtable.methods.alpha_beta.views import Past, ViewMemory, is_among, merged
from hushtable.methods.base import CountError, Forecast, Method, Released
from hushtable.methods.count_error import coins_error, needed_rows
from hushtable.privacy.bounded_adversary import (
    Adversary,
    Ratios,
    odds_limit,
    solve,
    solve_repeated,
)
from hushtable.privacy.guarantee import (
    BoundedAdversary,
    Guarantee,
    PureDP,
    check_epsilon,
)
from hushtable.privacy.noise import Noise
from hushtable.privacy.rational import as_rational, exp_bounds
from hushtable.privacy.sparse_subset import Keys
from hushtable.schema import Schema

ViewRule = Literal["memoized", "algorithm-4"]

VIEW = "view"
"""Column that tells in which view a tuple was published, if there may be several."""

_BITS = 64

DIGITS = 3
"""A public number of tuples has at most so many digits other than zeros at the end."""


@dataclass(frozen=True, kw_only=True)
class AlphaBeta(Method):
    """Publish the set of tuples after random deletions and insertions.

    Give `d`, `n_public` and `gamma`; or `prior_factor`, `n_public` and `gamma`; or `alpha` and
    `beta`.

    Parameters
    ----------
    gamma : number or str, optional
        Largest chance that an observer can come to give a tuple of being in the table.
    d : number or str, optional
        Largest chance that the observer gave it before; at least `n_public` / size of the domain,
        which is what knowing only the size of the table gives.
    prior_factor : number or str, optional
        In place of `d`: the observer's prior in units of what knowing only the size of the table
        gives (the paper's k), at least 1; d = prior_factor * n_public / size of the domain.
    n_public : int, optional
        A public, rounded number of tuples, for `d` or `prior_factor`; the schema's public number
        of rows is used if it has one.
    adversary : {"exclusive", "independent"}
        ``exclusive`` is also safe against someone who knows that a certain person is in the table.
    alpha, beta : number or str, optional
        Explicit probabilities: a tuple of the table is kept with alpha + beta, any other inserted
        with beta. With `d` and `gamma` they are checked, without only differential privacy is
        promised.
    source : mapping of str to list of number, optional
        Public weights of the codes of some columns (missing last): tuples are inserted in
        proportion to the product of their weights. With `prior_factor` only.
    views : int
        How many views of the table will be published in all.
    view_rule : {"memoized", "algorithm-4"}
        ``memoized``: an old tuple is republished as it was, new tuples get fresh coins.
        ``algorithm-4``: the paper's way, for a table that does not change.
    coins : path, optional
        For several views: the custodian's file of what was published before. It is private; keep
        it beside the ledger.
    max_tuples : int
        Refuse if more tuples than this are expected to be inserted.

    Examples
    --------
    >>> method = AlphaBeta(d="3/10", n_public=6000, gamma="3/5")
    >>> from hushtable import sample_schema
    >>> for promise in method.guarantee(sample_schema()):
    ...     print(promise.family)
    bounded-adversary
    pure-dp
    >>> AlphaBeta(d="1/5", gamma="1/10")
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: d is 1/5 and gamma is 1/10; it must be 0 < d < gamma < 1. \
Lower d or raise gamma.
    """

    name: ClassVar[str] = "alpha-beta"
    paper: ClassVar[str] = (
        "Rastogi, Suciu and Hong, The boundary between privacy and utility in data publishing "
        "(section 4), repaired."
    )
    summary: ClassVar[str] = "Publish the set of tuples with random deletions and insertions."
    estimator: ClassVar[str] = "insertions"

    gamma: Fraction | None = field(
        default=None, metadata={"help": "Largest chance after seeing the release, such as 1/5."}
    )
    d: Fraction | None = field(
        default=None,
        metadata={"help": "Largest chance of a tuple before, at least n / size of the domain."},
    )
    prior_factor: Fraction | None = field(
        default=None,
        metadata={"help": "Instead of d: the prior in units of n / size of the domain, 1 or more."},
    )
    n_public: int | None = field(
        default=None,
        metadata={"help": "A public, rounded number of tuples, for d or prior-factor."},
    )
    adversary: Adversary = field(
        default="exclusive",
        metadata={
            "help": "exclusive: safe against someone who knows that a person takes part; "
            "independent: less noise, not safe against that."
        },
    )
    alpha: Fraction | None = field(
        default=None, metadata={"help": "Explicit: how much likelier a tuple of the table is kept."}
    )
    beta: Fraction | None = field(
        default=None, metadata={"help": "Explicit: the chance of any tuple to be inserted."}
    )
    source: Mapping[str, Sequence[int | float]] = field(
        default_factory=dict,
        hash=False,
        metadata={"help": "Public weights of a column's codes: COLUMN=WEIGHT,WEIGHT,..."},
    )
    views: int = field(
        default=1, metadata={"help": "How many views of the table will be published in all."}
    )
    view_rule: ViewRule = field(
        default="memoized",
        metadata={
            "help": "memoized: old tuples as they were, new ones with fresh coins; algorithm-4: "
            "the paper's, for a table that does not change."
        },
    )
    coins: str | Path | None = field(
        default=None,
        compare=False,
        metadata={"help": "For several views: private file of what was published before."},
    )
    max_tuples: int = field(
        default=20_000_000, metadata={"help": "Refuse if more insertions than this are expected."}
    )

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name in ("gamma", "d", "prior_factor", "alpha", "beta"):
            given = getattr(self, name)
            if given is None:
                continue
            try:
                object.__setattr__(self, name, as_rational(given, name=name))
            except ParameterError as error:
                problems += error.problems
        for name in ("n_public", "views", "max_tuples"):
            given = getattr(self, name)
            if given is not None and (type(given) is not int or given < 1):
                problems.append(f"{name} is {given!r}; it must be a whole number of at least 1.")
        for name, kind in (("adversary", Adversary), ("view_rule", ViewRule)):
            if getattr(self, name) not in get_args(kind):
                allowed = " or ".join(get_args(kind))
                problems.append(f"{name} is {getattr(self, name)!r}; it must be {allowed}.")
        try:
            object.__setattr__(self, "source", _whole_weights(self.source))
        except ParameterError as error:
            problems += error.problems
        if isinstance(self.coins, Path):
            object.__setattr__(self, "coins", str(self.coins))
        if not problems:
            problems = [*self._misplaced(), *self._out_of_range()]
        if problems:
            raise ParameterError(problems)

    def _misplaced(self) -> list[str]:
        """List parameters that are missing or do not go together."""
        problems = []
        explicit = self.alpha is not None or self.beta is not None
        if explicit and (self.alpha is None or self.beta is None):
            problems.append("alpha and beta go together: give both or neither.")
        if self.d is not None and self.prior_factor is not None:
            problems.append("d and prior_factor say the same thing; give one of them.")
        bounded = self.d is not None or self.prior_factor is not None
        if bounded != (self.gamma is not None):
            problems.append("gamma goes with d or prior_factor: give both or neither.")
        if not bounded and not explicit:
            problems.append(
                "say what to promise: d, n_public and gamma, such as 1/1000, 30000 and 1/5; or "
                "prior_factor, n_public and gamma; or alpha and beta."
            )
        if self.n_public is not None and not bounded:
            problems.append("n_public is for d or prior_factor; leave it out.")
        if self.source and (self.prior_factor is None or explicit or self.views > 1):
            problems.append(
                "source needs prior_factor and gamma, since priors then follow the source; it has "
                "no explicit alpha and beta, and only one view."
            )
        return problems

    def _out_of_range(self) -> list[str]:
        problems = []
        if self.d is not None and self.gamma is not None and not 0 < self.d < self.gamma < 1:
            problems.append(
                f"d is {self.d} and gamma is {self.gamma}; it must be 0 < d < gamma < 1. Lower d "
                "or raise gamma."
            )
        elif self.gamma is not None and not 0 < self.gamma < 1:
            problems.append(f"gamma is {self.gamma}; it must lie between 0 and 1.")
        if self.prior_factor is not None and self.prior_factor <= 0:
            problems.append(f"prior_factor is {self.prior_factor}; it must be above 0.")
        if self.n_public is not None and len(str(self.n_public).rstrip("0")) > DIGITS:
            rounded = math.ceil(self.n_public / 10 ** (len(str(self.n_public)) - 2))
            problems.append(
                f"n_public is {self.n_public}, which looks like an exact count. It is published, "
                "and whoever knows all tuples but one could read the last one off it. Round it to "
                f"{rounded * 10 ** (len(str(self.n_public)) - 2)}, or set rows in the schema if "
                "the number is public anyway."
            )
        if self.beta is not None and self.beta <= 0:
            problems.append(
                f"beta is {self.beta}; it must be above 0, or every published tuple is a true one."
            )
        if self.alpha is not None and self.alpha <= 0:
            problems.append(
                f"alpha is {self.alpha}; it must be above 0, or the release says nothing."
            )
        if self.alpha is not None and self.beta is not None and self.alpha + self.beta >= 1:
            problems.append(
                f"alpha + beta is {self.alpha + self.beta}; it must be below 1, or a tuple that is "
                "not published is certainly not in the table."
            )
        return problems

    def parameters(self) -> dict[str, Any]:
        """Give the parameters for the statement; where the custodian keeps files is left out."""
        return {name: value for name, value in super().parameters().items() if name != "coins"}

    # --- the method -------------------------------------------------------------------------------

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Promise the bound on an observer's conclusions, and the differential privacy it means."""
        plan = self.plan(schema)
        # Whatever epsilon comes to: a promise that dropped out would protect less and cost nothing.
        private = PureDP(epsilon=plan.epsilon, unit=schema.unit, neighbors="add-remove")
        if plan.d is None:
            return (private,)
        self._require_observers(schema, plan)
        return (
            BoundedAdversary(d=plan.d, gamma=self.gamma, adversary=self.adversary),
            private,
        )

    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Say how many tuples will be inserted and how exact counts will be."""
        plan = self.plan(schema)
        if self.views > 1:
            self._memory(schema).require_room()
        noise = plan.noise
        lines: dict[str, str | float | int] = {
            "tuples in the domain": _shown(schema.domain.size),
            "tuples inserted as noise, about": round(noise.expected),
            "alpha": float(noise.alpha),
        }
        if isinstance(noise, UniformNoise):
            lines["beta"] = float(noise.beta)
            lines["share of the table's tuples kept"] = float(noise.alpha + noise.beta)
        if plan.d is not None:
            lines["d, the largest prior"] = float(plan.d)
            for kind in get_args(Adversary):
                name = f"largest posterior from there, {kind} observer"
                lines[name] = float(plan.ratios.posterior(plan.d, kind))
        n_tuples = rows if rows is not None else schema.rows or self.n_public
        for share in (0.01, 1):
            held = 0 if n_tuples is None else share * n_tuples / 4
            spread = math.sqrt(share * noise.expected + held) / float(noise.alpha)
            lines[f"standard deviation of a count over {share:.0%} of the domain, about"] = spread
        if n_tuples:
            kept = float(noise.alpha) * n_tuples
            lines["share of true tuples among those published, about"] = kept / (
                kept + noise.expected
            )
        if plan.d is not None and n_tuples and n_tuples > plan.d * schema.domain.size:
            lines["warning"] = (
                f"knowing only that there are about {n_tuples:,} tuples gives each a chance of "
                f"{n_tuples / schema.domain.size:.2g} on average, above d: the promise would cover "
                "nobody who knows that. Raise d, or publish more or finer columns."
            )
        lines["counts are of"] = "distinct tuples"
        memory = (noise.expected + (n_tuples or 0)) * 8 * (2 * len(schema.attributes) + 8) / 1e6
        return Forecast(
            lines=lines,
            split={"tuples": plan.epsilon},
            n_cells=schema.domain.size,
            memory_mb=max(memory, 1.0),
        )

    def count_error(self, schema: Schema, *, rows: int | None, share: float) -> CountError:
        """Add up the coins of the tuples: those of the table, and all others of the domain."""
        plan = self.plan(schema)
        if not isinstance(plan.noise, UniformNoise) or self.views > 1:
            raise Refused(
                "with a source distribution or several views, how many noise tuples a question "
                "takes depends on the question. Leave out source and views to know the error "
                "before."
            )
        asked = share * schema.domain.size
        held = min(asked, share * needed_rows(schema.rows if rows is None else rows))
        return coins_error(
            n_true=held,
            n_other=asked - held,
            keep=float(plan.noise.alpha + plan.noise.beta),
            insert=float(plan.noise.beta),
            assumes="The question takes the same share of the domain as of the rows; counts are of "
            "distinct tuples, and all rows are taken to be distinct.",
        )

    def at_epsilon(self, schema: Schema, epsilon: Fraction) -> Self:
        """Give explicit coins that promise this epsilon: keep 1/2, insert e**-epsilon / 2.

        Then (alpha + beta) / beta = e**epsilon, and the other ratio is smaller. Nothing but
        differential privacy is promised.
        """
        insert = exp_bounds(-epsilon, _BITS)[1] / 2
        # Rounded up, so that no more is promised than asked for.
        digits = 10 ** (len(str(math.ceil(1 / insert))) + 6)
        beta = Fraction(math.ceil(insert * digits), digits)
        return type(self)(
            alpha=Fraction(1, 2) - beta,
            beta=beta,
            max_tuples=self.max_tuples,
        )

    def run(self, engine: Engine, noise: Noise) -> Released:
        """Find the distinct tuples, toss their coins, insert others, publish in order."""
        schema = engine.schema
        plan = self.plan(schema)
        if self.views == 1:
            rows = engine.publish_cells(
                list(schema.attributes),
                partial(_kept_and_inserted, schema, plan.noise),
                noise,
                also=plan.noise.insert(noise),
            )
            return Released(tables={"data": rows}, estimator={VIEW: 1, "notes": self._notes(plan)})
        cells = engine.counts(list(schema.attributes))
        table = _Table(cells.domain, cells.domain.pack(cells.codes))
        with self._memory(schema).opened() as past:
            self._add_view(past, table, plan, noise)
            views = past.views
        keys = np.concatenate(views)
        numbers = np.repeat(np.arange(1, len(views) + 1), [len(view) for view in views])
        columns = _columns(schema, table.domain.unpack(keys))
        return Released(
            tables={"data": pa.table({**columns, VIEW: pa.array(numbers, pa.int64())})},
            estimator={VIEW: len(views), "notes": self._notes(plan)},
        )

    def _add_view(self, past: Past, table: _Table, plan: Plan, noise: Noise) -> None:
        """Draw the next view of a table of which others were published."""
        if self.view_rule == "memoized":
            fresh = _Table(table.domain, table.keys[~is_among(table.keys, past.seen)])
            past.views.append(fresh.perturbed(plan.noise, noise))
            past.seen = merged(past.seen, fresh.keys)
            return
        if past.views and not np.array_equal(past.seen, table.keys):
            raise Refused(
                "the table has changed since the first view, and algorithm-4 keeps its promise "
                "only for a table that does not. Use view_rule memoized from the first view on."
            )
        past.seen = table.keys
        past.views.append(table.seen_again(past.views, plan, self.views, noise))

    def _memory(self, schema: Schema) -> ViewMemory:
        if self.coins is None:
            raise ParameterError(
                f"views is {self.views}; name a file for coins, in which what was published is "
                "kept between views. It is private: keep it beside the ledger."
            )
        terms = {"schema": schema.to_dict()["columns"], "parameters": self.parameters()}
        return ViewMemory(
            self.coins, terms=terms, max_views=self.views, n_limbs=len(schema.domain.limbs)
        )

    def _notes(self, plan: Plan) -> list[str]:
        """Say what analysts must know, in sentences that depend on public things alone."""
        notes = [
            "Counts are of distinct tuples: rows that agree in all published columns count once.",
            "Many published tuples are noise. A single tuple says little; ask for counts.",
        ]
        if self.source:
            notes.append(
                "Noise follows the published source distribution. The bound holds for every "
                "observer whose prior for a tuple is at most prior_factor times the public number "
                "of tuples times the tuple's source probability; d above is the least of these."
            )
        if self.views > 1 and self.view_rule == "memoized":
            notes.append(
                "A tuple belongs to the first view in which the table had it, and stays counted "
                "when the table loses it: counts are of tuples that were ever in the table."
            )
        return notes

    # --- what follows from parameters and schema --------------------------------------------------

    def plan(self, schema: Schema) -> Plan:
        """Work out everything that is fixed before the data is read, or refuse."""
        problems = []
        if schema.unit.kind == "node":
            problems.append(
                "unit is node: alpha-beta publishes tables of rows. Use unit row or person, or a "
                "method for graphs."
            )
        if self.views > 1 and schema.unit.kind == "person":
            problems.append(
                "unit is person: over several views a person may have more than max_rows rows. Use "
                "unit row, or one view."
            )
        if self.views > 1 and VIEW in schema.attributes:
            problems.append(
                f"column {VIEW!r}: the published table has a column of that name for the number of "
                "the view; rename the column in schema and data."
            )
        if problems:
            raise ParameterError(problems)
        plan = self._source_plan(schema) if self.source else self._uniform_plan(schema)
        if plan.noise.expected * self.views > self.max_tuples:
            raise TooLarge(
                f"about {plan.noise.expected * self.views:,.0f} tuples would be inserted, and "
                f"max_tuples is {self.max_tuples:,}. Publish fewer or coarser columns, or promise "
                "less (raise gamma, lower d or prior_factor)."
            )
        if plan.d is None:
            check_epsilon(plan.epsilon)
        return plan

    def _uniform_plan(self, schema: Schema) -> Plan:
        d = self._prior(schema)
        if self.alpha is not None and self.beta is not None:
            keep, insert = self.alpha + self.beta, self.beta
        elif d is None or self.gamma is None:
            raise ParameterError("d and gamma, or alpha and beta, are missing.")
        elif self._repeats:
            keep, insert = solve_repeated(d, self.gamma, self.adversary, self.views)
        else:
            keep, insert = solve(d, self.gamma, self.adversary)
        ratios = (
            Ratios.of_repeated_views(keep=keep, insert=insert, views=self.views)
            if self._repeats
            else Ratios.of_one_view(keep=keep, insert=insert)
        )
        if d is not None and self.gamma is not None:
            self._require(ratios, d, self.gamma)
        noise = UniformNoise(schema.domain, alpha=keep - insert, beta=insert)
        # Over several views a row may decide in which of them its tuple is taken for new.
        loss = ratios.epsilon if self.views == 1 or self._repeats else ratios.epsilon_of_exchange
        epsilon = loss * (schema.unit.max_rows or 1)
        return Plan(noise=noise, ratios=ratios, d=d, epsilon=epsilon)

    @property
    def _repeats(self) -> bool:
        return self.views > 1 and self.view_rule == "algorithm-4"

    def _require(self, ratios: Ratios, d: Fraction, gamma: Fraction) -> None:
        """Refuse probabilities that do not keep what is to be promised."""
        if ratios.keeps(d, gamma, self.adversary):
            return
        worst = ratios.posterior(d, self.adversary)
        problems = []
        if worst > gamma:
            spread = ratios.high / (ratios.low if self.adversary == "exclusive" else 1)
            most = gamma / (gamma + (1 - gamma) * spread)
            problems.append(
                f"the {self.adversary} observer could go from d = {float(d):.4g} to "
                f"{float(worst):.4g}, above gamma = {float(gamma):.4g}. Raise beta, raise gamma to "
                f"that, or lower d to {float(most):.4g}; the likelihood ratio may be at most "
                f"{float(odds_limit(d, gamma)):.4g} and is {float(spread):.4g}."
            )
        if ratios.low * gamma < d:
            problems.append(
                f"an observer could come to rule tuples out: the prior may fall to "
                f"{float(ratios.low):.4g} of what it was, below d/gamma = {float(d / gamma):.4g}. "
                "Lower alpha, publish fewer views, or raise gamma."
            )
        raise ParameterError(problems)

    def _prior(self, schema: Schema) -> Fraction | None:
        """Give d, by itself or from the prior factor."""
        if self.prior_factor is None or self.gamma is None:
            return self.d
        n_tuples = self._n_tuples(schema)
        d = self.prior_factor * n_tuples / schema.domain.size
        if d >= self.gamma:
            raise ParameterError(
                f"the domain of {schema.domain.size:,} tuples is too small for the promise: "
                f"prior_factor * {n_tuples:,} / {schema.domain.size:,} is {float(d):.4g}, not below"
                f" gamma = {float(self.gamma):g}. Raise gamma, lower prior_factor, or publish more "
                "columns."
            )
        return d

    def _n_tuples(self, schema: Schema) -> int:
        n_tuples = self.n_public or schema.rows
        if not n_tuples:
            what = "d" if self.prior_factor is None else "prior_factor"
            raise ParameterError(
                f"{what} needs a public number of tuples: give n_public, rounded so that it does "
                "not tell the exact number, such as 30000."
            )
        return n_tuples

    def _require_observers(self, schema: Schema, plan: Plan) -> None:
        """Refuse a promise that covers nobody who knows how large the table is."""
        n_tuples, n_domain = self._n_tuples(schema), schema.domain.size
        if self.prior_factor is not None:
            enough, given = self.prior_factor >= 1, f"prior_factor is {self.prior_factor}, below 1"
            advice = "Give a prior_factor of at least 1, such as 10"
        else:
            least = Fraction(n_tuples, n_domain)
            enough = plan.d is None or plan.d >= least
            given = f"d is {float(self.d or 0):.4g}, below n/m = {n_tuples:,}/{_shown(n_domain)}"
            advice = f"Raise d to at least {float(least):.4g} (write it as {least})"
        if enough:
            return
        # What an independent observer comes to, who starts where knowing n alone puts them.
        reached = plan.ratios.posterior(
            min(Fraction(n_tuples, n_domain), Fraction(1)), "independent"
        )
        raise ParameterError(
            f"{given}: the promise is empty. Whoever knows only that there are about {n_tuples:,} "
            f"tuples gives each a larger chance than d on average, so the bound gamma is not about "
            f"them, and they can become {float(reached):.1%} sure of a published tuple. {advice}, "
            "with a gamma above d; publish more or finer columns; or correct n_public if it "
            "is too large."
        )

    def _source_plan(self, schema: Schema) -> Plan:
        domain = schema.domain
        problems = [
            f"source: there is no published column {name!r}."
            for name in self.source
            if name not in domain.sizes
        ] + [
            f"source: column {name!r} has {domain.sizes[name]} codes (missing included, last) and "
            f"{len(weights)} weights."
            for name, weights in self.source.items()
            if name in domain.sizes and len(weights) != domain.sizes[name]
        ]
        if problems or self.gamma is None or self.prior_factor is None:
            raise ParameterError(problems or "source needs prior_factor and gamma.")
        prior = SourcePrior(
            domain,
            source_weights(domain, {name: list(map(int, w)) for name, w in self.source.items()}),
            self.prior_factor * self._n_tuples(schema),
        )
        noise = prior.solve(self.gamma, self.adversary)
        each = [ratios for _, ratios in prior.ratios(noise)]
        ratios = Ratios(low=min(r.low for r in each), high=max(r.high for r in each))
        return Plan(
            noise=noise,
            ratios=ratios,
            d=prior.prior(prior.classes[0]),
            epsilon=ratios.epsilon * (schema.unit.max_rows or 1),
        )


@dataclass(frozen=True)
class Plan:
    """What is fixed before the data is read.

    Parameters
    ----------
    noise : UniformNoise or SourceNoise
        How tuples are kept and inserted.
    ratios : Ratios
        What can be told from all that is published of one tuple.
    d : Fraction, optional
        The prior of the promise, if there is one beside differential privacy.
    epsilon : Fraction
        The differential privacy of one unit, rounded up.
    """

    noise: UniformNoise | SourceNoise
    ratios: Ratios
    d: Fraction | None
    epsilon: Fraction


@dataclass(frozen=True)
class _Table:
    """The distinct tuples of the private table, by their keys, in order."""

    domain: Domain
    keys: Keys

    def perturbed(self, law: UniformNoise | SourceNoise, noise: Noise) -> Keys:
        """Keep tuples of the table by their coins, insert others of the domain."""
        kept = self.keys[law.keep(self.domain.unpack(self.keys), noise)]
        inserted = law.insert(noise)
        return merged(kept, inserted[~is_among(inserted, self.keys)])

    def seen_again(self, earlier: Sequence[Keys], plan: Plan, views: int, noise: Noise) -> Keys:
        """Draw the next view by the paper's Algorithm 4."""
        law = plan.noise
        if isinstance(law, SourceNoise):
            raise ParameterError("algorithm-4 has no noise from a source distribution.")
        keep = law.alpha + law.beta
        before: Keys = np.empty((0, self.keys.shape[1]), np.int64)
        for view in earlier:
            before = merged(before, view[~is_among(view, before)])
        known = before[~is_among(before, self.keys)]
        again = noise.bernoulli(keep, size=len(known)) & noise.bernoulli_exp(
            Fraction(1, views), size=len(known)
        )
        rate = UniformNoise(self.domain, law.alpha, (1 - keep) ** len(earlier) * law.beta)
        fresh = rate.insert(noise)
        fresh = fresh[~is_among(fresh, self.keys)]
        fresh = fresh[~is_among(fresh, before)]
        kept = self.keys[noise.bernoulli(keep, size=len(self.keys))]
        return merged(kept, known[again], fresh)


def _kept_and_inserted(
    schema: Schema, law: UniformNoise | SourceNoise, cells: Cells, noise: Noise
) -> pa.Table:
    """Keep tuples of the table by their coins, and all that were inserted beside them."""
    held = cells.counts > 0
    shown = ~held
    shown[held] = law.keep(cells.codes[held], noise)
    return pa.table(_columns(schema, cells.codes[shown]))


def _columns(schema: Schema, codes: NDArray[np.int64]) -> dict[str, pa.Array]:
    return {
        name: to_values(column, codes[:, position])
        for position, (name, column) in enumerate(schema.attributes.items())
    }


def _shown(size: int) -> int | str:
    """Write a number that may be too large for a float."""
    return size if size < 10**15 else f"{Decimal(size):.3e}"


def _whole_weights(source: object) -> dict[str, list[int]]:
    """Bring the weights of each column to whole numbers without common divisor."""
    if not isinstance(source, Mapping):
        raise ParameterError(f"source is {source!r}; it must map column names to lists of weights.")
    weights: dict[str, list[int]] = {}
    problems: list[str] = []
    for name, given in source.items():
        try:
            listed = (
                given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
            )
            exact = [as_rational(weight, name=f"source: column {name!r}") for weight in listed]
        except ParameterError as error:
            problems += error.problems
            continue
        if min(exact, default=0) <= 0:
            problems.append(
                f"source: column {name!r} has a weight that is not above 0; a tuple that is never "
                "inserted as noise is certainly true when it is published."
            )
            continue
        scale = math.lcm(*(weight.denominator for weight in exact))
        whole = [int(weight * scale) for weight in exact]
        divisor = math.gcd(*whole)
        weights[str(name)] = [weight // divisor for weight in whole]
    if problems:
        raise ParameterError(problems)
    return weights
