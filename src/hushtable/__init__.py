"""Publish tables about people with a privacy promise that is written down and checked."""

from hushtable.datasets import sample, sample_schema
from hushtable.draft import draft
from hushtable.errors import HushtableError
from hushtable.estimate import Estimate
from hushtable.graph.generate import generate_graph
from hushtable.graph.publish import publish_graph
from hushtable.graph.read import read_graph
from hushtable.methods import (
    METHODS,
    AlphaBeta,
    Columns,
    DiffGen,
    Forecast,
    GeneralizeSuppress,
    Method,
    NoisyCounts,
    Partition,
    Uncertain,
)
from hushtable.methods.degrees import Degrees
from hushtable.pipeline import publish
from hushtable.privacy.guarantee import (
    ApproxDP,
    BoundedAdversary,
    Guarantee,
    KAnonymity,
    NoGuarantee,
    PureDP,
    Threshold,
    UncertainAnonymity,
    Unit,
    compose,
)
from hushtable.privacy.ledger import Ledger
from hushtable.privacy.noise import SecureNoise, SeededNoise
from hushtable.release import Release, Statement
from hushtable.schema import Schema
from hushtable.taxonomy import Taxonomy

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "AlphaBeta",
    "ApproxDP",
    "BoundedAdversary",
    "Columns",
    "Degrees",
    "DiffGen",
    "Estimate",
    "Forecast",
    "GeneralizeSuppress",
    "Guarantee",
    "HushtableError",
    "KAnonymity",
    "Ledger",
    "Method",
    "NoGuarantee",
    "NoisyCounts",
    "Partition",
    "PureDP",
    "Release",
    "Schema",
    "SecureNoise",
    "SeededNoise",
    "Statement",
    "Taxonomy",
    "Threshold",
    "Uncertain",
    "UncertainAnonymity",
    "Unit",
    "compose",
    "draft",
    "generate_graph",
    "publish",
    "publish_graph",
    "read_graph",
    "sample",
    "sample_schema",
]
