"""One file per method, each with its proof beside it."""

from hushtable.methods.alpha_beta import AlphaBeta
from hushtable.methods.base import Forecast, Method, Released
from hushtable.methods.baselines.condensation import Condensation
from hushtable.methods.baselines.contingency_table import ContingencyTable
from hushtable.methods.baselines.frapp import Frapp
from hushtable.methods.baselines.top_down_specialization import TopDownSpecialization
from hushtable.methods.columns import Columns
from hushtable.methods.diffgen import DiffGen
from hushtable.methods.generalize_suppress import GeneralizeSuppress
from hushtable.methods.noisy_counts import NoisyCounts
from hushtable.methods.partition import Partition
from hushtable.methods.uncertain import Uncertain

METHODS: dict[str, type[Method]] = {
    kind.name: kind
    for kind in (
        AlphaBeta,
        Columns,
        Condensation,
        ContingencyTable,
        DiffGen,
        Frapp,
        GeneralizeSuppress,
        NoisyCounts,
        Partition,
        TopDownSpecialization,
        Uncertain,
    )
}
"""Every method by the name it has on the command line."""

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
    "Released",
    "TopDownSpecialization",
    "Uncertain",
]
