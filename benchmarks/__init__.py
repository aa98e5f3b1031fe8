"""Speed, scale, coverage and the papers' figures, as ratios; see each module's own words."""

import sys
from pathlib import Path

# Generated tables are those of the tests, which know each other by their plain names.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
