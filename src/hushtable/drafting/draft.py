"""Draft of a schema from the data, for the custodian only.

A schema is public, but anything taken from private data is not: a single row can change the type or
role of a column, its bounds and values, the words for missing values, and the unit. So every part
of a draft except names and columns from a codebook is listed under ``confirm``, and
`Schema.require_confirmed` raises an error until a person has confirmed that each part is public
knowledge. Remarks also come from the data; they are kept beside the schema, never in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hushtable.arrays import Integers
from hushtable.drafting.codebooks import Codebook, read_codebook
from hushtable.drafting.columns import Proposal, identifier, propose, propose_labeled, with_rules
from hushtable.drafting.profile import (
    MISSING_WORDS,
    Profile,
    as_number,
    day_format,
    days_of,
    profiles,
)
from hushtable.engine import open_table
from hushtable.engine.output_guard import silenced
from hushtable.engine.sources.header import Data, is_address
from hushtable.engine.sources.urls import name_at
from hushtable.engine.sources.whole_files import Labels
from hushtable.errors import DataError
from hushtable.schema import Schema
from hushtable.schema.file_format import FileFormat, proposed_names

# Functional dependencies between columns: derived columns, and ages derived from birthdays.

_MOST_VALUES = 2000  # distinct values; columns with more are skipped
_MOST_PAIRS = 1 << 21  # cells of a pair of columns; larger pairs are skipped
_REPEATS = 3  # minimum mean rows per value; with fewer, dependencies may occur by chance


def between_columns(profiles: Sequence[Profile]) -> Iterator[tuple[str, str]]:
    """Yield the name of each column that another determines, with a remark for the custodian."""
    told = [p for p in profiles if p.codes is not None and 2 <= len(p.values) <= _MOST_VALUES]
    for follower in told:
        sources = [p for p in told if p is not follower and _determines(p, follower)]
        same = [p for p in sources if len(p.values) == len(follower.values)]
        finer = [p for p in sources if len(p.values) > len(follower.values)]
        if same and told.index(same[0]) < told.index(follower):
            yield follower.name, f"equivalent to {same[0].name!r} in every row."
        elif finer:  # the coarsest source is the most specific
            source = min(finer, key=lambda one: len(one.values))
            yield follower.name, f"determined by {source.name!r} in every row. Is it derived?"
    yield from _ages(profiles)


def _determines(source: Profile, follower: Profile) -> bool:
    """Return whether `source` determines `follower`, with enough rows per value."""
    assert source.codes is not None  # noqa: S101 - asked for by the caller
    assert follower.codes is not None  # noqa: S101
    n_source, n_follower = len(source.values), len(follower.values)
    if n_source < n_follower or source.n_values < _REPEATS * n_source:
        return False
    if n_source * n_follower > _MOST_PAIRS:
        return False
    # Missing values are treated as one more value.
    pairs = (source.codes + 1) * (n_follower + 1) + follower.codes + 1
    seen = np.bincount(pairs, minlength=(n_source + 1) * (n_follower + 1)) > 0
    return bool((seen.reshape(n_source + 1, n_follower + 1).sum(axis=1) <= 1).all())


def _ages(profiles: Sequence[Profile]) -> Iterator[tuple[str, str]]:
    """Yield the name of each column that seems to be an age on a date column, with a remark."""
    days: dict[str, tuple[Integers, Integers]] = {}
    for profile in profiles:
        spelling = day_format(profile.values)
        if profile.codes is not None and spelling is not None and len(profile.values) > 10:
            years = [day.year for day in days_of(profile.values, spelling)]
            days[profile.name] = np.array(years), profile.codes
    for profile in profiles if days else ():
        read = [number.whole for value in profile.values if (number := as_number(value))]
        if profile.codes is None or len(read) < max(len(profile.values), 10) or None in read:
            continue
        ages = np.array(read, np.float64)
        for name, (births, codes) in days.items():
            both = (profile.codes >= 0) & (codes >= 0)
            sums = ages[profile.codes[both]] + births[codes[both]]
            # Birth year plus age is the year of the survey, or the one before.
            if len(sums) > 10 and np.ptp(sums) <= 3 and 1900 < sums.mean() < 2100:
                yield (
                    profile.name,
                    f"determined by the date {name!r}. Is it an age? Publish one of them.",
                )


# Check that the first line of a text file contains column names, not a data row.
#
# Column names are public and part of the schema. In a file without a header line, the first data
# row would be used as names and published.

_ENOUGH = 1000
"""Number of values used to decide whether a column is numeric."""


def require_names(seen: Sequence[Profile], public: Collection[str]) -> None:
    """Raise an error if the first line looks like the rows below it in all comparable columns.

    `seen` has the columns under the names of the first line; if some of these names are in
    `public`, such as a codebook, the line is accepted.
    """
    fits = [_fits(profile) for profile in seen if profile.name not in public]
    if len(fits) < len(seen) or False in fits or True not in fits:
        return
    raise DataError(
        "the first line looks like a data row, not like column names: it resembles the values "
        f"below it in {fits.count(True)} of {len(fits)} columns and differs in none. Used as "
        "names, that row would be published. Add a header line to the file; if the first line "
        "does contain names, pass first_line_is_names=True (--first-line-is-names)."
    )


def _fits(profile: Profile) -> bool | None:
    """Return whether a name resembles the values of its column; None if unclear."""
    cells = profile.values[:_ENOUGH]
    if not cells:
        return None
    if all(as_number(cell) is not None for cell in cells):
        return as_number(profile.name) is not None
    return True if profile.name in profile.values else None


# Detection of a column that identifies persons with several rows each.

_NAMES_PERSONS = re.compile(
    r"(^|[_ .-])(id|pid|uid|person|patient|subject|participant|respondent|customer|client|user"
    r"|member|student|household|hh|case|ssn|dupersid|persnr|nr)([_ .-]?(id|no|nr|num|number|key))?"
    r"($|[_ .-])|[a-z](ID|Id)$",
)
_FEW = 20  # minimum number of persons
_TIMES = 1.05  # minimum mean rows per person
_MOST_TIMES = 1000


@dataclass(frozen=True)
class Person:
    """Column that seems to identify persons."""

    column: str
    rows_each: float  # mean rows per person
    max_rows: int  # proposed limit: the maximum, or the 99% quantile if that is below a third of it

    @property
    def question(self) -> str:
        """The question to the custodian."""
        return (
            f"Values of {self.column!r} occur {self.rows_each:.2g} times on average. Does it "
            "identify a person? If so, the promise must cover all rows of a person: keep unit. If "
            "not, set unit: {kind: row}."
        )


def find_person_column(profiles: Sequence[Profile]) -> Person | None:
    """Return the column that seems to identify persons with several rows each, or None."""
    found = [profile for profile in profiles if _names_persons(profile)]
    if not found:
        return None
    profile = max(found, key=lambda one: len(one.values))
    most, usual = int(profile.counts.max()), int(np.quantile(profile.counts, 0.99))
    return Person(
        column=profile.name,
        rows_each=profile.n_values / len(profile.values),
        max_rows=most if most <= 3 * usual else usual,
    )


def _names_persons(profile: Profile) -> bool:
    if not profile.complete or profile.n_missing or len(profile.values) < _FEW:
        return False
    times = profile.n_values / len(profile.values)
    by_name = _NAMES_PERSONS.search(profile.name) or _NAMES_PERSONS.search(profile.name.lower())
    return bool(by_name) and _TIMES <= times <= _MOST_TIMES


_TARGET = (
    r"(target|class|label|outcome|response|y|income|default|churn|recid|credit[_ ]?risk|diagnosis)"
)
_BEGINS_OR_ENDS = re.compile(rf"^{_TARGET}($|[_ .-])|[_ .-]{_TARGET}$", re.IGNORECASE)
_FEW_CLASSES = 10


@dataclass(frozen=True)
class Draft:
    """Draft schema and remarks, for the custodian only."""

    schema: Schema  # with `confirm` marks
    remarks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Remarks by column name; those on the table are under ``""``."""

    def to_yaml(self) -> str:
        """Return the schema as YAML, with remarks as comments."""
        from hushtable.files.yaml_text import write_yaml  # noqa: PLC0415 - only for this

        # Column names by their YAML spelling.
        named = {write_yaml({name: 0}).removesuffix(": 0\n"): name for name in self.schema.columns}
        lines = []
        for line in self.schema.to_yaml().splitlines():
            found = re.fullmatch(r"  (\S.*):", line)
            if found and found[1] in named:
                lines += [f"  # {remark}" for remark in self.remarks.get(named[found[1]], ())]
            lines.append(line)
        about = [f"# {remark}" for remark in self.remarks.get("", ())]
        return "\n".join([*about, *lines]) + "\n"


