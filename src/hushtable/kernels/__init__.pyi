from . import (
    anonymity_sets,
    counting,
    graph_edges,
    log_linear,
    medoids,
    nearest,
    row_exchange,
    samplers,
    split_scores,
)

EVEN: int
EVEN_UNORDERED: int
TELLING: int
POINTS: int
MOVES: dict[int, int]

__all__ = [
    "EVEN",
    "EVEN_UNORDERED",
    "MOVES",
    "POINTS",
    "TELLING",
    "anonymity_sets",
    "counting",
    "graph_edges",
    "log_linear",
    "medoids",
    "nearest",
    "row_exchange",
    "samplers",
    "split_scores",
]
