from .base import Engine, RuleBreak
from .cells import Counts, OccupiedCells
from .door import EngineName, PrivateTable, connect, open
from .header import Data
from .memory import MemoryEngine
from .sql.engine import SqlEngine

__all__ = [
    "Counts",
    "Data",
    "Engine",
    "EngineName",
    "MemoryEngine",
    "OccupiedCells",
    "PrivateTable",
    "RuleBreak",
    "SqlEngine",
    "connect",
    "open",
]
