"""Privacy: guarantees, accounting, noise, mechanisms and the ledger."""
