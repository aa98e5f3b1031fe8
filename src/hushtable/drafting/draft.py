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
from hushtable.drafting.names import NAMES, say
from hushtable.drafting.profile import (
    MISSING_WORDS,
    Profile,
    as_number,
    day_formats,
    days_of,
    few_that_are_no_numbers,
    number_spelling,
    profiles,
)
from hushtable.engine import open_table
from hushtable.engine.output_guard import silenced
from hushtable.engine.sources.header import (
    TEXT_ENDINGS,
    Data,
    detected_encoding,
    is_address,
    unpacked,
)
from hushtable.engine.sources.urls import name_at
from hushtable.engine.sources.whole_files import Labels, sheets_of
from hushtable.errors import DataError, ParameterError
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
        orders = day_formats(profile.values)
        if profile.codes is not None and orders and len(profile.values) > 10:
            years = [day.year for day in days_of(profile.values, orders[0])]
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
    raise DataError(say("no column names", n_fitting=fits.count(True), n=len(fits)))


def _fits(profile: Profile) -> bool | None:
    """Return whether a name resembles the values of its column; None if unclear."""
    cells = profile.values[:_ENOUGH]
    if not cells:
        return None
    if all(as_number(cell) is not None for cell in cells):
        return as_number(profile.name) is not None
    return True if profile.name in profile.values else None


# Detection of a column that identifies persons with several rows each.

_NAMES_PERSONS = re.compile(NAMES["persons"])
_FEW = 20  # minimum number of persons
_TIMES = 1.05  # minimum mean rows per person
_MOST_TIMES = 1000


_UNLIKE = 0.1  # assumed total variation distance between rows that count and rows that do not
_NOISE = 1500  # assumed total noise in rows, at one row per person and epsilon 1 (30 cells of 100)


@dataclass(frozen=True)
class Person:
    """Column that seems to identify persons."""

    column: str
    rows_each: float  # mean rows per person
    max_rows: int  # proposed limit, see `best_max_rows`

    @property
    def question(self) -> str:
        """The question to the custodian."""
        return say("persons", column=self.column, rows_each=self.rows_each, max_rows=self.max_rows)


def best_max_rows(counts: Integers) -> int:
    """Return the limit of rows per person with the smallest assumed error.

    The error is the sum of the noise as a share of the rows that count, and of the share of rows
    that do not count times how much these differ from the others. Both factors are rough: the
    noise is that of 30 cells with a standard deviation of 100 rows.

    Examples
    --------
    >>> best_max_rows(np.full(1000, 12)), best_max_rows(np.array([1] * 50000 + [2] * 9000 + [40]))
    (12, 1)
    """
    limits = np.unique(counts)
    used = np.array([np.minimum(counts, limit).sum() for limit in limits])
    error = _NOISE * limits / used + _UNLIKE * (1 - used / counts.sum())
    return int(limits[np.argmin(error)])


def find_person_column(profiles: Sequence[Profile]) -> Person | None:
    """Return the column that seems to identify persons with several rows each, or None."""
    found = [profile for profile in profiles if _names_persons(profile)]
    if not found:
        return None
    profile = max(found, key=lambda one: len(one.values))
    return Person(
        column=profile.name,
        rows_each=profile.n_values / len(profile.values),
        max_rows=best_max_rows(profile.counts),
    )


def _names_persons(profile: Profile) -> bool:
    if not profile.complete or profile.n_missing or len(profile.values) < _FEW:
        return False
    times = profile.n_values / len(profile.values)
    by_name = _NAMES_PERSONS.search(profile.name) or _NAMES_PERSONS.search(profile.name.lower())
    return bool(by_name) and _TIMES <= times <= _MOST_TIMES


_TARGET = re.compile(NAMES["target"], re.IGNORECASE)
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
    every difference between their drafts is listed under ``confirm`` in both. A column with the
    mark ``recognized`` got the public domain of a catalog by its name and the fit of its values;
    the mark covers all of its parts. `drafted` also returns remarks.

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
    >>> table = pa.table({"age": [41, 7, 58], "visits": [3, 1, None]})
    >>> age, visits = draft(table, name="clinic").attributes.values()
    >>> age.type, age.low, age.high, age.confirm
    ('integer', 0, 130, ('recognized',))
    >>> visits.low, visits.high, visits.confirm
    (1, 3, ('role', 'type', 'low', 'high', 'missing', 'outside'))
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
    told = detected_format(data, FileFormat() if reading is None else reading)
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
    undescribed = [profile for profile in seen if profile.name not in book.columns]
    person = find_person_column(undescribed)
    told, asked = find_spelling(seen, told)
    proposals = {
        profile.name: _from_codebook(book, profile.name)
        or _proposal(profile, person, labels.get(profile.name), told)
        for profile in seen
    }
    for column, label in book.labels.items():
        if column in proposals and "label" not in proposals[column].content:
            proposals[column].content["label"] = label
    if not any(made.is_published for made in proposals.values()):
        raise DataError("every column looks like an identifier; write the schema by hand.")
    has_target = any(made.content.get("role") == "target" for made in proposals.values())
    target = None if has_target else _target(seen, proposals)
    if target is not None:
        _make_target(proposals[target], seen[header.names.index(target)])
    remarks = {name: list(made.remarks) for name, made in proposals.items()}
    published = [p for p in seen if proposals[p.name].is_published]
    for column, remark in between_columns(published):
        remarks[column].append(remark)
    if not told.is_utf8:
        asked.append(say("other encoding", encoding=told.encoding))
    remarks[""] = [*_about_the_table(person, renamed, target), *asked]
    if hidden := [name for name, made in proposals.items() if not made.is_published]:
        remarks[""].append(f"Not published, see the remarks: {', '.join(hidden)}.")
    absent = [column for column in book.columns if column not in header.names]
    if absent:
        remarks[""].append(f"In the codebook but not in the data: {', '.join(absent)}.")
    return Draft(
        Schema.from_dict(_content(name, seen, proposals, person, told)),
        {column: tuple(said) for column, said in remarks.items() if said},
    )


