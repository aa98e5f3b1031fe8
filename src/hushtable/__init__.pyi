from .datasets import sample, sample_schema
from .drafting import draft
from .engine.edges import read_graph
from .errors import HushtableError
from .evaluation.evaluate import Evaluation, evaluate
from .graph.generate import generate_graph
from .methods import (
    METHODS,
    AlphaBeta,
    Columns,
    DiffGen,
    Forecast,
    GeneralizeSuppress,
    Method,
    NoisyCounts,
    Partition,
    Quilt,
    Uncertain,
)
from .methods.degrees.degrees import Degrees
from .methods.linked.linked import Linked
from .privacy.guarantee import (
    ApproxDP,
    BoundedAdversary,
    Guarantee,
    KAnonymity,
    NoGuarantee,
    PureDP,
    Threshold,
    UncertainAnonymity,
    compose,
)
from .privacy.ledger.ledger import Ledger
from .privacy.ledger.records import Decision
from .privacy.noise.sources import SecureNoise, SeededNoise
from .privacy.unit import Unit
from .publishing.publish import publish, publish_graph, publish_linked
from .query.answers import Estimate
from .release.release import Release, Statement
from .schema import Schema
from .schema.linked_schema import LinkedSchema
from .schema.taxonomy import Taxonomy
from .series import Series, SeriesPlan

__version__: str
__all__ = [
    "METHODS",
    "AlphaBeta",
    "ApproxDP",
    "BoundedAdversary",
    "Columns",
    "Decision",
    "Degrees",
    "DiffGen",
    "Estimate",
    "Evaluation",
    "Forecast",
    "GeneralizeSuppress",
    "Guarantee",
    "HushtableError",
    "KAnonymity",
    "Ledger",
    "Linked",
    "LinkedSchema",
    "Method",
    "NoGuarantee",
    "NoisyCounts",
    "Partition",
    "PureDP",
    "Quilt",
    "Release",
    "Schema",
    "SecureNoise",
    "SeededNoise",
    "Series",
    "SeriesPlan",
    "Statement",
    "Taxonomy",
    "Threshold",
    "Uncertain",
    "UncertainAnonymity",
    "Unit",
    "compose",
    "draft",
    "evaluate",
    "generate_graph",
    "publish",
    "publish_graph",
    "publish_linked",
    "read_graph",
    "sample",
    "sample_schema",
]
