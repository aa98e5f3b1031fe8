from .base import Engine, RuleBreak
from .cells import Cells, Counts
from .door import EngineName, PrivateTable, connect, open
from .header import Data
from .memory import MemoryEngine
from .sql.engine import SqlEngine

__all__ = [
    "Cells",
    "Counts",
    "Data",
    "Engine",
    "EngineName",
    "MemoryEngine",
    "PrivateTable",
    "RuleBreak",
    "SqlEngine",
    "connect",
    "open",
]
