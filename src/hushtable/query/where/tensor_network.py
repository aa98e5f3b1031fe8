"""Exact sums of a formula over a product domain, without enumeration.

A formula becomes a network of 0/1 tensors whose axes are columns (in classes), one tensor per part
that is small enough to tabulate. AND needs no tensor: the product of the tensors is 1 where all
are. Each part of an OR gets an extra axis (wire) of length two with its truth value, and 2 x 2 x 2
tensors that compute OR connect these wires. For given codes, exactly one setting of the wires
contributes, so summing over all columns and wires counts the matching combinations.

Sums are exact. Below 2**53 they use floating point, where all integers are exact; otherwise modular
arithmetic with as many small primes as the bound on the result needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Bools, Floats
from hushtable.errors import TooLarge
from hushtable.query.where.code_classes import CodeClasses
from hushtable.query.where.formula import Formula, Junction, evaluate, join, literals, shorten

Wire = str | int  # name of a column, or number of a wire
Array = NDArray[Any]

DENSE = 2**14  # a part with at most this many cells per literal is one table
MAX_CELLS = 2**23  # limit of cells of one tensor
MAX_WORK = 2**33  # limit of multiplications of one contraction
_EXACT_FLOAT = 2**53


@dataclass(frozen=True)
class Tensor:
    """An array with named axes."""

    axes: tuple[Wire, ...]
    array: Array


class Network:
    """Tensors whose product, summed over wires, is the truth value of a formula.

    `classes` maps every column of the formula to its classes.
    """

    def __init__(self, formula: Formula, classes: Mapping[str, CodeClasses]) -> None:
        self.tensors: list[Tensor] = []
        self.n_wires = 0
        self._classes = classes
        if isinstance(formula, Junction) and self._is_wide(formula):
            self._require(formula)
        else:
            self.tensors.append(Tensor(formula.columns, self._table(formula)))

    def _cells(self, formula: Formula) -> int:
        return math.prod(self._classes[name].n_classes for name in formula.columns)

    def _is_wide(self, junction: Junction) -> bool:
        return self._cells(junction) > min(MAX_CELLS, DENSE * junction.n_literals)

    def _require(self, formula: Junction) -> None:
        """Add tensors that are 1 where the formula holds."""
        tables, wide = self._split(formula)
        if formula.every:
            self.tensors += [Tensor(table.columns, self._table(table)) for table in tables]
            for part in wide:
                self._require(part)
        else:
            wire = self._gate(tables, wide, _OR)
            self.tensors.append(Tensor((wire,), np.asarray([False, True])))

    def _gate(self, tables: list[Formula], wide: list[Junction], gate: Array) -> int:
        """Add tensors that set a wire to the gate's result for the truth values of the parts."""
        wires = [self._table_wire(table) for table in tables]
        for part in wide:
            wires.append(self._gate(*self._split(part), _AND if part.every else _OR))
        first, *others = wires
        for other in others:
            result = self._new_wire()
            self.tensors.append(Tensor((first, other, result), gate))
            first = result
        return first

    def _table_wire(self, formula: Formula) -> int:
        table, wire = self._table(formula), self._new_wire()
        self.tensors.append(Tensor((*formula.columns, wire), np.stack([~table, table], axis=-1)))
        return wire

    def _new_wire(self) -> int:
        self.n_wires += 1
        return self.n_wires

    def _split(self, junction: Junction) -> tuple[list[Formula], list[Junction]]:
        """Divide the parts into those to tabulate and those that are too wide.

        Parts whose columns are a subset of another's share its table.
        """
        wide: list[Junction] = []
        by_columns: dict[frozenset[str], list[Formula]] = {}
        for part in junction.parts:
            if isinstance(part, Junction) and self._is_wide(part):
                wide.append(part)
            else:
                by_columns.setdefault(frozenset(part.columns), []).append(part)
        hosts: dict[frozenset[str], list[Formula]] = {}
        for columns in sorted(by_columns, key=len, reverse=True):
            host = next((other for other in hosts if columns <= other), columns)
            hosts.setdefault(host, []).extend(by_columns[columns])
        return [join(junction.every, parts) for parts in hosts.values()], wide

    def _table(self, formula: Formula) -> Bools:
        """Evaluate the formula on one code of each class of each of its columns."""
        cells = self._cells(formula)
        if cells > MAX_CELLS:
            widest = max(literals(formula), key=self._cells)
            widths = ", ".join(f"{c} {self._classes[c].n_classes:,}" for c in widest.columns)
            raise TooLarge(
                f"{shorten(widest.text)!r} links {cells:,} combinations ({widths}); "
                f"the limit is {MAX_CELLS:,}. Use fewer columns in one comparison."
            )
        shape = [self._classes[name].n_classes for name in formula.columns]
        codes = np.ix_(*[self._classes[name].representatives for name in formula.columns])
        truth = evaluate(formula, dict(zip(formula.columns, codes, strict=True)))
        return np.broadcast_to(truth, shape)


_OR = np.zeros((2, 2, 2), np.bool_)
_AND = np.zeros((2, 2, 2), np.bool_)
for _one in (0, 1):
    for _other in (0, 1):
        _OR[_one, _other, _one | _other] = True
        _AND[_one, _other, _one & _other] = True


