"""Penstock from Python: `penstock.run("SELECT ...")`, or a `Session` for more than one statement.

A text is checked whole before anything in it runs. Its statements then run in order.
"""

from penstock.api.outcomes import Checked, Done, Inspected, Outcome, Physical, Ran, Started, Table, Text
from penstock.api.pipeline import Pipeline
from penstock.api.session import Running, Session, run

__all__ = [
    "Checked", "Done", "Inspected", "Outcome", "Physical", "Pipeline", "Ran", "Running", "Session", "Started",
    "Table", "Text", "run",
]  # fmt: skip
