"""Codebooks: public descriptions of columns that give a draft its domains."""

from hushtable.engine.codebook.read import Codebook, read_codebook

__all__ = ["Codebook", "read_codebook"]
