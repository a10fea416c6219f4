"""The jobs on Kafka as Penstock statements: `statements` for a file, or jobs from stdin in one session."""

from __future__ import annotations

from pathlib import Path

from benchmarks.data import FOLDER, STREAM_COLUMNS, STREAM_FILTER, STREAM_SELECTED
from benchmarks.jobs.serve import serve

PROJECT = FOLDER / "kafka" / "penstock.yaml"
LIVE = "SET performance_profile = 'ultra_low_latency';\n"


def statements(job: str, broker: str, topic: str, target: str) -> str:
    into = f"'{target}/*.parquet'" if job == "to_parquet" else f"'kafka://{broker}/{target}'"
    if job == "to_kafka_exactly_once":
        into += " WITH (delivery_guarantee = 'exactly_once')"
    # Real-time mode has no place for dead letters.
    letters = "" if job == "live" else ", on_error = 'dead_letter'"
    return (
        f"{LIVE if job == 'live' else ''}"
        f"CREATE OR REPLACE SOURCE events ({STREAM_COLUMNS})"
        f" WITH (connector = 'kafka', bootstrap_servers = '{broker}', topic = '{topic}',"
        f" format = 'json'{letters});\n"
        f"SELECT {STREAM_SELECTED} FROM events\n"
        f"WHERE {STREAM_FILTER}\n"
        f"INTO {into};\n"
    )


def main() -> None:
    import penstock

    with penstock.Session(PROJECT) as session:

        def run(job: str, broker: str, topic: str, target: str, place: str) -> None:
            text = statements(job, broker, topic, target)
            session.run(text, name=Path(place).name, until_caught_up=True)

        serve(run)


if __name__ == "__main__":
    main()
