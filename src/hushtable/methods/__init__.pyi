from ._registry import METHODS
from .alpha_beta import AlphaBeta
from .base import Forecast, Method, Released
from .baselines.condensation import Condensation
from .baselines.contingency_table import ContingencyTable
from .baselines.frapp import Frapp
from .baselines.top_down_specialization import TopDownSpecialization
from .columns import Columns
from .diffgen import DiffGen
from .generalize_suppress import GeneralizeSuppress
from .noisy_counts import NoisyCounts
from .partition import Partition
from .quilt import Quilt
from .uncertain import Uncertain

__all__ = [
    "METHODS",
    "AlphaBeta",
    "Columns",
    "Condensation",
    "ContingencyTable",
    "DiffGen",
    "Forecast",
    "Frapp",
    "GeneralizeSuppress",
    "Method",
    "NoisyCounts",
    "Partition",
    "Quilt",
    "Released",
    "TopDownSpecialization",
    "Uncertain",
]
