"""Risk: what attackers get out of a release, next to what they would get without it.

Every attack is run against people of the original (who are in the release), against a control
group (people from the same population who are not) where one is given, and by a naive attacker who
does not see the release. Only what exceeds the control is due to a person being in the release;
what both share is knowledge about the population. The results compare with private data: they are
internal and not covered by any promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.evaluation.risk import inference, linkability, membership, singling_out
from hushtable.evaluation.risk.anonymity import Anonymity, measure
from hushtable.evaluation.risk.outcome import Outcome
from hushtable.evaluation.risk.records import Scene, set_scene
from hushtable.methods.registry import find
from hushtable.recoding import Recoding
from hushtable.release import Release
from hushtable.schema import Schema

Step = Callable[[str], None]
"""Called with the name of each step as it starts."""

OwnAttack = Callable[[pa.Table, Schema, Release, np.random.Generator], list[Outcome]]
"""Takes the private table, its schema, the release and what draws samples."""

NO_CONTROL = (
    "No control table was given: rates are compared with the naive attacker only, so what the "
    "release says about the population as a whole counts as success, too, and membership cannot "
    "be tried: this is no finding about privacy. Hold some rows back before publishing and give "
    "them as control."
)
PERSONS = "A person may have several rows here; the attacks take each row for a record of its own."


@dataclass(frozen=True, kw_only=True)
class Risk:
    """Hold the outcomes of all attacks on a release.

    Parameters
    ----------
    attacks : tuple of Outcome
        One per attack and what it was aimed at.
    anonymity : Anonymity or None
        k, l and t of the released table; None where it has no rows or no quasi-identifiers.
    notes : tuple of str
        What a reader must know about all of them.
    """

    attacks: tuple[Outcome, ...]
    anonymity: Anonymity | None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return {
            "attacks": [outcome.to_dict() for outcome in self.attacks],
            "anonymity": self.anonymity and self.anonymity.to_dict(),
            "notes": list(self.notes),
        }


def assess(  # noqa: PLR0917 - the tables, then what is known about them
    original: pa.Table,
    published: pa.Table,
    control: pa.Table | None,
    schema: Schema,
    release: Release | None,
    rng: np.random.Generator,
    progress: Step | None = None,
    *,
    quasi: Sequence[str] | None = None,
    sensitive: Sequence[str] | None = None,
) -> Risk:
    """Attack a release and say how far each attacker got.

    Parameters
    ----------
    original : table
        The private table.
    published : table
        The rows of the release as published, `Release.frame`: with generalized values where there
        are any, which are then attacked as such, and not with values drawn from inside them.
    control : table or None
        Rows of the same population that are not in the release.
    schema : Schema
        The public schema of the private table.
    release : Release or None
        The release, for the cuts of generalized columns and for the method behind it.
    rng : Generator
        Chooses samples and breaks ties; nothing here protects anybody.
    progress : callable, optional
        Is told the name of each step.
    quasi, sensitive : sequence of str, optional
        Columns that an attacker may know, and those they are after. By default the sensitive one
        is the target, and all others may be known; every column is tried in attribute inference.
    """
    tell = progress or (lambda _: None)
    tell("reading the tables")
    recode: Mapping[str, Recoding] = {} if release is None else release.recode
    scene = set_scene(original, published, control, schema, recode, rng)
    attacks: list[Outcome] = []
    tell("singling out")
    attacks += singling_out.run(scene)
    tell("linkability")
    attacks += linkability.run(scene)
    attacks += inference.run(
        scene, sensitive or scene.names, lambda name: tell(f"attribute inference: {name}")
    )
    if scene.control is not None:
        tell("membership")
        attacks += membership.run(scene)
    listing = None if release is None else find(release.statement.method)
    if release is not None and listing is not None and listing.attack:
        tell("the attack on this method alone")
        own: OwnAttack = listing.load(listing.attack)
        attacks += own(original, schema, release, rng)
    tell("anonymity")
    return Risk(
        attacks=tuple(attacks),
        anonymity=anonymity_of(published, schema, recode, quasi, sensitive),
        notes=_notes(scene, schema),
    )


def anonymity_of(
    published: pa.Table,
    schema: Schema,
    recode: Mapping[str, Recoding],
    quasi: Sequence[str] | None = None,
    sensitive: Sequence[str] | None = None,
) -> Anonymity | None:
    """Tell how alike published rows are; the parameters are those of `assess`."""
    columns = [name for name in schema.attributes if name in published.column_names]
    targets = [name for name in columns if name == schema.target]
    hidden = [name for name in sensitive or targets if name in columns]
    known = [name for name in quasi or columns if name in columns and name not in hidden]
    if not known or not published.num_rows:
        return None
    return measure(published, quasi=known, sensitive=hidden, schema=schema, recode=recode)


def _notes(scene: Scene, schema: Schema) -> tuple[str, ...]:
    notes = list(scene.notes)
    if scene.control is None:
        notes.append(NO_CONTROL)
    if schema.unit.kind == "person":
        notes.append(PERSONS)
    return tuple(notes)
