from . import (
    anonymity_sets,
    counting,
    graph_edges,
    log_linear,
    medoids,
    nearest,
    ratings,
    row_exchange,
    samplers,
    split_scores,
)

__all__ = [
    "anonymity_sets",
    "counting",
    "graph_edges",
    "log_linear",
    "medoids",
    "nearest",
    "ratings",
    "row_exchange",
    "samplers",
    "split_scores",
]