def detected_format(data: Data, told: FileFormat) -> FileFormat:
    """Return the format with the encoding of a text file; ask for the sheet of a workbook."""
    path = Path(data) if isinstance(data, str | Path) and not is_address(data) else None
    if path is None or not path.is_file():
        return told
    path = unpacked(path) if path.suffix.lower() == ".zip" else path
    sheets = sheets_of(path)
    if len(sheets) > 1 and told.sheet is None:
        raise ParameterError(
            say("several sheets", file=path.name, sheets=", ".join(map(repr, sheets)))
        )
    if path.name.lower().endswith(TEXT_ENDINGS) and told.encoding == "utf-8":
        return told.model_copy(update={"encoding": detected_encoding(path)})
    return told


def _called(data: Data, files: Sequence[Path]) -> str:
    """Return the table's name, from its file."""
    if is_address(data):
        file = name_at(data)
    elif files or isinstance(data, str | Path):
        file = (files[0] if files else Path(data)).name
    else:
        file = ""
    return file.split(".")[0] or "table"


def _proposal(
    profile: Profile, person: Person | None, labels: Labels | None, layout: FileFormat
) -> Proposal:
    if person is not None and profile.name == person.column:
        return identifier("it identifies persons; see unit")
    return propose(profile, layout) if labels is None else propose_labeled(profile, labels)


def find_spelling(seen: Sequence[Profile], told: FileFormat) -> tuple[FileFormat, list[str]]:
    """Return the format with the spelling of numbers and dates, and questions about it."""
    found, asked, texts = dict[str, Any](), [], [p for p in seen if p.family == "text"]
    for profile in texts:
        words = few_that_are_no_numbers(profile.values)
        spelling = number_spelling([v for v in profile.values if v not in words])
        if spelling is not None and spelling.decimal == found.get("decimal", spelling.decimal):
            found |= {"decimal": spelling.decimal}
            found |= {"thousands": spelling.thousands} if spelling.thousands else {}
            asked.append(f"Numbers in {profile.name!r} are read as {_said(spelling)}; see reading.")
    orders = [order for p in texts if (order := day_formats(p.values)) not in ([], ["iso"])]
    if orders:
        common = [order for order in orders[0] if all(order in others for others in orders)]
        found["dates"] = (common or orders[0])[0]
        unclear = ", which the dates leave open: check it" if len(common) > 1 else ""
        asked.append(f"Dates are read as {found['dates']}{unclear}; see reading.")
    given = told.model_dump(exclude_defaults=True)
    try:
        return FileFormat(**{**found, **given}), asked
    except ValueError:  # such as a decimal comma in a file with commas as delimiters
        return told, asked


def _said(spelling: FileFormat) -> str:
    point = "decimal commas" if spelling.decimal == "," else "decimal points"
    return f"{point} and {spelling.thousands!r} between thousands" if spelling.thousands else point


def _target(seen: Sequence[Profile], proposals: Mapping[str, Proposal]) -> str | None:
    """Return a column of few values whose name suggests a prediction target, or None."""
    likely = [
        profile.name
        for profile in seen
        if _TARGET.search(profile.name)
        and 2 <= len(profile.values) <= _FEW_CLASSES
        and not proposals[profile.name].public
        and proposals[profile.name].content.get("type") in ("categorical", "boolean", "integer")
        and not (proposals[profile.name].recognized and _is_long(proposals[profile.name].content))
    ]
    return likely[-1] if likely else None


def _is_long(content: Mapping[str, Any]) -> bool:
    return content["type"] == "integer" and bool(content["high"] - content["low"] >= _FEW_CLASSES)


def _make_target(proposal: Proposal, profile: Profile) -> None:
    """Make a column the prediction target, with a list of classes."""
    content = proposal.content
    content["role"] = "target"
    if content["type"] == "integer":
        public = range(content["low"], content["high"] + 1) if proposal.recognized else ()
        for part in ("low", "high", "special"):
            content.pop(part, None)
        found = {number.whole for v in profile.values if (number := as_number(v))}
        classes = public or sorted(whole for whole in found if whole is not None)
        content |= {"type": "categorical", "values": list(map(str, classes))}
        if not proposal.recognized:
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
        about.append(say("replaced names", listed=listed))
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
            column: {**made.content, "confirm": made.marks} if made.marks else made.content
            for column, made in proposals.items()
        },
    }
