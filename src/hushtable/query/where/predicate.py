"""`Predicate`: a parsed WHERE clause and the operations on it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hushtable.arrays import Bools, ColumnCodes, Floats, Integers
from hushtable.errors import ParameterError, TooLarge
from hushtable.query.where import translate
from hushtable.query.where.code_classes import CodeClasses, CodeSets, classify
from hushtable.query.where.formula import Formula, Junction, evaluate, join
from hushtable.query.where.tensor_network import MAX_CELLS, Network, Tensor, Wire, contract, total
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding

MAX_OVERLAPS = 2**25  # limit of generalized codes times classes of a column


@dataclass(frozen=True)
class Predicate:
    """A condition on the public columns; a row matches if the clause is TRUE for it.

    Made by `parse`. A missing value is NULL, with SQL's three-valued logic.

    Parameters
    ----------
    schema : Schema
        The public schema.
    where : str
        The normalized clause.
    formula : Formula
        The clause as a formula.

    Examples
    --------
    >>> schema = Schema.from_dict({"name": "t", "columns": {
    ...     "age": {"type": "integer", "low": 20, "high": 39},
    ...     "sex": {"type": "categorical", "values": ["F", "M"], "missing": "category"},
    ...     "score": {"type": "integer", "low": 81, "high": 100}}})
    >>> predicate = parse("score < 3*AGE and sex != 'F'", schema)
    >>> print(predicate)
    score < 3 * age AND sex <> 'F'
    >>> predicate.columns
    ('score', 'age', 'sex')
    >>> predicate.count()
    183
    >>> predicate.mask({"age": np.array([0, 19]), "sex": np.array([1, 2]),
    ...                 "score": np.array([0, 0])}).tolist()
    [False, False]
    """

    schema: Schema = field(repr=False)
    where: str
    formula: Formula = field(repr=False, compare=False)
    _classes: dict[str, CodeClasses] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __str__(self) -> str:
        return self.where

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the clause, in the order of their first use."""
        return self.formula.columns

    def mask(self, codes: ColumnCodes) -> Bools:
        """Return which rows match.

        Parameters
        ----------
        codes : mapping of str to int64 array
            Rows encoded by the schema: one array per column, all of one length. Columns that the
            clause does not use are allowed.
        """
        return self._evaluate(self.formula, codes, self._n_rows(codes))

    def count(self, columns: Iterable[str] | None = None) -> int:
        """Count the combinations of the domain that match, missing values included.

        Parameters
        ----------
        columns : iterable of str, optional
            Columns whose product is counted; they must include those of the clause. By default,
            all.

        Raises
        ------
        TooLarge
            If the clause links too many codes to be counted without enumeration.
        """
        names = tuple(self.schema.attributes if columns is None else columns)
        lacking = [name for name in self.columns if name not in names]
        unknown = [name for name in names if name not in self.schema.attributes]
        if lacking or unknown:
            raise ParameterError(
                [f"columns must include {name!r}, which the clause uses." for name in lacking]
                + [f"column {name!r} is not published." for name in unknown]
            )
        sizes = [Tensor((name,), self._class_of(name).sizes) for name in self.columns]
        free = math.prod(
            self.schema.attributes[name].size for name in set(names) - set(self.columns)
        )
        return int(total(self._network(self.formula), sizes)[()]) * free

    def weigh(self, density: Mapping[str, Floats]) -> float:
        """Return the probability of the clause for independent columns.

        Parameters
        ----------
        density : mapping of str to float array
            Probability of each code of each column of the clause; other columns are ignored.
            Weights are not normalized: the result is the weighted sum over the matching
            combinations of the clause's columns.
        """
        problems = [p for name in self.columns for p in self._density_problems(name, density)]
        ParameterError.raise_if_any(problems)
        weights = []
        for name in self.columns:
            classes = self._class_of(name)
            labels = classes.of(np.arange(classes.size))
            summed = np.bincount(labels, weights=density[name], minlength=classes.n_classes)
            weights.append(Tensor((name,), summed))
        return float(contract([*self._network(self.formula).tensors, *weights])[()])

    def shares(self, recode: Mapping[str, Recoding | CodeSets], codes: ColumnCodes) -> Floats:
        """Return the share of matching combinations in each generalized row.

        Parameters
        ----------
        recode : mapping of str to Recoding or CodeSets
            Recodings of generalized columns; other columns have their original codes.
        codes : mapping of str to int64 array
            The generalized rows, one array per column, all of one length.

        Returns
        -------
        float array
            Between 0 and 1; exactly 0 or 1 if all combinations agree.

        Examples
        --------
        >>> from hushtable.schema.recoding import recodings
        >>> schema = Schema.from_dict({"name": "t", "columns": {
        ...     "age": {"type": "integer", "low": 0, "high": 99}}})
        >>> tens = recodings(schema, {"age": 10})
        >>> parse("age >= 38", schema).shares(tens, {"age": np.array([2, 3, 4])}).tolist()
        [0.0, 0.2, 1.0]
        """
        return self._shares(self.formula, recode, codes, self._n_rows(codes))

    def _n_rows(self, codes: ColumnCodes) -> int:
        lacking = [name for name in self.columns if name not in codes]
        lengths = {len(array) for array in codes.values()}
        if lacking or len(lengths) != 1:
            raise ParameterError(
                [f"codes must include column {name!r}, which the clause uses." for name in lacking]
                or [f"columns have lengths {sorted(lengths)}; all must have the same."]
            )
        return lengths.pop()

    def _evaluate(self, formula: Formula, codes: ColumnCodes, n_rows: int) -> Bools:
        rows = {name: np.asarray(codes[name], np.int64) for name in formula.columns}
        return np.broadcast_to(evaluate(formula, rows), n_rows).copy()

    def _class_of(self, name: str) -> CodeClasses:
        if name not in self._classes:
            column = self.schema.attributes[name]
            self._classes[name] = classify(self.formula, name, column.size, column.n_values)
        return self._classes[name]

    def _network(self, formula: Formula) -> Network:
        return Network(formula, {name: self._class_of(name) for name in formula.columns})

    def _density_problems(self, name: str, density: Mapping[str, Floats]) -> list[str]:
        size = self.schema.attributes[name].size
        if name not in density:
            return [f"density must include column {name!r}, which the clause uses."]
        given = density[name]
        if len(given) != size:
            return [f"column {name!r}: the density has {len(given)} entries; it must have {size}."]
        if not np.all(np.isfinite(given)) or not np.all(given >= 0):
            return [f"column {name!r}: the density must be finite and non-negative."]
        return []

    def _shares(
        self,
        formula: Formula,
        recode: Mapping[str, Recoding | CodeSets],
        codes: ColumnCodes,
        n_rows: int,
    ) -> Floats:
        if not any(name in recode for name in formula.columns):
            return self._evaluate(formula, codes, n_rows).astype(np.float64)
        parts = independent_parts(formula)
        if isinstance(formula, Junction) and len(parts) > 1:
            result = self._shares(parts[0], recode, codes, n_rows)
            for part in parts[1:]:
                share = self._shares(part, recode, codes, n_rows)
                # This form of OR gives exactly 1 where either is 1.
                result = result * share if formula.every else result + share * (1 - result)
            return result
        return self._table_shares(formula, recode, codes)

    def _table_shares(
        self, formula: Formula, recode: Mapping[str, Recoding | CodeSets], codes: ColumnCodes
    ) -> Floats:
        """Tabulate the shares over the generalized codes of the columns, and look up the rows."""
        names, output = formula.columns, list[Wire]()
        weights, places, widths = [], [], [np.asarray(1, object)]
        for name in names:
            rows = np.asarray(codes[name], np.int64)
            classes = self._class_of(name)
            if name in recode:
                if recode[name].size * classes.n_classes > MAX_OVERLAPS:
                    raise TooLarge(
                        f"column {name!r}: {recode[name].size:,} generalized codes times "
                        f"{classes.n_classes:,} codes that the clause distinguishes exceed the "
                        f"limit of {MAX_OVERLAPS:,}; compare the column with constants only."
                    )
                shared, kinds = _profiles(classes.overlaps(recode[name]))
                weights.append(Tensor((f"\0{name}", name), shared))
                output.append(f"\0{name}")
                places.append(kinds[rows])
                width = shared.sum(axis=1)
            else:
                output.append(name)
                places.append(classes.of(rows))
                width = np.ones(classes.n_classes, np.int64)
            widths.append(width)
        n_cells = math.prod(len(width) for width in widths[1:])
        if n_cells > MAX_CELLS:
            raise TooLarge(
                f"the clause links {n_cells:,} generalized combinations of "
                f"{', '.join(names)}; the limit is {MAX_CELLS:,}. Use fewer columns."
            )
        matching = total(self._network(formula), weights, tuple(output))
        exact_type = matching.dtype  # float64 only if every width is exact in it
        behind = np.ones((), exact_type)
        for width in widths[1:]:
            behind = np.multiply.outer(behind, width.astype(exact_type))
        table = (matching / behind).astype(np.float64)
        return np.asarray(table[tuple(places)])