def total(network: Network, weights: Sequence[Tensor], output: tuple[Wire, ...] = ()) -> Array:
    """Sum the weighted network exactly over all axes except the output axes.

    `weights` are non-negative integers whose sums fit 64 bits; the last axis of each is a column of
    the formula. The result is float64 if its bound is below 2**53, otherwise Python integers.
    """
    bound = 2**network.n_wires * math.prod(
        int(np.max(np.sum(weight.array, axis=-1))) for weight in weights
    )
    if bound < _EXACT_FLOAT:
        return contract([*network.tensors, *weights], output)
    primes = _primes(bound)
    tensors = [*network.tensors, *weights]
    path = _path(tensors, output, n_times=len(primes))
    result: Array = np.asarray(0, object)
    modulus = 1
    for prime in primes:
        residues = [Tensor(tensor.axes, tensor.array % prime) for tensor in weights]
        rest = _run([*network.tensors, *residues], output, path, prime).astype(np.int64)
        step = (rest.astype(object) - result) * pow(modulus, -1, prime) % prime
        result = np.asarray(result + modulus * step, object)
        modulus *= prime
    return result


def contract(tensors: Sequence[Tensor], output: tuple[Wire, ...] = ()) -> Floats:
    """Sum a product of tensors over all axes except the output axes, in floating point."""
    return _run(tensors, output, _path(tensors, output), None)


Path = list[tuple[int, ...]]


def _path(tensors: Sequence[Tensor], output: tuple[Wire, ...], n_times: int = 1) -> Path:
    """Find a good order of pairwise products; raise `TooLarge` if even that is too wide."""
    import opt_einsum  # noqa: PLC0415 - slow to import

    symbols: dict[Wire, str] = {}
    for tensor in tensors:
        for axis in tensor.axes:
            symbols.setdefault(axis, opt_einsum.get_symbol(len(symbols)))
    sides = ["".join(symbols[axis] for axis in tensor.axes) for tensor in tensors]
    equation = ",".join(sides) + "->" + "".join(symbols[axis] for axis in output)
    shapes = [tensor.array.shape for tensor in tensors]
    path, information = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize="auto")
    cells, work = int(information.largest_intermediate), int(information.opt_cost) * n_times
    if cells > MAX_CELLS or work > MAX_WORK:
        names = ", ".join(a for a in symbols if isinstance(a, str) and not a.startswith("\0"))
        raise TooLarge(
            f"the clause is too complex: counting over {names} needs tables of {cells:,} "
            f"cells (limit {MAX_CELLS:,}) and {work:,} multiplications (limit {MAX_WORK:,}). Use "
            "fewer columns, or a simpler condition."
        )
    steps: Path = [tuple(step) for step in path]
    return steps


def _run(
    tensors: Sequence[Tensor], output: tuple[Wire, ...], path: Path, modulus: int | None
) -> Floats:
    """Multiply tensors pairwise along a path; sum out each axis as soon as possible.

    With a modulus below 2**15 and at most 2**23 products in a sum, no sum reaches 2**53.
    """
    rest = [Tensor(tensor.axes, tensor.array.astype(np.float64)) for tensor in tensors]
    for step in path:
        chosen = [rest[position] for position in step]
        rest = [tensor for position, tensor in enumerate(rest) if position not in step]
        while len(chosen) > 1:
            left, right = chosen.pop(), chosen.pop()
            needed = {axis for tensor in (*rest, *chosen) for axis in tensor.axes} | set(output)
            chosen.append(_pair(left, right, needed, modulus))
        rest += chosen
    (last,) = rest
    last = _sum_out(last, set(output), modulus)
    return last.array.transpose([last.axes.index(axis) for axis in output])


def _pair(left: Tensor, right: Tensor, needed: set[Wire], modulus: int | None) -> Tensor:
    # Summing an operand's own axes first keeps the number of products in a sum below the operand's
    # size.
    left = _sum_out(left, needed | set(right.axes), modulus)
    right = _sum_out(right, needed | set(left.axes), modulus)
    axes = tuple(dict.fromkeys((*left.axes, *right.axes)))
    kept = tuple(axis for axis in axes if axis in needed)
    number = {axis: position for position, axis in enumerate(axes)}
    array = np.einsum(
        left.array,
        [number[axis] for axis in left.axes],
        right.array,
        [number[axis] for axis in right.axes],
        [number[axis] for axis in kept],
        optimize=True,
    )
    return Tensor(kept, _reduced(array, modulus))


def _sum_out(tensor: Tensor, needed: set[Wire], modulus: int | None) -> Tensor:
    spare = tuple(place for place, axis in enumerate(tensor.axes) if axis not in needed)
    if not spare:
        return tensor
    axes = tuple(axis for axis in tensor.axes if axis in needed)
    return Tensor(axes, _reduced(tensor.array.sum(axis=spare), modulus))


def _reduced(array: Array, modulus: int | None) -> Array:
    return np.asarray(array) if modulus is None else np.asarray(np.mod(array, modulus))


@cache
def _small_primes() -> tuple[int, ...]:
    sieve = np.ones(2**15, np.bool_)
    sieve[:2] = False
    for number in range(2, 2**8):
        sieve[number * number :: number] = False
    return tuple(np.flatnonzero(sieve).tolist()[::-1])


def _primes(bound: int) -> list[int]:
    """Return primes below 2**15, largest first, until their product exceeds the bound."""
    product, primes = 1, []
    for prime in _small_primes():
        primes.append(prime)
        product *= prime
        if product > bound:
            return primes
    raise TooLarge(
        f"the count needs numbers of {bound.bit_length():,} bits; the limit is "
        f"{product.bit_length():,}. Use fewer columns."
    )
