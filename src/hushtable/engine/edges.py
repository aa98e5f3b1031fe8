"""Reading of edge lists: any file or frame with two columns becomes a simple undirected graph.

The rules are the same for every format. Node IDs are compared as text, without surrounding blanks.
Edges have no direction, and repeated edges, in either direction, count once. Self-loops are
dropped, and so are edges with an empty end, or with an end that is missing from the list of nodes,
if there is one. So every list of pairs is a valid graph, and whether a release succeeds reveals
nothing about single rows.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hushtable import kernels
from hushtable.arrays import Codes32, Integers
from hushtable.engine import open_table
from hushtable.engine.graph import EDGE_COLUMNS, Graph
from hushtable.engine.open_table import PrivateTable
from hushtable.engine.sources.header import plain_bytes
from hushtable.errors import DataError, TooLarge
from hushtable.files.memory import physical_memory

NODE_COLUMNS = ("node",)
MAX_NODES = 2**31 - 1  # node codes fit 32 bits
MAX_EDGES = 2**32  # positions of edges fit 32 bits


def read_graph(edges: Any, *, nodes: Any = None, columns: tuple[str, str] = EDGE_COLUMNS) -> Graph:
    """Read an edge list.

    Parameters
    ----------
    edges : path, frame, array or sequence of pairs
        Path of a ``.parquet`` or ``.csv`` file with a header, or of a plain text file with two
        words per line (separated by blanks, tabs or a comma; lines that start with ``#`` or ``%``
        are comments), each also as ``.gz``; an Arrow, pandas or polars table; an array of shape
        (n, 2); a sequence of pairs.
    nodes : same types as `edges`, but with one column, optional
        All nodes, including those without edges. In a table, the column is ``node``.
    columns : pair of str
        Names of the two columns, in files and frames with column names.

    Examples
    --------
    >>> graph = read_graph([(1, 2), (2, 3)], nodes=[1, 2, 3, 4])
    >>> graph.degrees().tolist()
    [1, 2, 1, 0]
    >>> loose = read_graph([(1, 2), (None, 2), (2, 3)], nodes=[1, 2])
    >>> loose.n_edges, loose.n_loose
    (1, 2)
    """
    ends = _read("edges", edges, columns)
    listed = _read("nodes", nodes, NODE_COLUMNS) if nodes is not None else None
    known = ends.named if listed is None else listed.named
    if len(known) > MAX_NODES:
        raise DataError(f"there are {len(known):,} nodes; the maximum is {MAX_NODES:,}.")
    if len(ends.codes[0]) > MAX_EDGES:
        raise DataError(f"there are more than {MAX_EDGES:,} edges, which is the maximum.")
    ids = known.take(pc.sort_indices(known))
    place = np.append(pc.index_in(ends.ids, ids).fill_null(-1).to_numpy(zero_copy_only=False), -1)
    one, two = (place[column] for column in ends.codes)
    tied = (one >= 0) & (two >= 0)
    n_loose = len(tied) - int(np.count_nonzero(tied))
    if n_loose:
        one, two = one[tied], two[tied]
    return replace(_simple_graph(ids, one, two, listed=listed is not None), n_loose=n_loose)


def inspect_graph(
    edges: Any, *, nodes: Any = None, columns: tuple[str, str] = EDGE_COLUMNS
) -> None:
    """Check that an edge list can be opened and has its columns; read at most the first line."""
    problems: list[str] = []
    for what, data, names in (("edges", edges, columns), ("nodes", nodes, NODE_COLUMNS)):
        if data is None and what == "nodes":
            continue
        try:
            if _opened(what, data, names) is None and isinstance(data, str | Path):
                _refuse_names(what, Path(data), names)
        except DataError as error:
            problems += error.problems
    DataError.raise_if_any(problems)


def _simple_graph(ids: pa.Array, one: Integers, two: Integers, *, listed: bool) -> Graph:
    n_nodes, proper = len(ids), one != two
    low = np.minimum(one, two)[proper].astype(np.uint64)
    keys = low * np.uint64(n_nodes) + np.maximum(one, two)[proper].astype(np.uint64)
    source, target = np.divmod(np.unique(keys), np.uint64(max(n_nodes, 1)))
    return Graph(
        ids,
        source.astype(np.int32),
        target.astype(np.int32),
        listed,
        n_self_loops=len(one) - len(keys),
        n_repeated=len(keys) - len(source),
    )


@dataclass(frozen=True, eq=False)
class _Ids:
    """Columns of IDs: the distinct IDs, and for each column the index of each row's ID."""

    ids: pa.Array
    codes: tuple[Codes32, ...]

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> _Ids:
        encoded = pa.concat_arrays(columns).dictionary_encode()
        codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        return cls(encoded.dictionary, tuple(codes.reshape(len(columns), -1)))

    @property
    def named(self) -> pa.Array:
        """The distinct IDs that are not empty."""
        return self.ids.filter(pc.greater(pc.binary_length(self.ids), 0))


