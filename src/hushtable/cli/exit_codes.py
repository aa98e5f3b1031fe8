"""Exit codes of commands; docs/command-line.md has the same table."""

from __future__ import annotations

DONE = 0
REFUSED = 1
WRONG_USAGE = 2
NOT_TESTED = 3
INTERRUPTED = 130
TERMINATED = 143

MEANING = {
    DONE: "done; a warning on standard error if a step after a complete release failed",
    REFUSED: "refused, failed, or a check that does not hold; one message on standard error",
    WRONG_USAGE: "wrong usage: an unknown or impossible option or argument",
    NOT_TESTED: "an audit that found no violation and left a promise untested",
    INTERRUPTED: "interrupted (Ctrl-C); standard error says whether anything was charged",
    TERMINATED: "terminated (SIGTERM); the same",
}
