from .cells import Counts, OccupiedCells
from .engine import Engine
from .memory_engine import MemoryEngine
from .open_table import EngineName, PrivateTable, connect, open
from .rule_breaks import RuleBreak
from .sources.header import Data
from .sql_engine import SqlEngine

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
