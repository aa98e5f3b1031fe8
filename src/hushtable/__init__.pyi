from .datasets import sample, sample_schema
from .engine.drafting import draft
from .engine.edges import read_graph
from .errors import HushtableError
from .estimate import Estimate
from .evaluation.evaluate import Evaluation, evaluate
from .graph.generate import generate_graph
from .linked.linked import Linked
from .linked.publish import publish_linked
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
from .pipeline import publish, publish_graph
from .privacy.decision import Decision
from .privacy.guarantee import (
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
from .privacy.ledger import Ledger
from .privacy.secure_noise import SecureNoise
from .privacy.seeded_noise import SeededNoise
from .release import Release, Statement
from .schema import Schema
from .schema.linked import LinkedSchema
from .series import Series, SeriesPlan
from .taxonomy import Taxonomy

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
