"""Dossiers for data protection officers and ethics boards: standard questions and their answers."""

from hushtable.dossier.answers import make_dossier
from hushtable.dossier.content import Dossier
from hushtable.dossier.seal import verify_dossier

__all__ = ["Dossier", "make_dossier", "verify_dossier"]
