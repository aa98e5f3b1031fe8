"""The alpha-beta algorithm: method, estimators, proofs, and the baseline FRAPP."""
