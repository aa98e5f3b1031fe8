"""Attacks on a release, compared with the success of the same attacks without it.

Every attack is run on people in the original, who are in the release, and on a control group from
the same population, who are not, if there is one. A naive attacker does not see the release. Only
success beyond that on the control group is due to a person being in the release; the rest is
knowledge about the population. The results depend on private data: they are internal, and no
promise covers them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from hushtable.errors import HushtableError
from hushtable.evaluation.findings import TEXTS, Plain
from hushtable.evaluation.inputs import CodedRows
from hushtable.evaluation.risk import attribute_inference, linkability, membership, singling_out
from hushtable.evaluation.risk.anonymity import Anonymity, measure
from hushtable.evaluation.risk.attack import AttackTables, Outcome, make_attack_tables
from hushtable.evaluation.risk.likelihood_linkage import likelihood_attack
from hushtable.files.writing import spill_folder
from hushtable.methods.registry import find
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.schema import Schema
from hushtable.schema.file_format import FileFormat
from hushtable.schema.recoding import Recoding

Step = Callable[[str], None]
"""Callback with the name of each step, when it starts."""

OwnAttack = Callable[[pa.Table, Schema, Release, np.random.Generator], list[Outcome]]
"""Function of the private table, its schema, the release and a random generator."""

OWN_ATTACKS: Mapping[str, OwnAttack] = {"uncertain": likelihood_attack}
"""Attacks specific to the releases of a built-in method."""

NO_CONTROL = TEXTS["no control table"]
PERSONS = TEXTS["several rows of a person"]


@dataclass(frozen=True, kw_only=True)
class Risk(Plain):
    """Results of all attacks on a release."""

    attacks: tuple[Outcome, ...]  # by attack and target
    anonymity: Anonymity | None  # k, l and t; None without rows or quasi-identifiers
    notes: tuple[str, ...] = ()


def assess(  # noqa: PLR0917 - the tables, then metadata
    original: pa.Table,
    published: pa.Table,
    control: pa.Table | None,
    schema: Schema,
    release: Release | None,
    rng: np.random.Generator,
    step: Step = lambda _: None,
) -> Risk:
    """Run all attacks on a release.

    Parameters
    ----------
    original : table
        The private table.
    published : table
        Rows of the release as published. Generalized values are attacked as such, not values
        sampled inside them.
    control : table or None
        Rows of the same population that are not in the release.
    schema : Schema
        Public schema of the private table.
    release : Release or None
        The release, for its generalization and its method.
    rng : Generator
        Selects samples and breaks ties; no effect on privacy.
    step : callable, optional
        Callback with the name of each step.
    """
    step("reading the tables")
    recode: Mapping[str, Recoding] = {} if release is None else release.recode
    scene = make_attack_tables(original, published, control, schema, recode, rng)
    attacks: list[Outcome] = []
    step("singling out")
    attacks += singling_out.run(scene)
    step("linkability")
    attacks += linkability.run(scene)
    attacks += attribute_inference.run(scene, step)
    if scene.control is not None:
        step("membership")
        attacks += membership.run(scene)
    own = None if release is None else own_attack(release.statement.method)
    if release is not None and own is not None:
        step("the attack specific to this method")
        attacks += own(original, schema, release, rng)
    step("anonymity")
    return Risk(
        attacks=tuple(attacks),
        anonymity=anonymity_of(published, schema, recode),
        notes=_notes(scene, schema),
    )


def own_attack(method: str) -> OwnAttack | None:
    """Return the attack specific to a method's releases, if there is one."""
    spec = find(method)
    if spec is not None and spec.attack:
        attack: OwnAttack = spec.load(spec.attack)
        return attack
    return OWN_ATTACKS.get(method)


def anonymity_of(
    published: pa.Table, schema: Schema, recode: Mapping[str, Recoding]
) -> Anonymity | None:
    """Measure the anonymity of published rows.

    The target is sensitive, and an attacker may know all other columns.
    """
    columns = [name for name in schema.attributes if name in published.column_names]
    hidden = [name for name in columns if name == schema.target]
    known = [name for name in columns if name not in hidden]
    if not known or not published.num_rows:
        return None
    return measure(published, quasi=known, sensitive=hidden, schema=schema, recode=recode)


def _notes(scene: AttackTables, schema: Schema) -> tuple[str, ...]:
    no_control = (NO_CONTROL,) if scene.control is None else ()
    return *scene.notes, *no_control, *((PERSONS,) if schema.unit.kind == "person" else ())


# Control group from a second run of the method, if no control table is given.
#
# The release was made from all rows, so no rows are left as a control group. But its method and
# parameters are known. A random part of the rows is held back, the method is run again on the
# others, and that release is attacked, with the rows held back as control. The results describe the
# method on three quarters of this table, not the noise of the actual release.
#
# Like the rest of an evaluation, the second run reads the private table and uses a seed. Its
# release exists in a temporary folder during the attacks only, is not charged to a ledger, and is
# not shown.

SHARE = 0.25
"""Share of the rows that is held back."""

LEAST = 100
"""Minimum number of rows held back; with fewer, results would be uninformative."""

HELD_BACK = TEXTS["rows held back"]


@dataclass(frozen=True, eq=False)
class AttackedRows:
    """A release, the rows that it was made from, and rows that are not in it, if there are any."""

    release: Release | None  # None for a plain table
    published: pa.Table
    original: CodedRows
    control: CodedRows | None


@contextmanager
def make_control_group(
    release: Release, rows: CodedRows, rng: np.random.Generator
) -> Iterator[AttackedRows | None]:
    """Run the method of a release again on part of the rows; yield None if that is not possible.

    It is not possible if the unit is not a row (a person in both parts would make the control group
    dependent), if columns are derived or not all compared, if there are too few rows, if the method
    is not installed or refuses to run, or if its release has no rows with all columns.
    """
    schema, n_back = release.schema, round(SHARE * rows.n_rows)
    spec = find(release.statement.method)
    whole = set(rows.schema.attributes) == set(schema.attributes)
    if spec is None or schema.unit.kind != "row" or schema.derived or not whole or n_back < LEAST:
        yield None
        return
    order = rng.permutation(rows.n_rows)
    control, original = rows.take(np.sort(order[:n_back])), rows.take(np.sort(order[n_back:]))
    n_rows = None if schema.rows is None else original.n_rows
    changes = {"rows": n_rows, "reading": FileFormat()}
    public = schema.of_rows(schema.attributes).model_copy(update=changes)
    # Seeded noise gives no protection: the folder must disappear even if the process is killed.
    with tempfile.TemporaryDirectory(dir=spill_folder()) as folder:
        try:
            again = publish(
                original.table(),
                public,
                spec.load(spec.method)(**release.statement.parameters),
                out=Path(folder) / "release",
                noise=SeededNoise(int(rng.integers(2**63))),
                anyway=True,
            )
            published = again.published(rng).whole_rows
        except HushtableError:
            published = None
        yield None if published is None else AttackedRows(again, published, original, control)
