"""One file for a data protection officer or an ethics board: every question, answered or not."""

from hushtable.dossier.content import Dossier
from hushtable.dossier.make import make_dossier
from hushtable.dossier.seal import verify_dossier

__all__ = ["Dossier", "make_dossier", "verify_dossier"]
