"""Edge lists: every format gives the same graph, and invalid ones are refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushtable.engine.edges import inspect_graph, read_graph
from hushtable.engine.graph import Graph
from hushtable.errors import DataError

EDGES = [("10", "2"), ("2", "10"), ("2", "3"), ("3", "3"), ("ä b", "3")]


def as_pairs(graph: Graph) -> set[tuple[str, str]]:
    ids = graph.ids.to_pylist()
    return {(ids[a], ids[b]) for a, b in zip(graph.source, graph.target, strict=True)}


def check(graph: Graph) -> None:
    assert graph.ids.to_pylist() == ["10", "2", "3", "ä b"]
    assert as_pairs(graph) == {("10", "2"), ("2", "3"), ("3", "ä b")}
    assert (graph.n_self_loops, graph.n_repeated) == (1, 1)
    assert graph.degrees().tolist() == [1, 2, 2, 1]


def test_an_empty_end_does_not_rename_other_nodes() -> None:
    """A frame with an empty cell has doubles in one column; nodes are the same as without it."""
    long = 123_456_789_012_345
    ends = {"source": [1, 2, long], "target": [long, 1, 10**15]}
    whole = as_pairs(read_graph(pd.DataFrame(ends)))
    assert len(whole) == 3
    for gap in (None, float("nan")):
        frame = pd.DataFrame({"source": [*ends["source"], 7], "target": [*ends["target"], gap]})
        assert frame["target"].dtype == float
        for table in (frame, pl.from_pandas(frame), pa.table({"source": frame["source"].to_numpy(),
                      "target": frame["target"].to_numpy()})):  # fmt: skip
            graph = read_graph(table)
            assert as_pairs(graph) == whole
            assert graph.n_loose == 1
    halves = read_graph(np.array([[0.5, 2.0], [np.nan, 2.0]]))
    assert as_pairs(halves) == {("0.5", "2")}


def test_tables_of_every_kind() -> None:
    columns = {"source": [a for a, _ in EDGES], "target": [b for _, b in EDGES]}
    for frame in (pa.table(columns), pd.DataFrame(columns), pl.DataFrame(columns)):
        check(read_graph(frame))
    categories = pa.table({k: pa.array(v).dictionary_encode() for k, v in columns.items()})
    check(read_graph(categories))
    check(read_graph(EDGES))
    check(read_graph(tuple(EDGES)))


def test_files_of_every_kind(tmp_path: Path) -> None:
    columns = {"a": [a for a, _ in EDGES], "weight": [1.0] * 5, "b": [b for _, b in EDGES]}
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "e.parquet")
    csv = "a,weight,b\n" + "".join(f'"{a}",1.0, {b}\n' for a, b in EDGES)
    (tmp_path / "e.csv").write_text(csv)
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(csv.encode()))
    for name in ("e.parquet", "e.csv", "e.csv.gz"):
        inspect_graph(tmp_path / name, columns=("a", "b"))
        check(read_graph(tmp_path / name, columns=("a", "b")))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("between", [" ", "\t", ",", "  \t ", ", "])
@pytest.mark.parametrize("name", ["e.txt", "e.edges.gz", "edges", "e.tsv"])
def test_plain_text(tmp_path: Path, name: str, between: str, newline: str) -> None:
    lines = ["# a comment", "% another", "", *(between.join(e) for e in EDGES[:4]), "  "]
    lines.append(f"ä_b{between}3  ")
    raw = newline.join(lines).encode()  # no newline at the end
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    inspect_graph(tmp_path / name)
    graph = read_graph(str(tmp_path / name))
    assert graph.ids.to_pylist() == ["10", "2", "3", "ä_b"]
    assert graph.degrees().tolist() == [1, 2, 2, 1]


def test_ids_are_text() -> None:
    assert read_graph([("01", "1"), ("1", "x")]).n_nodes == 3
    numbers = np.array([[1, 2], [2, 3]])
    assert as_pairs(read_graph(numbers)) == {("1", "2"), ("2", "3")}
    assert as_pairs(read_graph(numbers, nodes=np.array([1, 2, 3, 9]))) == {("1", "2"), ("2", "3")}


def test_a_list_of_nodes(tmp_path: Path) -> None:
    (tmp_path / "nodes.txt").write_text("7\n2\n3\n10\n2\n")
    pq.write_table(pa.table({"node": [7, 2, 3, 10]}), tmp_path / "nodes.parquet")
    for nodes in (tmp_path / "nodes.txt", tmp_path / "nodes.parquet", [7, 2, 3, 10]):
        graph = read_graph([(10, 2), (2, 3)], nodes=nodes)
        assert graph.ids.to_pylist() == ["10", "2", "3", "7"]
        assert graph.degrees().tolist() == [1, 2, 1, 0]
        assert graph.listed


def test_empty_graphs() -> None:
    assert read_graph([]).n_nodes == 0
    assert read_graph([], nodes=["a"]).degrees().tolist() == [0]
    assert read_graph([("a", "a")]).degrees().tolist() == [0]


CANARY = "zebra-4711"


def inspect_and_read(path: Path) -> None:
    inspect_graph(path)
    read_graph(path)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (f"1 2\n{CANARY}\n3 4 5\n", r"2 lines of .* exactly two node ids \(the first is line 2\)"),
        (f"1,,2\n{CANARY},3", r"1 lines .* line 1\)"),
        (f",{CANARY}\n", "exactly two"),
        ("source target\n1 2\n", "line of column names"),
        (b"\xff\xfe 1\n", "not UTF-8"),
    ],
)
def test_bad_text(tmp_path: Path, content: str | bytes, wanted: str) -> None:
    path = tmp_path / "e.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=wanted) as caught:
        inspect_and_read(path)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("e.csv", f"{CANARY},b\n1,2\n", "no column 'source' or 'target'"),
        ("e.csv", f"source,target\n1,2\n{CANARY}\n", "another number of fields"),
        ("e.csv", "", "is empty"),
        ("e.parquet", "source,target", "not a Parquet file"),
        ("e.txt.gz", "1 2\n", "not gzip"),
        ("absent.txt", None, "does not exist"),
        ("absent.csv", None, "does not exist"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: str | None, wanted: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError, match=wanted) as caught:
        inspect_and_read(path)
    assert CANARY not in str(caught.value)


def test_a_file_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "e.txt.gz"
    path.write_bytes(gzip.compress(b"1 2\n" * 1000)[:-12])
    with pytest.raises(DataError, match="truncated"):
        read_graph(path)


@pytest.mark.parametrize(
    ("edges", "nodes", "wanted"),
    [
        ([("a", "b", "c")], None, "pair of node ids"),
        ([("a", "b"), ("c",)], None, "pair of node ids"),
        (np.zeros((3, 3)), None, r"\(3, 3\)"),
        (7, None, "not an edge list"),
        (pa.table({"source": [[1]], "target": [[2]]}), None, "lists or records"),
        (pa.table({"source": [1], "end": [2]}), None, "no column 'target'"),
    ],
)
def test_bad_values(edges: Any, nodes: Any, wanted: str) -> None:
    with pytest.raises(DataError, match=wanted) as caught:
        read_graph(edges, nodes=nodes)
    assert CANARY not in str(caught.value)


def test_all_problems_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        inspect_graph(tmp_path / "a.txt", nodes=tmp_path / "b.csv")
    assert len(caught.value.problems) == 2


def test_edges_with_a_loose_end_are_dropped() -> None:
    """Any row gives a graph: a refusal would reveal the row."""
    graph = read_graph([("a", "b"), ("a", None), (None, None), ("b", ""), (" ", "c"), ("c", "d")])
    assert as_pairs(graph) == {("a", "b"), ("c", "d")}
    assert graph.n_loose == 4
    assert "" not in graph.ids.to_pylist()
    listed = read_graph([("a", "b"), ("a", "stranger"), ("b", None)], nodes=["", "a", None, "b"])
    assert listed.ids.to_pylist() == ["a", "b"]
    assert as_pairs(listed) == {("a", "b")}
    assert listed.n_loose == 2
    nobody = read_graph([(None, "")], nodes=[None])
    assert (nobody.n_nodes, nobody.n_edges, nobody.n_loose) == (0, 0, 1)


def test_real_graphs_have_their_published_sizes(shared_data: Path) -> None:
    expected = {"fb100_Caltech36": (769, 16656, 248), "snap_email-Enron": (36692, 183831, 1383)}
    for name, facts in expected.items():
        graph = read_graph(shared_data / "graphs" / f"{name}.edges.txt.gz")
        assert (graph.n_nodes, graph.n_edges, graph.degrees().max()) == facts
