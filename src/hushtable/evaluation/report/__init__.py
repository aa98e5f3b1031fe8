"""Pages and drawings, made from the numbers of an evaluation and nothing else."""