def draft(
    data: Data,
    *,
    name: str | None = None,
    codebook: Codebook | Sequence[str | Path] = (),
    reading: FileFormat | None = None,
    first_line_is_names: bool = False,
) -> Schema:
    """Propose a schema for a table; list all parts taken from the data under ``confirm``.

    These are all parts except names and columns from a codebook: if two tables differ in one row,
    every difference between their drafts is listed under ``confirm`` in both. `drafted` also
    returns remarks.

    Integers become ``integer``, other numbers ``number`` on a grid whose step is a power of ten,
    and a short list of texts becomes ``categorical``. A column becomes an identifier, which is
    never published, if it has more than 100 distinct texts or seems to identify rows or persons:
    for example, at least 20 texts or 100 integers that all differ.

    Parameters
    ----------
    data : path, frame or ibis table
        See `hushtable.engine.connect`.
    name : str, optional
        Name of the table; by default that of the file.
    codebook : Codebook, or sequence of path
        Public descriptions of columns, see `read_codebook`. Their parts need no confirmation,
        since they were not taken from the data.
    reading : FileFormat, optional
        File format options that cannot be detected, such as the encoding.
    first_line_is_names : bool
        Use the first line of a text file as column names even if it looks like a data row.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [41, 7, 58], "sex": ["F", "M", None]})
    >>> age, sex = draft(table, name="clinic").attributes.values()
    >>> age.type, age.low, age.high, age.confirm
    ('integer', 7, 58, ('role', 'type', 'low', 'high', 'missing', 'outside'))
    >>> sex.values, sex.missing, sex.outside
    (('F', 'M'), 'category', 'missing')
    """
    return drafted(
        data,
        name=name,
        codebook=codebook,
        reading=reading,
        first_line_is_names=first_line_is_names,
    ).schema


