"""The Spark of a `Session`, and what statements need of it: jars, and extensions of its SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.config import Project
from penstock.errors import Place
from penstock.plan.nodes import Explanation, Plan, Scan, Write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LazySpark:
    """Opened when first needed; anew, if it is ours and idle, when statements need what it began without."""

    def __init__(self, given: SparkSession | None) -> None:
        self.session = given
        """Where there is one already."""
        self._is_ours = False
        self._jars: dict[str, None] = {}
        self._extensions: dict[str, None] = {}
        self._settings: dict[str, str] = {}
        if given is not None:
            from penstock.engine.session import use_this_python

            use_this_python(given)

    def open(self, project: Project, plans: Sequence[Plan], *, busy: bool) -> SparkSession:
        """The session with what `plans` need; one that is `busy` is not started anew."""
        from penstock.engine.session import close_session, is_running, lacks, open_session, require

        extensions, early = _extensions(plans), _early_jars(plans)
        if self.session is not None and lacks(self.session, extensions, early):
            if not self._is_ours or busy:
                require(self.session, extensions, early)
            # It can start anew, with all of it on the class path of its JVM.
            close_session(jvm=True)
            self.session = None
        if self.session is None:
            # What came before may come again.
            self._extensions |= dict.fromkeys(extensions)
            self._jars |= dict.fromkeys(_needed_jars(plans))
            secrets = project.secrets()
            self._is_ours = not is_running()
            self.session = open_session(
                master=project.resolved("master", secrets),
                settings={**project.resolved("spark", secrets), **self._settings},
                jars=tuple(self._jars),
                extensions=tuple(self._extensions),
            )
        return self.session

    def fresh(
        self, project: Project, plans: Sequence[Plan], plan: Plan | None = None, *, busy: bool
    ) -> SparkSession:
        """A session of its own for `plan`, or all: views and settings of one never reach another."""
        from penstock.engine.access import grant
        from penstock.engine.session import MEANING, add_jars

        fresh = self.open(project, plans, busy=busy).newSession()
        add_jars(fresh, _needed_jars(plans))
        # A session that we opened has it from the start, with the project's own settings over it.
        meaning = {} if self._is_ours else MEANING
        for key, value in {**meaning, **self._settings}.items():
            if fresh.conf.isModifiable(key):
                fresh.conf.set(key, value)
        grant(fresh, _ends((plan,) if plan else plans))
        return fresh

    def set(self, key: str, value: str, at: Place | None) -> None:
        """For the session that is open, and those to come."""
        if self.session is not None:
            from penstock.engine.build import set_conf

            set_conf(self.session, key, value, at)
        self._settings[key] = value

    def close(self) -> None:
        """Ends a session that is ours; one that was handed in goes on."""
        if self._is_ours:
            from penstock.engine.session import close_session

            close_session()
            self.session, self._is_ours = None, False


def _needed_jars(plans: Sequence[Plan]) -> tuple[str, ...]:
    """Of the connectors and formats of `plans`."""
    found: dict[str, None] = {}
    for end in _ends(plans):
        found |= dict.fromkeys(jar for connector in end.connectors for jar in connector.jars)
        found |= dict.fromkeys(end.format.jars if end.format else ())
    return tuple(found)


def _early_jars(plans: Sequence[Plan]) -> tuple[str, ...]:
    """Those of them that must be there when Spark starts."""
    found = (c for end in _ends(plans) for c in end.connectors if c.starts_with_jars)
    return tuple(dict.fromkeys(jar for connector in found for jar in connector.jars))


def _extensions(plans: Sequence[Plan]) -> tuple[str, ...]:
    """What must extend Spark's SQL for `plans`."""
    return tuple(dict.fromkeys(name for end in _ends(plans) for name in end.connector.extensions))


def _ends(plans: Sequence[Plan]) -> Iterator[Scan | Write]:
    """All that is read and written, dead letters included."""
    for plan in plans:
        node: Any = plan.plan if isinstance(plan, Explanation) else plan
        root = getattr(node, "root", None) or getattr(node, "node", None)
        scans = [root] if isinstance(root, Scan) else list(root.scans()) if root is not None else []
        for end in (*scans, *getattr(node, "sinks", ())):
            yield end
            if end.dead_letter is not None:
                yield end.dead_letter
