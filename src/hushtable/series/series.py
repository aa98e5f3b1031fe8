"""A series: a folder with a schema, a plan, a ledger, and a release for each wave.

The folder
----------
- ``series.yaml``: the plan; ``schema.yaml``: the public schema of every wave.
- ``series.ledger``: recorded costs; for the custodian only.
- ``shared-ledger.yaml`` instead, if the series draws on a ledger of the same people: its path and
  the number of the reservation; for the custodian only.
- ``breaks.yaml``: declared breaks, if there are any.
- ``waves/001``, ``waves/002`` ...: the releases; ``waves/002-correction-1``: a correction of the
  second wave. Analysts get everything except the ledger.

A wave is charged under its name before it is read, and appears complete or not at all, like every
release. Only one process publishes at a time, so a charge without a release means that its run was
killed.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from hushtable.engine import EngineName
from hushtable.errors import ParameterError, Refused, ReleaseError, unpublished
from hushtable.files.progress import Progress, silent
from hushtable.files.rows import export_rows
from hushtable.files.writing import Scratch, sync, write_failures_as
from hushtable.files.yaml_text import read_yaml, write_yaml
from hushtable.methods.quilt.quilt import Quilt, QuiltPlan
from hushtable.privacy.guarantee import ApproxDP
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.records import Decision, Entry
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.rational import as_rational
from hushtable.privacy.values import rounded
from hushtable.query.answers.estimator import Estimate, written
from hushtable.query.answers.plot import plot
from hushtable.release.release import Release
from hushtable.release.statement import digest_of
from hushtable.schema import Schema, Value
from hushtable.series.estimates import SeriesAnswers
from hushtable.series.panel import PanelPlan, PreviousWave, persons_of, publish_wave
from hushtable.series.plan import SeriesPlan, require_fit, said
from hushtable.series.transitions import PanelAnswers, Transitions
from hushtable.series.waves import EarlierWaves, Wave, Waves

# Cost of releases according to their own statements, computed from the stated noise.

_BESIDE_TABLES = ("choices", "number of rows")


def spent_rho(settings: Mapping[str, Any], *, rows_per_unit: int, rho: Fraction) -> Fraction:
    """Return the cost of a release as zCDP of one person with up to `rows_per_unit` rows.

    A table with Gaussian noise of variance v costs rows_per_unit^2 / (2 v), one of transitions
    1 / (2 v).
    Selections and the number of rows cost their stated shares of the release's rho.
    """
    tables = [(rows_per_unit**2, t["parameter"]) for t in settings["tables"] if "earlier" not in t]
    tables += [(1, t["parameter"]) for t in settings.get("transitions", {"tables": []})["tables"]]
    said = settings["budget_shares"]
    beside = sum(as_rational(said.get(step, 0), name=step) for step in _BESIDE_TABLES)
    of_tables = (n / (2 * as_rational(variance, name="parameter")) for n, variance in tables)
    return rho * beside + sum(of_tables)


def problems_of(
    releases: Mapping[str, Release],
    entries: list[Entry],
    *,
    rows_per_unit: int,
    digests: Mapping[str, str],
) -> list[str]:
    """Return the discrepancies between releases and ledger.

    Parameters
    ----------
    releases : mapping of str to Release
        The releases, by name.
    entries : list of Entry
        The charges that are not void.
    rows_per_unit : int
        Maximum number of rows per person in the schema of the series.
    digests : mapping of str to str
        The digest that the ledger should have for each release, by name.
    """
    by_receipt = {entry.receipt: entry for entry in entries}
    used: dict[int, str] = {}
    found = []
    for name, release in releases.items():
        receipt = release.statement.ledger
        entry = by_receipt.get(receipt.receipt) if receipt is not None else None
        if entry is None:
            found.append(f"{name}: the ledger of this series has no charge for it.")
            continue
        if entry.id in used:
            found.append(f"{name}: its charge (entry {entry.id}) is that of {used[entry.id]}.")
            continue
        used[entry.id] = name
        if entry.note != digests[name]:
            found.append(f"{name}: its tables differ from those charged (entry {entry.id}).")
        settings = release.statement.estimator
        if settings["rows_per_unit"] != rows_per_unit:
            found.append(
                said(
                    "other rows per person",
                    name=name,
                    rows=settings["rows_per_unit"],
                    rows_per_unit=rows_per_unit,
                )
            )
        rho = entry.concentrated.rho
        spent = spent_rho(settings, rows_per_unit=rows_per_unit, rho=rho)
        if spent > rho:
            found.append(
                said(
                    "noise costs more",
                    name=name,
                    spent=float(spent),
                    rho=float(rho),
                    entry=entry.id,
                )
            )
    return found


SHARED = "shared-ledger.yaml"
PLAN, SCHEMA, LEDGER, WAVES = "series.yaml", "schema.yaml", "series.ledger", "waves"
BREAKS = "breaks.yaml"

_NAME = re.compile(r"(\d{3,5})(?:-correction-(\d{1,4}))?")
_ROUNDING = Fraction(1, 10**9)  # of a share, relative to a rho of 1
_PATIENCE = 1.0  # seconds to wait for the lock; another wave takes longer


class Series:
    """Publication of the same columns wave after wave, under one promise for all waves.

    Use `create` once and `open` afterward.

    Parameters
    ----------
    folder : Path
        Folder of the series.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / PLAN).is_file():
            raise ParameterError(said("not a series", folder=str(folder), plan=PLAN))
        self.plan = SeriesPlan.load(folder / PLAN)
        self._answers_so_far: SeriesAnswers | None = None  # answers from the waves published so far

    @classmethod
    def create(
        cls,
        folder: str | Path,
        schema: Schema | str | Path,
        plan: SeriesPlan,
        *,
        decision: Decision | None = None,
        ledger: str | Path | None = None,
        same_people: str | None = None,
    ) -> Series:
        """Start a series: plan its whole budget, before any data is read.

        Parameters
        ----------
        folder : path
            Folder to create; it must not exist.
        schema : Schema or path
            Public schema of every wave; the unit must be a person.
        plan : SeriesPlan
            The promise, and how its budget is divided over waves.
        decision : Decision, optional
            Person responsible for the promise, justification, and date of review.
        ledger : path, optional
            Ledger of the same people, in which the budget of the series is reserved. By default,
            the series gets its own.
        same_people : str, optional
            Why the tables of the ledger are about the same people, if it is bound to others.

        Returns
        -------
        Series
            The new series.

        Raises
        ------
        ParameterError
            If the folder exists, or if the schema does not suit a series.
        """
        folder = Path(folder)
        schema = Schema.load(schema) if isinstance(schema, str | Path) else schema
        schema.require_confirmed()
        require_fit(schema, panel=plan.panel)
        plan.method(1).plan(schema)  # refuses schemas that could never be published
        if folder.exists() or folder.is_symlink():
            raise ParameterError(f"{str(folder)!r} exists; choose another folder.")
        failed = f"cannot create {str(folder)!r}"
        with write_failures_as(ParameterError, failed), ExitStack() as undo:
            scratch = Scratch(folder.parent, f".{folder.name}-part-")
            undo.callback(scratch.close)
            part = scratch.folder / "series"
            (part / WAVES).mkdir(parents=True)
            (part / SCHEMA).write_text(schema.to_yaml(), encoding="utf-8", newline="")
            (part / PLAN).write_text(plan.to_yaml(), encoding="utf-8", newline="")
            if ledger is None:
                Ledger.create(
                    part / LEDGER,
                    epsilon=plan.epsilon,
                    delta=plan.delta,
                    schema=schema,
                    decision=decision,
                )
            else:
                shared = _reserved(Ledger.open(ledger), folder.name, schema, plan, same_people)
                (part / SHARED).write_text(write_yaml(shared), encoding="utf-8", newline="")
            for path in (*part.rglob("*"), part):
                sync(path)
            part.rename(folder)
            sync(folder.parent)
        return cls(folder)

    @classmethod
    def open(cls, folder: str | Path) -> Series:
        """Open a series; answers do not need the ledger."""
        return cls(Path(folder))

    @cached_property
    def schema(self) -> Schema:
        """The public schema of every wave."""
        return Schema.load(self.folder / SCHEMA)

    @property
    def ledger(self) -> Ledger:
        """The ledger, for the custodian."""
        if self._shared:
            return Ledger.open(self._shared["ledger"])
        if not (self.folder / LEDGER).is_file():
            raise Refused(said("no ledger", folder=str(self.folder), ledger=LEDGER))
        return Ledger.open(self.folder / LEDGER)

    @cached_property
    def _shared(self) -> dict[str, Any]:
        """The shared ledger, the reservation in it, and why it is about the same people."""
        path = self.folder / SHARED
        found: dict[str, Any] = {}
        if path.is_file():
            found = read_yaml(path.read_text(encoding="utf-8"))
        return found

    def _charges(self, book: Ledger | None = None) -> list[Entry]:
        """Return the charges of this series that are not void."""
        entries = (book or self.ledger).entries()
        number = self._shared.get("reservation")
        return [e for e in entries if e.status != "void" and e.reservation == number]

    # --- releases ---------------------------------------------------------------------------------

    def published(self) -> dict[int, Path]:
        """Return the valid release of each wave: the wave itself, or its last correction."""
        # Corrections are sorted after the release that they correct.
        return dict(sorted((number, path) for (number, _), path in self.releases().items()))

    def releases(self) -> dict[tuple[int, int], Path]:
        """Return all releases, by wave and number of the correction; 0 is the wave itself."""
        found = {}
        for path in (self.folder / WAVES).iterdir():
            if (named := _NAME.fullmatch(path.name)) and path.is_dir():
                found[int(named[1]), int(named[2] or 0)] = path
        return dict(sorted(found.items()))

    def release(self, wave: int) -> Release:
        """Load the release of a wave.

        Parameters
        ----------
        wave : int
            Number of the wave.

        Returns
        -------
        Release
            Its release, or its last correction.

        Raises
        ------
        ParameterError
            If the wave is not published.
        """
        paths = self.published()
        if wave not in paths:
            raise ParameterError(f"wave {wave} is not published.")
        return Release.load(paths[wave])

    def waves(self) -> Waves:
        """Load the valid release of every wave."""
        made = [Wave(number, Release.load(path)) for number, path in self.published().items()]
        if not made:
            raise Refused("no wave of the series is published yet.")
        return Waves(made, self._first(), 2 * self.plan.change, self._declared())

    def breaks(self) -> list[dict[str, Any]]:
        """Return the declared breaks: ``wave``, ``columns`` and reason (``because``)."""
        path = self.folder / BREAKS
        if not path.is_file():
            return []
        found = read_yaml(path.read_text(encoding="utf-8"))
        return list(found["breaks"])

    def _declared(self) -> dict[str, frozenset[int]]:
        found: dict[str, set[int]] = {}
        for one in self.breaks():
            for name in one["columns"]:
                found.setdefault(name, set()).add(one["wave"])
        return {name: frozenset(waves) for name, waves in found.items()}

    def declare_break(self, wave: int, columns: Sequence[str], because: str) -> None:
        """Declare that counts by some columns may jump at a wave, such as after a new law.

        Measurements before it then say nothing about counts by these columns after it; other
        columns are not affected. It must not be decided by looking at private data.

        Parameters
        ----------
        wave : int
            Number of the first wave after the break.
        columns : sequence of str
            The columns that break.
        because : str
            The reason, which analysts see.

        Raises
        ------
        ParameterError
            If the wave or a column does not exist, or if no reason is given.
        """
        problems = unpublished(columns, self.schema.attributes)
        if wave < 2:
            problems.append(f"wave is {wave}; a break needs a wave before it, so it is at least 2.")
        if not columns:
            problems.append("columns is empty; name the columns that break.")
        if not because.strip() or not because.isprintable():
            problems.append("because is empty or not printable; state the reason in one line.")
        ParameterError.raise_if_any(problems)
        told = [*self.breaks(), {"wave": wave, "columns": [*columns], "because": because.strip()}]
        with self._turn():
            _write_again(self.folder / BREAKS, write_yaml({"breaks": told}))
        self._answers_so_far = None

    def extend(self, waves: int) -> SeriesPlan:
        """Plan more waves: they share the budget that is left, under the same promise.

        Parameters
        ----------
        waves : int
            New number of waves.

        Returns
        -------
        SeriesPlan
            The new plan.
        """
        with self._turn():
            self.plan = self.plan.extended(waves, charged=len(self._charges()))
            _write_again(self.folder / PLAN, self.plan.to_yaml())
        return self.plan

    def _first(self) -> Wave:
        """Return the release that defines the counted cells: the last one without a prior.

        There are several if a wave was corrected while it was the only one.
        """
        for (number, _), path in reversed(self.releases().items()):
            release = Release.load(path)
            if "prior" not in release.statement.parameters:
                return Wave(number, release)
        raise ReleaseError(said("no first release", folder=str(self.folder / WAVES)))

    def summary(self) -> dict[str, Any]:
        """Return the planned, published and lost (charged but missing) releases, as plain data.

        ``left`` is the number of releases that may still be published; None if it is unlimited or
        there is no ledger.
        """
        made = []
        for (number, correction), path in self.releases().items():
            statement = Release.load(path).statement
            made.append(
                {
                    "wave": number,
                    "correction": correction,
                    "name": path.name,
                    "created": statement.created,
                    "rows": max(0.0, float(statement.estimator["total"])),
                    "guarantee": statement.guarantee,
                    "replaces": statement.estimator.get("series", {}).get("replaces"),
                    "because": statement.estimator.get("series", {}).get("because"),
                    "valid": self.published()[number] == path,
                }
            )
        # Analysts have no ledger.
        has_ledger = bool(self._shared) or (self.folder / LEDGER).is_file()
        charged = self._charges() if has_ledger else None
        left = None
        if self.plan.planned is not None and charged is not None:
            left = self._n_left(charged)
        names = {release["name"] for release in made}
        lost = [entry.purpose.partition(": ")[0] for entry in charged or ()]
        return {
            "epsilon": str(self.plan.epsilon),
            "delta": str(self.plan.delta),
            "waves": self.plan.planned,
            "breaks": self.breaks(),
            "horizon": self.plan.horizon,
            "panel": self.plan.panel,
            "releases": made,
            "lost": [name for name in lost if name not in names],
            "left": left,
        }

    def _n_left(self, charged: Sequence[Entry]) -> int:
        """Return how many planned releases the ledger admits."""
        left = self._cap_rho() - sum(entry.concentrated.rho for entry in charged)
        place = len(charged)
        while (share := self.plan.share(place + 1)) and share * self.plan.rho <= left + _ROUNDING:
            left -= share * self.plan.rho
            place += 1
        return place - len(charged)

    def _cap_rho(self) -> Fraction:
        """Return the rho of the ledger's cap; refuse a plan that was changed."""
        book, number = self.ledger, self._shared.get("reservation")
        held = {one.id: one.amount for one in book.reservations()}
        cap = book.cap if number is None else held[number]
        if (cap.epsilon, cap.delta) != (self.plan.epsilon, self.plan.delta):
            raise Refused(
                said(
                    "plan was changed",
                    plan=PLAN,
                    epsilon=self.plan.epsilon,
                    delta=self.plan.delta,
                    cap_epsilon=cap.epsilon,
                    cap_delta=cap.delta,
                )
            )
        return self.plan.rho

    def check(self, book: Ledger | None = None) -> None:
        """Raise `Refused` if a release does not match its charge in the ledger.

        The cost of each release is computed from the noise that it states. Nothing private is read.
        """
        releases = {path.name: Release.load(path) for path in self.releases().values()}
        found = problems_of(
            releases,
            self._charges(book),
            rows_per_unit=self.schema.unit.max_rows or 1,
            digests={name: digest_of(release.statement) for name, release in releases.items()},
        )
        if found:
            raise Refused(
                [*found, "Later waves must not build on such a release; restore the original one."]
            )

    # --- publishing -------------------------------------------------------------------------------

    def publish(
        self,
        data: Any,
        *,
        before: Any = None,
        wave: int | None = None,
        correct: str | None = None,
        unseen: str | None = None,
        engine: EngineName = "auto",
        noise: Literal["secure", "opendp"] | Noise = "secure",
        memory_limit: str | None = None,
        anyway: bool = False,
        progress: Progress = silent,
    ) -> Release:
        """Publish a wave.

        Parameters
        ----------
        data : path, Arrow table, data frame or ibis table
            The private table of the wave.
        before : path, Arrow table, data frame or ibis table, optional
            In a panel, from the second wave on: the private table of the previous wave.
        wave : int, optional
            Number of the wave; by default, the one after the last. A late wave may follow later
            ones, except in a panel.
        correct : str, optional
            Reason for publishing a published wave again; its statement contains it. The correction
            is a separate release with its own cost, and replaces the one that it corrects.
        unseen : str, optional
            If an earlier run of the wave was killed after it was charged: a justified statement
            that nobody saw any of its output. The charge is then voided, on record.
        engine, noise, memory_limit, anyway, progress
            As for `hushtable.publish`.

        Returns
        -------
        Release
            The release of the wave.

        Raises
        ------
        ParameterError
            If the wave, `before` or `unseen` does not suit the state of the series.
        Refused
            If another process publishes, if an earlier run of the wave was killed, or if the budget
            is spent.
        """
        if correct is not None and (not correct.strip() or not correct.isprintable()):
            raise ParameterError("correct is empty or not printable; state the reason in one line.")
        with self._turn():
            book = self.ledger
            self._cap_rho()
            self._require_same_schema(book)
            name, number = self._named(wave, corrects=correct is not None)
            out = self.folder / WAVES / name
            previous = self._before(number, before)
            self._settle(book, name, out, unseen)
            self._answers_so_far = None
            if out.exists():
                return Release.load(out)  # a killed run had finished all but the rename
            method = self._method(book, number)
            plan: QuiltPlan | PanelPlan = method.plan(self.schema)
            if self.plan.panel:
                plan = PanelPlan.of(method, self.schema, previous, self._next_person())
            return publish_wave(
                data,
                before,
                plan,
                series=self._place(number, correct),
                out=out,
                engine=engine,
                noise=noise,
                memory_limit=memory_limit,
                anyway=anyway,
                progress=progress,
                ledger=book,
                reservation=self._shared.get("reservation"),
                same_people=self._shared.get("same_people"),
                purpose=name if correct is None else f"{name}: {correct}",
            )

    def _place(self, number: int, correct: str | None) -> dict[str, Any]:
        """Return what the statement of a release says about the series."""
        epsilon, delta = (rounded(Fraction(part)) for part in (self.plan.epsilon, self.plan.delta))
        conditions = [said("a wave of a series", number=number, epsilon=epsilon, delta=delta)]
        if correct is None:
            return {"wave": number, "conditions": conditions}
        replaced = self.published()[number].name
        conditions.append(f"Correction. This release replaces {replaced}: {correct}")
        return {
            "wave": number, "replaces": replaced, "because": correct, "conditions": conditions,
        }  # fmt: skip

    def _require_same_schema(self, book: Ledger) -> None:
        known = {entry.table for entry in self._charges(book)}
        if not known and not self._shared:
            known = {table.digest for table in book.tables()}
        if known and self.schema.digest not in known:
            raise ParameterError(said("schema was changed", schema=SCHEMA))

    def _before(self, number: int, given: Any) -> PreviousWave | None:
        """Return the previous wave of a panel; refuse a `before` that does not suit the series."""
        earlier = [n for n in self.published() if n < number]
        if not self.plan.panel:
            if given is not None:
                raise ParameterError(said["before without a panel"])
            return None
        if not earlier:
            if given is not None:
                raise ParameterError(f"before is given, but no wave before {number} is published.")
            return None
        last = max(earlier)
        if given is None:
            raise ParameterError(said("no previous table", last=last))
        return PreviousWave(last, self.release(last))

    def _next_person(self) -> int:
        """Return the first number that no synthetic person of any release has."""
        persons = [persons_of(Release.load(path)) for path in self.releases().values()]
        return 1 + max((int(numbers.max(initial=0)) for numbers in persons), default=0)

    def _named(self, wave: int | None, *, corrects: bool) -> tuple[str, int]:
        """Return the name and number of a wave's release, or refuse it."""
        paths = self.published()
        last = max(paths, default=0)
        if wave is None:
            wave = last if corrects else last + 1
        if isinstance(wave, bool) or not isinstance(wave, int) or wave < 1:
            raise ParameterError(f"wave is {wave!r}; it must be a whole number of at least 1.")
        if self.plan.planned is not None and wave > self.plan.planned:
            raise ParameterError(said("too many waves", wave=wave, planned=self.plan.planned))
        if corrects and wave not in paths:
            raise ParameterError(f"wave {wave} is not published, so it cannot be corrected.")
        if not corrects and wave in paths:
            raise ParameterError(said("already published", wave=wave))
        if not corrects and self.plan.panel and wave < last:
            raise ParameterError(said("late wave of a panel", wave=wave, last=last))
        if not corrects:
            return f"{wave:03}", wave
        done = int((_NAME.fullmatch(paths[wave].name) or [0, 0, 0])[2] or 0)
        return f"{wave:03}-correction-{done + 1}", wave

    def _settle(self, ledger: Ledger, name: str, out: Path, unseen: str | None) -> None:
        """Resolve an earlier run of the same release that was killed after it was charged."""
        entry = next((e for e in self._charges(ledger) if _is_for(e, name)), None)
        if entry is None:
            if unseen is not None:
                raise ParameterError(f"unseen is given, but nothing was charged for {name}.")
            return
        if entry.status == "released":
            if _finished(out, entry):
                return
            raise Refused(said("released but missing", name=name, entry=entry.id))
        if unseen is None:
            raise Refused(said("charged but not released", name=name, entry=entry.id))
        ledger.void(entry.id, unseen)

    def _method(self, book: Ledger, number: int) -> Quilt:
        """Return the method of the next release, with its budget and the other waves as prior."""
        place = len(self._charges(book)) + 1
        method = self.plan.method(place)
        others = {n: path for n, path in self.published().items() if n != number}
        if not others:
            return method
        waves = self.waves()
        earlier = Waves(
            [wave for wave in waves.waves if wave.number != number],
            waves.first,
            waves.supposed,
            waves.declared,
        )
        self.check(book)
        return replace(method, prior=EarlierWaves(number, earlier))

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Lock the series while publishing; a killed process releases the lock."""
        connection = sqlite3.connect(self.folder / ".turn", timeout=_PATIENCE, isolation_level=None)
        try:
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                raise Refused(said["another process"]) from None
            yield
        finally:
            connection.close()

    # --- answers ----------------------------------------------------------------------------------

    @property
    def _answers(self) -> SeriesAnswers:
        if self._answers_so_far is None:
            self._answers_so_far = SeriesAnswers(self.waves())
        return self._answers_so_far

    def count(self, where: str, *, wave: int | None = None) -> Estimate:
        """Estimate how many rows of a wave satisfy a SQL WHERE clause, using all waves.

        Other waves, including later ones, also carry information about it.

        Parameters
        ----------
        where : str
            SQL WHERE clause.
        wave : int, optional
            Number of the wave; by default, the last.

        Returns
        -------
        Estimate
            The estimate with its 95% interval.
        """
        return self._answers.level(where, wave)

    def _between(self, since: int | None, until: int | None) -> tuple[int, int]:
        """Return two waves: by default the last one, and the published wave before the second."""
        numbers = [*self.published()]
        end = until if until is not None else max(numbers, default=0)
        before = [number for number in numbers if number < end]
        if since is None and not before:
            raise ParameterError(f"no wave before wave {end} is published.")
        return (since if since is not None else before[-1]), end

    def _next_to(self, since: int | None, until: int | None) -> int:
        """Return the first of two waves with measured transitions; refuse others."""
        if since is not None and until is None:
            return since
        first, end = self._between(since, until)
        between = [number for number in self.published() if first < number < end]
        if between:
            raise ParameterError(said("waves not adjacent", first=first, next=between[0], end=end))
        return first

    def change(self, where: str, *, since: int | None = None, until: int | None = None) -> Estimate:
        """Estimate the change of a count between two waves, in rows.

        Parameters
        ----------
        where : str
            SQL WHERE clause.
        since : int, optional
            Number of the first wave; by default, the published one before the second.
        until : int, optional
            Number of the second wave; by default, the last.

        Returns
        -------
        Estimate
            The count at `until` minus the count at `since`, with its 95% interval.
        """
        return self._answers.change(where, *self._between(since, until))

    def trend(self, where: str) -> Estimate:
        """Estimate the trend of a count: the slope of the least-squares line over all waves.

        Parameters
        ----------
        where : str
            SQL WHERE clause.

        Returns
        -------
        Estimate
            Rows per wave, with a 95% interval.

        Raises
        ------
        ParameterError
            If fewer than 3 waves were published.
        """
        return self._answers.trend(where)

    def plot(self, where: str) -> str:
        """Return an SVG plot of a count over all waves, with 95% intervals.

        Parameters
        ----------
        where : str
            SQL WHERE clause.

        Returns
        -------
        str
            An SVG document.
        """
        answers = self._answers
        found: dict[tuple[Value, ...], Estimate] = {
            (n,): one for n, one in zip(answers.numbers, answers.levels(where), strict=True)
        }
        return plot(("wave",), found, f"rows with {where}", written, bars=False, few=1).svg

    # --- panels -----------------------------------------------------------------------------------

    @property
    def _followed(self) -> PanelAnswers:
        if not self.plan.panel:
            raise ParameterError(said["no panel"])
        made = {number: Release.load(path) for number, path in self.published().items()}
        return PanelAnswers(made, self.schema)

    def transitions(
        self, column: str, *, since: int | None = None, until: int | None = None
    ) -> Transitions:
        """Estimate how many people moved from each value of a column to each other value.

        Parameters
        ----------
        column : str
            Name of the column.
        since, until : int, optional
            Numbers of the two waves, as for `change`; the second follows the first.

        Returns
        -------
        Transitions
            Counts and shares for each pair of values, with 95% intervals.

        Raises
        ------
        ParameterError
            If the series is not a panel, or if the column or wave does not exist.
        """
        return self._followed.transitions(column, self._next_to(since, until))

    def moved(
        self,
        before: str | None = None,
        now: str | None = None,
        *,
        since: int | None = None,
        until: int | None = None,
    ) -> Estimate:
        """Estimate how many people satisfied a condition at a wave, and another at the next one.

        Parameters
        ----------
        before, now : str, optional
            SQL WHERE clauses on the same column, at the first and the second wave. Without any,
            people in both waves are counted.
        since, until : int, optional
            Numbers of the two waves, as for `change`; the second follows the first.

        Returns
        -------
        Estimate
            The estimate with its 95% interval.

        Raises
        ------
        ParameterError
            If the series is not a panel, or if the wave does not exist.
        Refused
            If the clauses use several columns, or separate values that were counted together.
        """
        return self._followed.moved(before, now, self._next_to(since, until))

    def panel(self) -> pa.Table:
        """Return the synthetic people of all waves: one row per person and wave."""
        return self._followed.panel()

    def export_panel(self, path: str | Path) -> None:
        """Write the synthetic people to a new ``.csv`` or ``.parquet`` file."""
        export_rows(self._followed.panel, Path(path), self.schema)


def _write_again(path: Path, text: str) -> None:
    """Replace a file of the series by another version, or create it."""
    part = path.with_name(f".{path.name}-part")
    with write_failures_as(ParameterError, f"cannot write {str(path)!r}"):
        part.write_text(text, encoding="utf-8", newline="")
        sync(part)
        part.replace(path)
        sync(path.parent)


def _reserved(
    book: Ledger, name: str, schema: Schema, plan: SeriesPlan, same_people: str | None
) -> dict[str, Any]:
    """Reserve the budget of a series in a ledger of the same people."""
    promise = ApproxDP(
        epsilon=plan.epsilon, delta=plan.delta, rho=plan.rho, unit=schema.unit,
        neighbors="add-remove",
    )  # fmt: skip
    book.require([promise], schema=schema, same_people=same_people)
    number = book.reserve([promise], purpose=f"series {name}")
    told = {"ledger": str(book.path.resolve()), "reservation": number}
    return told if same_people is None else {**told, "same_people": same_people}


def _is_for(entry: Entry, name: str) -> bool:
    return entry.purpose == name or entry.purpose.startswith(f"{name}: ")


def _finished(out: Path, entry: Entry) -> bool:
    """Move a complete release that a killed run left under a hidden name into place."""
    if out.exists():
        return True
    for part in out.parent.glob(f".{out.name}-part-*/release"):
        try:
            whole = digest_of(Release.load(part).statement) == entry.note
        except ReleaseError:
            continue
        if whole:
            part.rename(out)
            sync(out.parent)
            return True
    return False