def _profiles(shared: Integers) -> tuple[Integers, Integers]:
    """Merge generalized codes that overlap classes in the same proportions.

    Most intervals are inside one class, so tables over these profiles are small.
    """
    lowest = shared // np.maximum(np.gcd.reduce(shared, axis=1, keepdims=True), 1)
    distinct, kinds = np.unique(lowest, axis=0, return_inverse=True)
    return distinct, kinds.reshape(-1)


def independent_parts(formula: Formula) -> list[Formula]:
    """Split the parts of a junction into groups that share no column.

    Examples
    --------
    >>> columns = {name: {"type": "integer", "low": 0, "high": 9} for name in "abc"}
    >>> schema = Schema.from_dict({"name": "t", "columns": columns})
    >>> parts = independent_parts(parse("a < 3 AND b < a AND c = 1", schema).formula)
    >>> [part.columns for part in parts]
    [('a', 'b'), ('c',)]
    """
    if not isinstance(formula, Junction):
        return [formula]
    groups: list[tuple[set[str], list[Formula]]] = []
    for part in formula.parts:
        columns, members = set(part.columns), [part]
        disjoint = []
        for group in groups:
            if group[0] & columns:
                columns |= group[0]
                members = group[1] + members
            else:
                disjoint.append(group)
        groups = [*disjoint, (columns, members)]
    return [join(formula.every, members) for _, members in groups]


def parse(where: str, schema: Schema) -> Predicate:
    """Parse a SQL WHERE clause over the columns of a schema.

    Allowed are columns, numbers, texts in single quotes, TRUE, FALSE, NULL, ``+ - * / %``,
    comparisons, IN with a list, BETWEEN, LIKE, IS NULL, IS TRUE, IS FALSE, AND, OR, NOT,
    parentheses, and the functions band, weekday, year, quarter, month and hour of a column.

    Parameters
    ----------
    where : str
        The clause, without the word WHERE.
    schema : Schema
        The public schema.

    Raises
    ------
    PredicateError
        If the clause contains anything else, an unknown column, an unlisted value or an invalid
        comparison. All problems are listed.

    Examples
    --------
    >>> schema = Schema.from_dict({"name": "t", "columns": {
    ...     "sex": {"type": "categorical", "values": ["F", "M"]}}})
    >>> parse("sex = 'X'", schema)
    Traceback (most recent call last):
        ...
    hushtable.errors.PredicateError: column 'sex' has no value 'X'; its values are 'F', 'M'.
    """
    formula, text = translate.read(where, schema)
    return Predicate(schema, text, formula)
