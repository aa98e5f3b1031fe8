"""Method alpha-beta: publish a set of tuples with random deletions and insertions.

Guarantee, algorithm and proofs: ``alpha_beta.md``.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import DataError, ParameterError, Refused, TooLarge
from hushtable.methods.base import CountError, Forecast, Method, Plan, Released, schema_problems
from hushtable.methods.count_error import bernoulli_error, needed_rows, replaced_line
from hushtable.methods.parameters import parameter, rational, whole
from hushtable.privacy.accounting.run_account import SpendingLimit
from hushtable.privacy.bounded_adversary import Adversary, Ratios, odds_limit, solve, solve_repeated
from hushtable.privacy.guarantee import BoundedAdversary, Guarantee, PureDP
from hushtable.privacy.mechanisms.tuple_perturbation import (
    KeptTuples,
    NextView,
    SourceInsertions,
    SourcePrior,
    UniformInsertions,
    ViewHistory,
    source_weights,
    whole_weights,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.rational import exp_bounds
from hushtable.privacy.values import check_epsilon
from hushtable.query.answers.association_loss import uniform_loss
from hushtable.schema import Schema
from hushtable.schema.codes import written_tuples

# Checks of bounded-adversary guarantees: that they hold, and that they cover some observer.


def require_bound(ratios: Ratios, d: Fraction, gamma: Fraction, adversary: Adversary) -> None:
    """Refuse probabilities that do not satisfy the guarantee."""
    if ratios.keeps(d, gamma, adversary):
        return
    worst = ratios.posterior(d, adversary)
    problems = []
    if worst > gamma:
        spread = ratios.high / (ratios.low if adversary == "exclusive" else 1)
        most = gamma / (gamma + (1 - gamma) * spread)
        problems.append(
            f"the posterior of the {adversary} observer could rise from d = {float(d):.4g} to "
            f"{float(worst):.4g}, above gamma = {float(gamma):.4g}. Raise beta, raise gamma to "
            f"that, or lower d to {float(most):.4g}; the likelihood ratio may be at most "
            f"{float(odds_limit(d, gamma)):.4g} and is {float(spread):.4g}."
        )
    if ratios.low * gamma < d:
        problems.append(
            f"an observer could rule tuples out: the prior may fall to "
            f"{float(ratios.low):.4g} of its value, below d/gamma = {float(d / gamma):.4g}. "
            "Lower alpha, publish fewer views, or raise gamma."
        )
    raise ParameterError(problems)


def require_observers(
    ratios: Ratios,
    *,
    d: Fraction,
    prior_factor: Fraction | None,
    n_tuples: int,
    n_domain: int,
) -> None:
    """Refuse a guarantee that covers no observer who knows the size of the table."""
    least = Fraction(n_tuples, n_domain)
    if prior_factor is not None:
        enough, given = prior_factor >= 1, f"prior_factor is {prior_factor}, below 1"
        advice = "Choose a prior_factor of at least 1, such as 10"
    else:
        enough = d >= least
        given = f"d is {float(d):.4g}, below n/m = {n_tuples:,}/{readable(n_domain)}"
        advice = f"Raise d to at least {float(least):.4g} (exactly {least})"
    if enough:
        return
    # Posterior of an independent observer whose prior comes from knowing only n.
    reached = ratios.posterior(min(least, Fraction(1)), "independent")
    raise ParameterError(
        f"{given}: the guarantee is empty. An observer who knows only that n is about {n_tuples:,} "
        f"has a prior above d on average, so the bound gamma does not cover "
        f"them, and their posterior of a published tuple can reach {float(reached):.1%}. {advice}, "
        "with a gamma above d; publish more or finer columns; or correct n_public if it "
        "is too large."
    )


def readable(size: int) -> int | str:
    """Format a number that may be too large for a float."""
    return size if size < 10**15 else f"{Decimal(size):.3e}"


# Private record of earlier views of a table.
#
# A later view of the same table must not sample an unchanged tuple again. So the tuples seen so far
# and the views published so far are stored in a file that only its owner can read.


class ViewHistoryFile:
    """File with the history of a table's views, beside the ledger; its owner alone can read it.

    `terms` must be the same for all views: parameters and domain. `n_limbs` is the number of
    columns of a packed key.
    """

    def __init__(
        self, path: str | Path, *, terms: Mapping[str, Any], max_views: int, n_limbs: int
    ) -> None:
        self.path = Path(path)
        self._terms = json.dumps(terms, sort_keys=True)
        self._max_views, self._n_limbs = max_views, n_limbs

    def require_view_allowed(self) -> None:
        """Refuse if all views are published; checked before charging and again when sampling."""
        if self.path.exists():
            with self.opened():
                pass

    @contextmanager
    def opened(self) -> Iterator[ViewHistory]:
        """Yield the history under an exclusive lock; save additions unless an error occurs."""
        # Created here first, because SQLite would let others read it; its journal inherits the
        # mode.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            raise ParameterError(
                f"view_history: {str(self.path)!r} can be read by other users, but it contains "
                "private tuples. Make it private (chmod 600) and find out who read it."
            )
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        try:
            connection.execute("BEGIN EXCLUSIVE")
            past = self._load(connection)
            if len(past.views) >= self._max_views:
                raise Refused(
                    f"{len(past.views)} views of this table are published and views is "
                    f"{self._max_views}: one more would break the guarantee. Plan for more views "
                    "from the start, with a new file."
                )
            yield past
            self._save(connection, past)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise DataError(
                f"view_history: {str(self.path)!r} is not a record of earlier views, or is damaged "
                "or in use. Without it another view would break the guarantee; restore a backup."
            ) from error
        finally:
            connection.close()

    def _load(self, connection: sqlite3.Connection) -> ViewHistory:
        connection.execute("CREATE TABLE IF NOT EXISTS terms (text TEXT NOT NULL)")
        connection.execute("CREATE TABLE IF NOT EXISTS tuples (view INTEGER UNIQUE, keys BLOB)")
        terms = connection.execute("SELECT text FROM terms").fetchone()
        if terms is not None and terms[0] != self._terms:
            raise ParameterError(
                f"view_history: {str(self.path)!r} records views with other parameters or another "
                "schema. All views of a table must use the same; use those, or a new file for a "
                "new table."
            )
        rows = connection.execute("SELECT keys FROM tuples ORDER BY view")
        parts = [np.frombuffer(keys, "<i8").reshape(-1, self._n_limbs) for (keys,) in rows]
        if not parts:
            return ViewHistory(np.empty((0, self._n_limbs), np.int64))
        return ViewHistory(parts[0].astype(np.int64), [part.astype(np.int64) for part in parts[1:]])

    def _save(self, connection: sqlite3.Connection, past: ViewHistory) -> None:
        """Rewrite the file: the tuples of the table as number 0, the views from 1 on."""
        if not past.views:
            return
        connection.execute("DELETE FROM terms")
        connection.execute("INSERT INTO terms VALUES (?)", [self._terms])
        connection.execute("DELETE FROM tuples")
        for number, keys in enumerate([past.seen, *past.views]):
            connection.execute(
                "INSERT INTO tuples VALUES (?, ?)", [number, keys.astype("<i8").tobytes()]
            )


ViewRule = Literal["memoized", "algorithm-4"]

VIEW = "view"
"""Column with the view in which a tuple was published, if there may be several."""

_BITS = 64

DIGITS = 3
"""Maximum number of significant digits of a public number of tuples (without trailing zeros)."""


@dataclass(frozen=True, kw_only=True)
class AlphaBeta(Method):
    """Publish the set of tuples after random deletions and insertions.

    Pass `d`, `n_public` and `gamma`; or `prior_factor`, `n_public` and `gamma`; or `alpha` and
    `beta`.

    Parameters
    ----------
    gamma : number or str, optional
        Largest posterior probability of a tuple, such as 1/5: the probability of being in the table
        that an observer can assign after seeing the release.
    d : number or str, optional
        Largest prior probability of a tuple, at least n_public / size of the domain. That is the
        prior of an observer who knows only the size of the table.
    prior_factor : number or str, optional
        Instead of d: the prior in units of n_public / size of the domain, at least 1. It is the
        paper's k, and d = prior_factor * n_public / size of the domain.
    n_public : int, optional
        Public, rounded number of tuples, for d or prior_factor. The default is the schema's public
        number of rows.
    adversary : {"exclusive", "independent"}
        Observer model: ``exclusive`` is safe against someone who knows that a person takes part,
        ``independent`` needs less noise but is not.
    alpha, beta : number or str, optional
        Explicit probabilities: a tuple of the table is kept with alpha + beta, any other inserted
        with beta. With `d` and `gamma` they are checked; without, only differential privacy is
        promised.
    max_copies : int
        Count rows, equal ones up to this number; with 1, distinct tuples. A tuple of fewer rows is
        kept with beta plus their share of alpha. The guarantee is unchanged, a row costs less, and
        the noise of a count is this many times as large. Only for one view.
    source : mapping of str to list of number, optional
        Public weights of the codes of some columns, missing last (on the command line
        COLUMN=WEIGHT,WEIGHT,...). Tuples are inserted in proportion to the product of their
        weights. Use it with `prior_factor`, or with `alpha` and `beta`; beta is then that of the
        rarest tuples. Views are memoized.
    views : int
        Total number of views of the table to be published.
    view_rule : {"memoized", "algorithm-4"}
        How views are related: ``memoized`` republishes an old tuple as it was and samples new ones,
        ``algorithm-4`` is the paper's rule for a table that does not change.
    view_history : path, optional
        Private file with what earlier views published; required for several views. Keep it beside
        the ledger.
    max_tuples : int
        Maximum expected number of inserted tuples.

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

    gamma: Fraction | None = parameter(read=rational, default=None)
    d: Fraction | None = parameter(read=rational, default=None)
    prior_factor: Fraction | None = parameter(read=rational, default=None)
    n_public: int | None = parameter(read=whole(), default=None)
    adversary: Adversary = parameter(default="exclusive")
    alpha: Fraction | None = parameter(read=rational, default=None)
    beta: Fraction | None = parameter(read=rational, default=None)
    max_copies: int = parameter(read=whole(), default=1)
    source: Mapping[str, Sequence[int | float]] = parameter(
        read=whole_weights, default_factory=dict, hash=False
    )
    views: int = parameter(read=whole(), default=1)
    view_rule: ViewRule = parameter(default="memoized")
    view_history: str | Path | None = parameter(default=None, compare=False)
    max_tuples: int = parameter(read=whole(), default=20_000_000)

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """List invalid combinations of parameters, and values out of range."""
        return [*self._misplaced(), *self._out_of_range()] if fields_are_right else []

    def _misplaced(self) -> list[str]:
        """List missing parameters and invalid combinations."""
        problems = []
        explicit = self.alpha is not None or self.beta is not None
        if explicit and (self.alpha is None or self.beta is None):
            problems.append("alpha and beta must be given together; pass both or neither.")
        if self.d is not None and self.prior_factor is not None:
            problems.append("d and prior_factor are alternatives; pass only one of them.")
        bounded = self.d is not None or self.prior_factor is not None
        if bounded != (self.gamma is not None):
            problems.append("gamma requires d or prior_factor; pass both or neither.")
        if not bounded and not explicit:
            problems.append(
                "no guarantee is set; pass d, n_public and gamma, such as 1/1000, 30000, 1/5; or "
                "prior_factor, n_public and gamma; or alpha and beta."
            )
        if self.n_public is not None and not bounded:
            problems.append("n_public requires d or prior_factor; omit it.")
        if self.source and self.d is not None:
            problems.append(
                "source cannot be combined with d; use it with prior_factor and gamma, or "
                "with alpha and beta."
            )
        if self.max_copies > 1 and self.views > 1:
            problems.append(
                f"max_copies is {self.max_copies} and views is {self.views}: rows need "
                "a single view, since a tuple with another copy later would need a sample that "
                "depends on the first. Omit max_copies to count distinct tuples, or publish one "
                "view."
            )
        if self.source and self.repeats:
            problems.append("source does not support view_rule algorithm-4; use memoized.")
        return problems

    def _out_of_range(self) -> list[str]:
        problems = []
        if self.d is not None and self.gamma is not None and not 0 < self.d < self.gamma < 1:
            problems.append(
                f"d is {self.d} and gamma is {self.gamma}; it must be 0 < d < gamma < 1. Lower d "
                "or raise gamma."
            )
        elif self.gamma is not None and not 0 < self.gamma < 1:
            problems.append(f"gamma is {self.gamma}; it must be above 0 and below 1.")
        if self.prior_factor is not None and self.prior_factor <= 0:
            problems.append(f"prior_factor is {self.prior_factor}; it must be above 0.")
        if self.n_public is not None and len(str(self.n_public).rstrip("0")) > DIGITS:
            rounded = math.ceil(self.n_public / 10 ** (len(str(self.n_public)) - 2))
            problems.append(
                f"n_public is {self.n_public}, which looks like an exact count. It is published, "
                "so an observer who knows all tuples but one could infer the last. Round it to "
                f"{rounded * 10 ** (len(str(self.n_public)) - 2)}, or set rows in the schema if "
                "the number is public anyway."
            )
        if self.beta is not None and self.beta <= 0:
            problems.append(
                f"beta is {self.beta}; it must be above 0; otherwise all published tuples are true."
            )
        if self.alpha is not None and self.alpha <= 0:
            problems.append(
                f"alpha is {self.alpha}; it must be above 0; otherwise nothing is released."
            )
        if self.alpha is not None and self.beta is not None and self.alpha + self.beta >= 1:
            problems.append(
                f"alpha + beta is {self.alpha + self.beta}; it must be below 1; otherwise a tuple "
                "that is not published is certainly not in the table."
            )
        return problems

    def parameters(self) -> dict[str, Any]:
        """Return the parameters for the statement, without the path of the custodian's file."""
        found = super().parameters()
        found.pop("view_history", None)
        return found

    def for_dry_run(self, folder: Path) -> Self:
        """Return the same method with another file, so that a dry run does not add a view."""
        return replace(self, view_history=folder / "view_history")

    # --- plan -------------------------------------------------------------------------------------

    def at_epsilon(self, schema: Schema, epsilon: Fraction) -> Self:
        """Return explicit probabilities with this epsilon: keep 1/2, insert e**-epsilon / 2.

        Then (alpha + beta) / beta = e**epsilon, and the other ratio is smaller. With C copies, 1 +
        (alpha / beta) / C is e**epsilon for beta = 1 / (2 + 2 C (e**epsilon - 1)). Only
        differential privacy is promised.
        """
        copies = self.max_copies
        insert = (
            exp_bounds(-epsilon, _BITS)[1] / 2
            if copies == 1
            else 1 / (2 + 2 * copies * (exp_bounds(epsilon, _BITS)[0] - 1))
        )
        # Rounded up, so that epsilon is not exceeded.
        digits = 10 ** (len(str(math.ceil(1 / insert))) + 6)
        beta = Fraction(math.ceil(insert * digits), digits)
        return type(self)(
            alpha=Fraction(1, 2) - beta,
            beta=beta,
            max_copies=copies,
            max_tuples=self.max_tuples,
        )

    def plan(self, schema: Schema) -> AlphaBetaPlan:
        """Compute everything that is fixed before the data is read, or refuse."""
        problems = schema_problems(schema, self.name, [VIEW] * (self.views > 1))
        if self.views > 1 and schema.unit.kind == "person":
            problems.append(
                "unit is person: over several views a person may have more than max_rows rows. Use "
                "unit row, or one view."
            )
        ParameterError.raise_if_any(problems)
        plan = self._source_plan(schema) if self.source else self._uniform_plan(schema)
        if plan.noise.expected * self.views > self.max_tuples:
            raise TooLarge(
                f"about {plan.noise.expected * self.views:,.0f} tuples would be inserted; "
                f"max_tuples is {self.max_tuples:,}. Publish fewer or coarser columns, or weaken "
                "the guarantee (raise gamma, lower d or prior_factor)."
            )
        if plan.d is None:
            check_epsilon(plan.epsilon)
        return plan

    @property
    def repeats(self) -> bool:
        """True if every view publishes the whole table again (Algorithm 4)."""
        return self.views > 1 and self.view_rule == "algorithm-4"

    def n_tuples(self, schema: Schema) -> int:
        """Return the public number of tuples; raise `ParameterError` if there is none."""
        n_tuples = self.n_public or schema.rows
        if not n_tuples:
            what = "d" if self.prior_factor is None else "prior_factor"
            raise ParameterError(
                f"{what} needs a public number of tuples; pass n_public, rounded so that it does "
                "not reveal the exact number, such as 30000."
            )
        return n_tuples

    def _prior(self, schema: Schema) -> Fraction | None:
        """Return d, as given or from the prior factor."""
        if self.prior_factor is None or self.gamma is None:
            return self.d
        n_tuples = self.n_tuples(schema)
        d = self.prior_factor * n_tuples / schema.domain.size
        if d >= self.gamma:
            raise ParameterError(
                f"the domain of {schema.domain.size:,} tuples is too small for the guarantee: "
                f"prior_factor * {n_tuples:,} / {schema.domain.size:,} is {float(d):.4g}, not below"
                f" gamma = {float(self.gamma):g}. Raise gamma, lower prior_factor, or publish more "
                "columns."
            )
        return d

    def _uniform_plan(self, schema: Schema) -> AlphaBetaPlan:
        d = self._prior(schema)
        if self.alpha is not None and self.beta is not None:
            keep, insert = self.alpha + self.beta, self.beta
        elif d is None or self.gamma is None:
            raise ParameterError("d and gamma, or alpha and beta, are missing.")
        elif self.repeats:
            keep, insert = solve_repeated(d, self.gamma, self.adversary, self.views)
        else:
            keep, insert = solve(d, self.gamma, self.adversary)
        ratios = (
            Ratios.of_repeated_views(keep=keep, insert=insert, views=self.views)
            if self.repeats
            else Ratios.of_one_view(keep=keep, insert=insert)
        )
        if d is not None and self.gamma is not None:
            require_bound(ratios, d, self.gamma, self.adversary)
        noise = UniformInsertions(
            schema.domain, alpha=keep - insert, beta=insert, copies=self.max_copies
        )
        return AlphaBetaPlan(self, schema, noise, ratios, d, self._epsilon(ratios, schema))

    def _epsilon(self, ratios: Ratios, schema: Schema) -> Fraction:
        """Return the epsilon of one unit, from the likelihood ratios of one tuple."""
        if self.views == 1 or self.repeats:
            loss = ratios.per_copy(self.max_copies).epsilon
        else:  # a row may decide in which view its tuple is new
            loss = ratios.epsilon_of_exchange
        return loss * (schema.unit.max_rows or 1)

    def _source_plan(self, schema: Schema) -> AlphaBetaPlan:
        domain = schema.domain
        problems = [
            f"source: column {name!r} is not published."
            for name in self.source
            if name not in domain.sizes
        ] + [
            f"source: column {name!r} has {domain.sizes[name]} codes (including missing, last) but "
            f"{len(weights)} weights."
            for name, weights in self.source.items()
            if name in domain.sizes and len(weights) != domain.sizes[name]
        ]
        ParameterError.raise_if_any(problems)
        promised = self.prior_factor is not None and self.gamma is not None
        weights = {name: list(map(int, own)) for name, own in self.source.items()}
        expected = (self.prior_factor or 0) * self.n_tuples(schema) if promised else 0
        prior = SourcePrior(domain, source_weights(domain, weights), Fraction(expected))
        if self.alpha is not None and self.beta is not None:
            noise = prior.with_rates(self.alpha, self.beta)
        elif self.gamma is not None:
            noise = prior.solve(self.gamma, self.adversary)
        else:
            raise ParameterError("source needs prior_factor and gamma, or alpha and beta.")
        noise = replace(noise, copies=self.max_copies)
        if (
            promised
            and self.gamma is not None
            and not prior.keeps(noise, self.gamma, self.adversary)
        ):
            raise ParameterError(
                f"alpha = {self.alpha} and beta = {self.beta} violate gamma = {self.gamma} for "
                "some tuples of the source. Raise beta or gamma, lower alpha, or omit alpha and "
                "beta to have them computed."
            )
        ratios = noise.ratios
        return AlphaBetaPlan(
            method=self,
            schema=schema,
            noise=noise,
            ratios=ratios,
            d=prior.prior(min(noise.ratios_by_weight)) if promised else None,
            epsilon=self._epsilon(ratios, schema),
        )


