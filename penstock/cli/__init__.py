"""The command line: reads arguments, calls `penstock.api`, prints.

Results go to stdout; notes, summaries and errors go to stderr. With `--json` all that a program needs is on
stdout, one JSON object a line, and a failure is the last of them:
`{"error": {"code": ..., "message": ..., "at": ..., "hint": ...}}`.

Exit codes: 0 done, 1 failed while running, 2 what was written is wrong, 3 the environment is wrong,
130 stopped with Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.collecting import seldom
from penstock.cli.leaving import Leaving

__all__ = ["main"]

INTERRUPTED = 130


def main(args: Sequence[str] | None = None) -> int:
    """Runs a command line, that of the process unless given, and answers with its exit code."""
    leaving = Leaving() if args is None else None
    with seldom():
        from penstock.cli.app import main as run

        code = run(args)
        if leaving is not None:
            leaving.ends(code, at_once=code == INTERRUPTED)
    return code
