from . import (
    anonymity,
    cover,
    field,
    marginals,
    nearest,
    pairs,
    pam,
    projection,
    ratings,
    regions,
    samplers,
)

__all__ = [
    "anonymity",
    "cover",
    "field",
    "marginals",
    "nearest",
    "pairs",
    "pam",
    "projection",
    "ratings",
    "regions",
    "samplers",
]
