"""The job as Penstock statements: `statements` for the command line, or jobs from stdin in one session."""

from __future__ import annotations

import penstock
from benchmarks.data import COLUMNS
from benchmarks.jobs.serve import serve


def statements(kind: str, source: str, target: str) -> str:
    return (
        f"CREATE OR REPLACE SOURCE events ({COLUMNS[kind]})"
        f" WITH (connector = 'files', path = '{source}', format = '{kind}');\n"
        "SELECT id, user_id, event, amount, country FROM events\n"
        "WHERE amount > 250 AND event IN ('purchase', 'refund')\n"
        f"INTO '{target}/*.parquet' WITH (mode = 'overwrite');\n"
    )


def main() -> None:
    with penstock.Session() as session:
        session.spark()
        serve(lambda *words: session.run(statements(*words), name="bench"))


if __name__ == "__main__":
    main()