@dataclass(frozen=True)
class AlphaBetaPlan(Plan[SealedTable]):
    """Plan of method alpha-beta: how the tuples of a schema are kept and inserted."""

    method: AlphaBeta
    schema: Schema
    noise: UniformInsertions | SourceInsertions  # how tuples are kept and inserted
    ratios: Ratios  # likelihood ratios of all published information on one tuple
    d: Fraction | None  # prior of the bounded-adversary guarantee, if there is one
    epsilon: Fraction  # differential privacy of one unit, rounded up

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The bound on an observer's posterior, and the differential privacy that it implies.

        Refuse if the bound covers no observer who knows the size of the table. A plan can be made
        anyway, so that older releases can still be read.
        """
        method, schema = self.method, self.schema
        # Promised even if epsilon is large: without it, a ledger would charge nothing.
        private = PureDP(epsilon=self.epsilon, unit=schema.unit, neighbors="add-remove")
        if self.d is None:
            return (private,)
        require_observers(
            self.ratios,
            d=self.d,
            prior_factor=method.prior_factor,
            n_tuples=method.n_tuples(schema),
            n_domain=schema.domain.size,
        )
        return (
            BoundedAdversary(d=self.d, gamma=method.gamma, adversary=method.adversary),
            private,
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions of the guarantee; with memoized views, what a row that changes counts as."""
        if self.method.views == 1 or self.method.repeats:
            return self.schema.conditions
        return (
            *self.schema.conditions,
            "A row that changes between views counts as two units: the row before "
            "and the row after.",
        )

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the number of inserted tuples and the error of counts."""
        method, schema, noise = self.method, self.schema, self.noise
        if method.views > 1:
            self._history().require_view_allowed()
        lines: dict[str, str | float | int] = {
            "tuples in the domain": readable(schema.domain.size),
            "tuples inserted as noise, about": round(noise.expected),
            "alpha": float(noise.alpha),
        }
        if isinstance(noise, UniformInsertions):
            lines["beta"] = float(noise.beta)
            some = "" if noise.copies == 1 else f" with at least {noise.copies} rows"
            lines[f"share of the table's tuples{some} kept"] = float(noise.alpha + noise.beta)
        if self.d is not None:
            lines["d, the largest prior"] = float(self.d)
            for kind in get_args(Adversary):
                name = f"largest posterior from there, {kind} observer"
                lines[name] = float(self.ratios.posterior(self.d, kind))
        n_tuples = rows if rows is not None else schema.rows or method.n_public
        for share in (0.01, 1):
            held = 0 if n_tuples is None else share * n_tuples / 4
            spread = math.sqrt(share * noise.expected + held) / self._gain
            lines[f"standard deviation of a count over {share:.0%} of the domain, about"] = spread
        if n_tuples:
            kept = self._gain * n_tuples
            true = kept / (kept + noise.expected)
            lines["share of true tuples among those published, about"] = true
            lines |= replaced_line(1 - true)
        if self.d is not None and n_tuples and n_tuples > self.d * schema.domain.size:
            lines["warning"] = (
                f"an observer who knows only that n is about {n_tuples:,} has a prior of "
                f"{n_tuples / schema.domain.size:.2g} on average, above d: the guarantee would not "
                "cover this observer. Raise d, or publish more or finer columns."
            )
        lines["counts are of"] = self.unit_text
        memory = (noise.expected + (n_tuples or 0)) * 8 * (2 * len(schema.attributes) + 8) / 1e6
        return Forecast(
            lines=lines,
            split={"tuples": self.epsilon},
            n_cells=schema.domain.size,
            memory_mb=max(memory, 1.0),
        )

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the expected error, from the sampling of the table's tuples and of all others."""
        schema, noise = self.schema, self.noise
        if not isinstance(noise, UniformInsertions) or self.method.views > 1:
            raise Refused(
                "with a source distribution or several views, the number of noise tuples in an "
                "answer depends on the question. Omit source and views to forecast the "
                "error."
            )
        asked = share * schema.domain.size
        held = min(asked, share * needed_rows(schema.expected_rows(rows)))
        return bernoulli_error(
            n_true=held,
            n_other=asked - held,
            keep=float(noise.beta) + self._gain,
            insert=float(noise.beta),
            assumes="The question selects the same share of domain and rows; counts are of "
            f"{self.unit_text}, and all rows are distinct.",
        )

    @property
    def _gain(self) -> float:
        """Increase of the probability that a tuple is published, per row."""
        return float(self.noise.alpha) / self.noise.copies

    @property
    def unit_text(self) -> str:
        """Unit of counts, with the limit of equal rows: others are not in the count."""
        copies = self.noise.copies
        return "distinct tuples" if copies == 1 else f"rows, equal ones up to {copies}"

    @cached_property
    def promise(self) -> SpendingLimit:
        """Budget of a run: its epsilon. Unlike `guarantees`, this never refuses."""
        return SpendingLimit(self.epsilon)

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the expected share of published tuples that are from the table, for all pairs.

        It is computed from `n_public`, because the statement must not depend on the table. Without
        `n_public` the share is unknown, and the result is empty.
        """
        if self.method.n_public is None:
            return {}
        noise = self.noise
        inserted = noise.expected
        if isinstance(noise, SourceInsertions):
            inserted = insertion_series(
                noise, lambda density: math.prod(float(part.sum()) for part in density.values())
            )
        own = float(noise.alpha / noise.copies) * self.method.n_public
        all_tuples = own + released.settings[VIEW] * inserted
        return uniform_loss(self.schema, own / max(all_tuples, 1.0))

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Find the distinct tuples, delete and insert at random, and publish in order."""
        schema, method = self.schema, self.method
        columns = list(schema.attributes)
        if method.views == 1:
            rows = source.publish_cells(
                columns, KeptTuples(self.noise), partial(_table, schema), noise, what="tuples"
            )
            return Released(tables={"data": rows}, settings={VIEW: 1, "notes": self._notes()})
        cells = source.counts(columns)
        with self._history().opened() as past:
            view = NextView(self.noise, past, method.views, method.repeats)
            views = noise.open(cells, view, "tuples of all views")
        numbers = np.repeat(np.arange(1, len(views) + 1), [len(view) for view in views])
        written = written_tuples(schema, cells.domain.unpack(np.concatenate(views)))
        return Released(
            tables={"data": pa.table({**written, VIEW: pa.array(numbers, pa.int64())})},
            settings={VIEW: len(views), "notes": self._notes()},
        )

    def _history(self) -> ViewHistoryFile:
        method = self.method
        if method.view_history is None:
            raise ParameterError(
                f"views is {method.views}; pass a file as view_history, which stores what was "
                "published between views. It is private; keep it beside the ledger."
            )
        return ViewHistoryFile(
            method.view_history,
            terms={
                "schema": self.schema.to_dict()["columns"],
                "parameters": method.parameters(),
            },
            max_views=method.views,
            n_limbs=len(self.schema.domain.limbs),
        )

    def _notes(self) -> list[str]:
        """Return notes for analysts, which depend only on public information."""
        copies = self.method.max_copies
        notes = [
            "Counts are of distinct tuples: rows that agree in all published columns count once."
            if copies == 1
            else "Counts are of rows. Of rows that agree in all published columns, at most "
            f"{copies} count.",
            "Many published tuples are noise, so a single tuple means little; query counts.",
        ]
        if self.method.source:
            notes.append(
                "Noise follows the published source distribution. The bound applies to every "
                "observer whose prior for a tuple is at most prior_factor times the public number "
                "of tuples times the tuple's source probability; d above is the smallest of these."
            )
        if self.method.views > 1 and not self.method.repeats:
            notes.append(
                "A tuple belongs to the first view in which the table had it, and stays counted "
                "when it is removed: counts are of tuples that were ever in the table."
            )
        return notes


def _table(schema: Schema, codes: Integers) -> pa.Table:
    return pa.table(written_tuples(schema, codes))


_SERIES = 60  # the series has fewer terms than this


def insertion_series(
    noise: SourceInsertions, weigh: Callable[[Mapping[str, Floats]], float]
) -> float:
    """Sum the insertion probabilities beta(t) of tuples by a series; see `expected_insertions`.

    `weigh` takes weights of the codes of each column; it sums their products over the tuples.
    """
    scales = [max(column) for column in noise.weights]
    largest = -math.log1p(-float(noise.hit)) * math.prod(scales)
    total, factor = 0.0, -1.0
    for power in range(1, _SERIES):
        factor *= -largest / power
        # Weights relative to the largest keep their powers within float range.
        density = {
            name: (np.array(column, np.float64) / scale) ** power
            for name, column, scale in zip(noise.domain.names, noise.weights, scales, strict=True)
        }
        term = factor * weigh(density)
        total += term
        if abs(term) <= 1e-17 * abs(total):
            break
    return total
