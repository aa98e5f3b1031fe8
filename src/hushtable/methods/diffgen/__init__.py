"""DiffGen with its estimator and proofs, and the baselines it is compared with."""