# --- formats ---------------------------------------------------------------------------------


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in {".csv", ".parquet"} else "text"


def _opened(what: str, data: Any, names: Sequence[str]) -> PrivateTable | None:
    """Open data with named columns and check them; return None for pairs and plain text.

    Only the header is read.
    """
    if isinstance(data, str | Path):
        if not Path(data).is_file():
            raise DataError(f"{what}: file {str(data)!r} does not exist.")
        has_names = _kind(Path(data)) != "text"
    else:
        has_names = hasattr(data, "__arrow_c_stream__")
    if not has_names:
        return None
    table = open_table.open(data)
    _check_names(what, table.header.names, names)
    return table


def _refuse_names(what: str, path: Path, names: Sequence[str]) -> None:
    """Raise an error if a plain text file starts with column names, which would become nodes."""
    with plain_bytes(path, f"{what}: ") as file:
        first = file.readline(4096)
    words = first.replace(b",", b" ").split()
    if tuple(words) == tuple(name.encode() for name in names):
        raise DataError(
            f"{what}: {str(path)!r} starts with a line of column names; a plain text file has "
            "none. Remove it, or name the file .csv."
        )


def _check_names(what: str, there: Sequence[str], names: Sequence[str]) -> None:
    lacking = [name for name in names if name not in there]
    if lacking:
        wanted = " and ".join(repr(name) for name in names)
        # In a file without a header the names are data, so they are not quoted.
        raise DataError(
            f"{what}: there is no column {' or '.join(map(repr, lacking))}; the first line of a "
            f"CSV file, or the table, must name {wanted}. Say which columns they are, or give a "
            "plain text file if there are no names."
        )
    if len(set(names)) < len(names):
        raise DataError(f"{what}: column {names[0]!r} cannot be both ends of an edge.")


def _read(what: str, data: Any, names: Sequence[str]) -> _Ids:
    """Read columns of IDs as trimmed text."""
    opened = _opened(what, data, names)
    if opened is None:
        if isinstance(data, str | Path):
            return _from_text(what, Path(data), len(names))
        return _Ids.of(_from_pairs(what, data, len(names)))
    table = _from_file(what, opened, names) if opened.header.files else opened.data
    return _Ids.of([_text(what, name, table.column(name)) for name in names])


def _from_file(what: str, opened: PrivateTable, names: Sequence[str]) -> pa.Table:
    (path,) = opened.header.files
    try:
        if opened.header.delimiter is None:
            return pq.read_table(path, columns=list(names))
        return pa_csv.read_csv(
            io.BytesIO(_content(what, path)),
            parse_options=pa_csv.ParseOptions(delimiter=opened.header.delimiter),
            convert_options=pa_csv.ConvertOptions(
                include_columns=list(names),
                column_types=dict.fromkeys(names, pa.large_string()),
            ),
        )
    except (pa.ArrowException, OSError):
        # The reader's message quotes the line it stumbled over.
        raise DataError(
            f"{what}: {str(path)!r} cannot be read: a line has another number of fields than the "
            "first, the text is not UTF-8, or the file is damaged."
        ) from None


