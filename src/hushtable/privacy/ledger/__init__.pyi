from .decision import Decision
from .ledger import Ledger
from .payment import Payment

__all__ = [
    "Decision",
    "Ledger",
    "Payment",
]