@silenced
def drafted(
    data: Data,
    *,
    name: str | None = None,
    codebook: Codebook | Sequence[str | Path] = (),
    reading: FileFormat | None = None,
    first_line_is_names: bool = False,
) -> Draft:
    """Propose a schema as `draft` does, with remarks for the custodian.

    Examples
    --------
    >>> import pyarrow as pa
    >>> visits = pa.table({"id": [n // 3 for n in range(90)], "sex": ["F", "M", "F"] * 30})
    >>> made = drafted(visits)
    >>> made.schema.unit.describe()
    "one person (column 'id', at most 3 rows used)"
    """
    book = codebook if isinstance(codebook, Codebook) else read_codebook(*codebook)
    told = FileFormat() if reading is None else reading
    table = open_table.open(data, reading=told)
    renamed = {**told.rename, **proposed_names(table.header.names)}
    told = told.model_copy(update={"rename": renamed})
    table = table.read_as(told)
    labels = table.labels
    table = table.loaded()
    source, header = table.source(), table.header
    if name is None:
        name = _called(data, header.files)
    source = source.here(header.names)
    n_rows = source.scalar(source.table.count())
    if n_rows == 0:
        raise DataError("the data has no rows to draft a schema from.")
    seen = list(profiles(source, header, n_rows))
    if header.delimiter is not None and not first_line_is_names:
        require_names(seen, book.columns)
    person = find_person_column([profile for profile in seen if profile.name not in book.columns])
    proposals = {
        profile.name: _from_codebook(book, profile.name)
        or _proposal(profile, person, labels.get(profile.name))
        for profile in seen
    }
    if all(made.content.get("role") == "identifier" for made in proposals.values()):
        raise DataError("every column looks like an identifier; write the schema by hand.")
    has_target = any(made.content.get("role") == "target" for made in proposals.values())
    target = None if has_target else _target(seen, proposals)
    if target is not None:
        _make_target(proposals[target], seen[header.names.index(target)])
    remarks = {name: list(made.remarks) for name, made in proposals.items()}
    published = [p for p in seen if proposals[p.name].content.get("role") != "identifier"]
    for column, remark in between_columns(published):
        remarks[column].append(remark)
    remarks[""] = _about_the_table(person, renamed, target)
    absent = [column for column in book.columns if column not in header.names]
    if absent:
        remarks[""].append(f"In the codebook but not in the data: {', '.join(absent)}.")
    return Draft(
        Schema.from_dict(_content(name, seen, proposals, person, told)),
        {column: tuple(said) for column, said in remarks.items() if said},
    )