def _content(what: str, path: Path) -> bytearray:
    """Read and decompress a file; raise `TooLarge` above an eighth of the machine's memory."""
    most = physical_memory() // 8  # IDs and their indices take about six times the text
    content = bytearray()
    with plain_bytes(path, f"{what}: ") as file:
        while len(content) <= most and (piece := file.read(2**24)):
            content += piece
    if len(content) > most:
        raise TooLarge(
            f"{what}: {str(path)!r} has more than {most / 2**30:,.1f} GB of text, which is the "
            "limit for this machine's memory; use a larger machine."
        )
    return content


def _from_text(what: str, path: Path, per_line: int) -> _Ids:
    text = np.frombuffer(_content(what, path).removeprefix(b"\xef\xbb\xbf"), np.uint8)
    kept = np.empty(len(text) + 1, np.uint8)
    ends = np.zeros(len(text) // 2 + 2, np.int64)
    n_words, n_bad, first_bad = kernels.graph_edges.split_pairs(text, per_line, kept, ends[1:])
    if n_bad:
        wanted = "two node ids" if per_line == 2 else "one node id"
        raise DataError(
            f"{what}: {n_bad:,} lines of {str(path)!r} do not have exactly {wanted} (the first is "
            f"line {first_bad:,}); separate IDs by blanks, tabs or one comma."
        )
    words = pa.Array.from_buffers(
        pa.large_string(), n_words, [None, pa.py_buffer(ends[: n_words + 1]), pa.py_buffer(kept)]
    )
    encoded = words.dictionary_encode()
    try:
        encoded.dictionary.validate(full=True)
    except pa.ArrowException:
        raise DataError(f"{what}: {str(path)!r} is not UTF-8 text; convert it first.") from None
    codes = encoded.indices.to_numpy()
    return _Ids(encoded.dictionary, tuple(codes[column::per_line] for column in range(per_line)))


def _from_pairs(what: str, data: Any, width: int) -> list[pa.Array]:
    if isinstance(data, np.ndarray):
        if data.shape[1:] != ((width,) if width > 1 else ()):
            shape = "(n, 2)" if width > 1 else "(n,)"
            raise DataError(f"{what}: the array has shape {data.shape}; it must be {shape}.")
        columns = [pa.array(column) for column in (data.T if width > 1 else [data])]
    else:
        try:
            rows = list(data) if width > 1 else [(one,) for one in data]
            parts = list(zip(*rows, strict=True)) if rows else [()] * width
        except (TypeError, ValueError):
            rows, parts = [], []
        if width > 1 and not rows and not isinstance(data, Sequence):
            raise DataError(f"{what}: a {type(data).__name__} is not an edge list.")
        if len(parts) != width:
            raise DataError(f"{what}: every edge must be a pair of node ids.")
        texts = ([None if value is None else str(value) for value in part] for part in parts)
        columns = [pa.array(column, pa.large_string()) for column in texts]
    return [_text(what, "id", column) for column in columns]


def _text(what: str, name: str, column: Any) -> pa.Array:
    if pa.types.is_nested(column.type):
        raise DataError(
            f"{what}: column {name!r} contains lists or records; IDs must be single values."
        )
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        if pa.types.is_floating(array.type):
            return _digits(array)
        return pc.utf8_trim_whitespace(array.cast(pa.large_string()))
    except pa.ArrowException:
        raise DataError(
            f"{what}: column {name!r} of type {array.type} cannot be converted to text."
        ) from None


def _digits(array: pa.Array) -> pa.Array:
    """Convert numbers to text; integers get no fraction or exponent, as in `encode`.

    A frame column with an empty cell holds doubles, while the other column may hold integers.
    """
    doubles = array.cast(pa.float64())
    numbers = doubles.fill_null(float("nan")).to_numpy(zero_copy_only=False)
    is_whole = (np.abs(numbers) < 2.0**63) & (np.floor(numbers) == numbers)
    whole = pa.array(np.where(is_whole, numbers, 0.0).astype(np.int64)).cast(pa.large_string())
    texts = pc.if_else(pa.array(is_whole), whole, doubles.cast(pa.large_string()))
    return pc.if_else(pa.array(np.isnan(numbers)), pa.scalar(None, pa.large_string()), texts)
