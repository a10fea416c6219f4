"""A pytest plugin: a run in which a test was skipped, or is expected to fail, is a failed run."""

from __future__ import annotations

import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _missed(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    missed = _missed(config)
    if missed:
        terminalreporter.write_line(
            f"failed: {missed} skipped or expected to fail; every test must run", red=True
        )


def _missed(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker, which reports to another process
        return 0
    return sum(len(reporter.stats.get(kind, ())) for kind in ("skipped", "xfailed", "xpassed"))
