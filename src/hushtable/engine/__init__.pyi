from .base import Engine
from .cells import Counts, OccupiedCells
from .door import EngineName, PrivateTable, connect, open
from .header import Data
from .memory import MemoryEngine
from .rule_breaks import RuleBreak
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