def _called(data: Data, files: Sequence[Path]) -> str:
    """Return the table's name, from its file."""
    if is_address(data):
        file = name_at(data)
    elif files or isinstance(data, str | Path):
        file = (files[0] if files else Path(data)).name
    else:
        file = ""
    return file.split(".")[0] or "table"


def _proposal(profile: Profile, person: Person | None, labels: Labels | None) -> Proposal:
    if person is not None and profile.name == person.column:
        return identifier("it identifies persons; see unit")
    return propose(profile) if labels is None else propose_labeled(profile, labels)


def _target(seen: Sequence[Profile], proposals: Mapping[str, Proposal]) -> str | None:
    """Return a column of few values whose name suggests a prediction target, or None."""
    likely = [
        profile.name
        for profile in seen
        if _BEGINS_OR_ENDS.search(profile.name)
        and 2 <= len(profile.values) <= _FEW_CLASSES
        and not proposals[profile.name].public
        and proposals[profile.name].content.get("type") in ("categorical", "boolean", "integer")
    ]
    return likely[-1] if likely else None


def _make_target(proposal: Proposal, profile: Profile) -> None:
    """Make a column the prediction target, with a list of classes."""
    content = proposal.content
    content["role"] = "target"
    if content["type"] == "integer":
        for part in ("low", "high", "special"):
            content.pop(part, None)
        classes = {str(number.whole) for v in profile.values if (number := as_number(v))}
        content |= {"type": "categorical", "values": sorted(classes, key=int)}
        with_rules(proposal, profile)


def _from_codebook(book: Codebook, name: str) -> Proposal | None:
    """Return a column's description in the codebook, or None."""
    if name not in book.columns:
        return None
    return Proposal(dict(book.columns[name]), [f"from {book.sources[name]}."], public=True)


def _about_the_table(
    person: Person | None, renamed: Mapping[int, str], target: str | None
) -> list[str]:
    about = []
    if person is not None:
        about.append(person.question)
    if renamed:
        listed = ", ".join(f"column {place}: {new!r}" for place, new in renamed.items())
        about.append(
            f"Duplicate, empty and reserved column names (count) were replaced ({listed}); see "
            "reading."
        )
    if target is not None:
        about.append(
            f"{target!r} is proposed as prediction target (role: target) because of its name."
        )
    return about


def _usual_place(word: str) -> tuple[int, str]:
    """Return the sort key of a word for missing: the usual ones in their order, then blanks."""
    usual = word in MISSING_WORDS
    return MISSING_WORDS.index(word) if usual else len(MISSING_WORDS), word


def _content(
    name: str,
    seen: Sequence[Profile],
    proposals: Mapping[str, Proposal],
    person: Person | None,
    told: FileFormat,
) -> dict[str, Any]:
    words = {""}.union(*(profile.words for profile in seen))
    reading = told.model_dump(exclude_defaults=True)
    if any(made.decimal_comma for made in proposals.values()):
        reading["decimal"] = ","
    if by_label := [column for column, made in proposals.items() if made.by_label]:
        reading["labels"] = by_label
    content: dict[str, Any] = {"name": name}
    if person is not None:
        unit = {"kind": "person", "column": person.column, "max_rows": person.max_rows}
        content["unit"] = unit
    return content | {
        "missing_values": sorted(words, key=_usual_place),
        "reading": reading,
        "confirm": ["unit", "missing_values", "reading"],
        "columns": {
            column: made.content
            if made.public
            else {**made.content, "confirm": list(dict.fromkeys(["role", *made.content]))}
            for column, made in proposals.items()
        },
    }
