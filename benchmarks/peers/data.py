"""Tables of the comparison with peers: binned by public rules, two thirds to train, one to test.

The tables must be in the given folder (``--data`` or ``$HUSHTABLE_DATA``); missing tables are
skipped with a message.

- ``adult/adult_all.csv.gz``: UCI Adult, the 45,222 complete rows.
- ``acs/acs.csv``: the 47,461 rows of 23 binary columns of the PrivBayes paper's ACS, as in the
  repository caicre/PrivMRF (``data/acs.csv``).
- ``kdd/census-income.data.gz``: UCI Census-Income (KDD), 199,523 rows of 42 columns without header.
- ``br2000/br2000.csv``: the 38,000 rows of 14 columns of the PrivBayes paper's BR2000, as in
  caicre/PrivMRF (``preprocess/br2000.csv``), and ``nltcs/nltcs.csv``: the 21,574 rows of 16 binary
  columns of NLTCS, from the same place.
- ``bank/bank-full.csv``: UCI's bank marketing, the 45,211 rows of 17 columns, with commas.
- ``german/german.data``: UCI's Statlog German credit, 1,000 rows of 21 columns without header, as
  in the package aif360 (``aif360/data/raw/german``).
- Six tables of binary columns (`YES_NO`) from the repository
  UCLA-StarAI/Density-Estimation-Datasets, 14,116 to 23,215 rows, for example
  ``jester/jester.train.data``, ``jester.valid.data`` and ``jester.test.data``. The first 24 columns
  are used; the first is the target. These tables were not used for tuning.

Constants were tuned on br2000, nltcs, bank and two thirds of adult's training rows (`half`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from hushtable.schema import Schema

Codes = NDArray[np.int64]

YES_NO = ("accidents", "baudio", "bnetflix", "jester", "plants", "pumsb_star")
"""Tables of binary columns that were not used for tuning."""


@dataclass(frozen=True)
class Column:
    """One column: its number of values, and whether they are ordered."""

    name: str
    size: int
    ordered: bool


@dataclass(frozen=True)
class Table:
    """A table of codes, divided once into training rows, which are published, and test rows."""

    name: str
    columns: tuple[Column, ...]
    target: int
    train: Codes
    test: Codes

    @property
    def sizes(self) -> list[int]:
        return [column.size for column in self.columns]

    @property
    def schema(self) -> Schema:
        """Schema of the codes: ordered columns are integers, the others categories."""
        described: dict[str, object] = {}
        for i, column in enumerate(self.columns):
            if column.ordered:
                described[column.name] = {"type": "integer", "low": 0, "high": column.size - 1}
            else:
                values = [str(code) for code in range(column.size)]
                described[column.name] = {"type": "categorical", "values": values}
            if i == self.target:
                described[column.name]["role"] = "target"  # type: ignore[index]
        return Schema.from_dict({"name": self.name, "columns": described})

    def arrow(self, codes: Codes) -> pa.Table:
        """Return rows of codes as an Arrow table that conforms to the schema."""
        made = {}
        for i, column in enumerate(self.columns):
            values = pa.array(codes[:, i])
            made[column.name] = values if column.ordered else values.cast(pa.string())
        return pa.table(made)

    def codes(self, table: pa.Table) -> Codes:
        """Return the codes of an Arrow table."""
        columns = [table.column(column.name).cast(pa.int64()) for column in self.columns]
        return np.stack([column.to_numpy() for column in columns], axis=1)


def load(name: str, folder: Path) -> Table:
    """Read a table and divide it; raise `FileNotFoundError` if it is missing."""
    columns, target, codes = _READERS[name](folder)
    order = np.random.default_rng(0).permutation(len(codes))
    n_train = 2 * len(order) // 3
    return Table(name, columns, target, codes[order[:n_train]], codes[order[n_train:]])


def half(table: Table) -> Table:
    """Divide the training rows of a table again, to get a table for tuning."""
    n_train = 2 * len(table.train) // 3
    train, test = table.train[:n_train], table.train[n_train:]
    return Table(f"{table.name}half", table.columns, table.target, train, test)


# --- readers -------------------------------------------------------------------------------

_ADULT_EDGES = {
    "age": range(20, 90, 5),
    "education-num": range(2, 17),
    "capital-gain": (1, 3000, 5000, 7000, 10_000, 15_000),
    "capital-loss": (1, 1500, 1800, 2000, 2200),
    "hours-per-week": (20, 30, 35, 40, 41, 50, 60),
}


def _adult(folder: Path) -> tuple[tuple[Column, ...], int, Codes]:
    options = pa_csv.ConvertOptions(null_values=["?"], strings_can_be_null=True)
    table = pa_csv.read_csv(folder / "adult" / "adult_all.csv.gz", convert_options=options)
    table = table.drop(["split", "fnlwgt", "education"]).drop_null()
    return _binned(table, _ADULT_EDGES, "income")


_KDD_NAMES = """age class-of-worker industry-recode occupation-recode education wage-per-hour
enrolled marital-status major-industry major-occupation race hispanic-origin sex labor-union
unemployment-reason full-or-part-time capital-gains capital-losses dividends tax-filer
previous-region previous-state household-detail household weight migration-msa migration-region
migration-within same-house previous-sunbelt employer-size family-under-18 father-country
mother-country own-country citizenship own-business veteran-form veteran-benefits weeks-worked year
income"""
_KDD_LEFT_OUT = """industry-recode occupation-recode enrolled unemployment-reason previous-region
previous-state household-detail weight migration-msa migration-region migration-within
previous-sunbelt family-under-18 father-country mother-country own-country own-business
veteran-form veteran-benefits year"""
_KDD_EDGES = {
    "age": (5, 10, 15, 18, 22, 26, 30, 35, 40, 45, 50, 55, 60, 65, 75),
    "wage-per-hour": (1, 500, 750, 1000, 1500),
    "capital-gains": (1, 3000, 5000, 7500, 10_000, 20_000),
    "capital-losses": (1, 1500, 1800, 2000),
    "dividends": (1, 100, 500, 1000, 5000),
    "employer-size": range(1, 7),
    "weeks-worked": (1, 14, 27, 40, 50, 52),
}


def _kdd(folder: Path) -> tuple[tuple[Column, ...], int, Codes]:
    read = pa_csv.ReadOptions(column_names=_KDD_NAMES.split())
    table = pa_csv.read_csv(folder / "kdd" / "census-income.data.gz", read_options=read)
    return _binned(table.drop(_KDD_LEFT_OUT.split()), _KDD_EDGES, "income")


def _acs(folder: Path) -> tuple[tuple[Column, ...], int, Codes]:
    codes = _matrix(folder / "acs" / "acs.csv")
    return tuple(Column(f"c{i}", 2, False) for i in range(codes.shape[1])), 4, codes


def _nltcs(folder: Path) -> tuple[tuple[Column, ...], int, Codes]:
    codes = _matrix(folder / "nltcs" / "nltcs.csv")
    return tuple(Column(f"c{i}", 2, False) for i in range(codes.shape[1])), 0, codes


def _yes_no(name: str, folder: Path) -> tuple[tuple[Column, ...], int, Codes]:
    paths = [folder / name / f"{name}.{part}.data" for part in ("train", "valid", "test")]
    parts = [np.loadtxt(path, np.int64, delimiter=",", usecols=range(24)) for path in paths]
    return tuple(Column(f"c{i}", 2, False) for i in range(24)), 0, np.concatenate(parts)


def _br2000(folder: Path) -> tuple[tuple[Column, ...], int, Codes]:
    codes = _matrix(folder / "br2000" / "br2000.csv")
    sizes = (2, 7, 21, 10, 16, 2, 2, 2, 2, 4, 16, 2, 16, 2)
    columns = tuple(Column(f"c{i}", size, size > 7) for i, size in enumerate(sizes))
    return columns, len(sizes) - 1, codes


_BANK_EDGES = {
    "age": (25, 30, 35, 40, 45, 50, 55, 60, 65),
    "balance": (0, 1, 100, 500, 1000, 2000, 5000),
    "day": range(4, 32, 4),
    "duration": (60, 120, 180, 240, 300, 420, 600, 900),
    "campaign": (2, 3, 4, 6, 11),
    "pdays": (0, 91, 181, 271),
    "previous": (1, 2, 3, 5),
}


def _bank(folder: Path) -> tuple[tuple[Column, ...], int, Codes]:
    return _binned(pa_csv.read_csv(folder / "bank" / "bank-full.csv"), _BANK_EDGES, "y")


_GERMAN_NAMES = """status months history purpose amount savings employment rate personal debtors
residence property age plans housing credits job liable telephone foreign risk"""
_GERMAN_EDGES = {
    "months": (7, 13, 19, 25, 37),
    "amount": (1000, 1500, 2000, 3000, 4000, 6000, 9000),
    "rate": (2, 3, 4),
    "residence": (2, 3, 4),
    "age": (25, 30, 35, 40, 50, 60),
    "credits": (2, 3),
}


def _german(folder: Path) -> tuple[tuple[Column, ...], int, Codes]:
    read = pa_csv.ReadOptions(column_names=_GERMAN_NAMES.split())
    parse = pa_csv.ParseOptions(delimiter=" ")
    table = pa_csv.read_csv(
        folder / "german" / "german.data", read_options=read, parse_options=parse
    )
    return _binned(table, _GERMAN_EDGES, "risk")


def _matrix(path: Path) -> Codes:
    table = pa_csv.read_csv(path)
    return np.stack([column.to_numpy() for column in table.columns], axis=1).astype(np.int64)


def _binned(
    table: pa.Table, edges: Mapping[str, range | tuple[int, ...]], target: str
) -> tuple[tuple[Column, ...], int, Codes]:
    columns, codes = [], []
    for name in table.column_names:
        values = table.column(name).combine_chunks()
        if name in edges:
            cuts = np.asarray(edges[name])
            codes.append(np.searchsorted(cuts, values.to_numpy(), side="right"))
            columns.append(Column(name, len(cuts) + 1, True))
        else:
            # The value lists of these columns are public: they are in the tables' documentation.
            labels, found = np.unique(values.to_numpy(zero_copy_only=False), return_inverse=True)
            codes.append(found)
            columns.append(Column(name, len(labels), False))
    return tuple(columns), table.column_names.index(target), np.stack(codes, axis=1)


_READERS: dict[str, Callable[[Path], tuple[tuple[Column, ...], int, Codes]]] = {
    "adult": _adult,
    "acs": _acs,
    "kdd": _kdd,
    "br2000": _br2000,
    "nltcs": _nltcs,
    "bank": _bank,
    "german": _german,
    **{name: partial(_yes_no, name) for name in YES_NO},
}
