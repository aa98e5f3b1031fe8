"""Public descriptions of columns, from which a draft takes domains instead of from the data."""

from hushtable.engine.codebook.read import Codebook, read_codebook

__all__ = ["Codebook", "read_codebook"]
