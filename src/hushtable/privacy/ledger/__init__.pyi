from .ledger import Ledger
from .payment import Payment
from .records import Decision

__all__ = [
    "Decision",
    "Ledger",
    "Payment",
]
