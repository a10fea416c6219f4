"""The only place that builds a SparkSession."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine import archive
from penstock.engine.gateway import Launch, Starting, environment, log_flags, spark_home
from penstock.engine.jars import fetch, jar_path
from penstock.engine.java import find_java
from penstock.engine.later import load_later
from penstock.engine.machine import cores, jvm_flags
from penstock.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HIDDEN = (
    r"(?i)secret|passw|passphrase|token|authorization|jaas|\bcredential\b"
    r"|(access|account|private|api|encryption|sas)[._-]?key"
)
"""Names of settings whose values Spark is not to show; its own list has neither Azure's nor Google's keys."""

MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Invariant 8: Spark shows the options of its sources and sinks in plans and on its page.
    "spark.sql.redaction.string.regex": r'password=(?:"(?:[^"\\]|\\.)*"|[^\s,}\])]*)'
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*",
    "spark.sql.redaction.options.regex": f"{_HIDDEN}|url",
}
"""What statements mean must not depend on where they run: set in every session, also in others' own."""

DEFAULTS = {
    "spark.redaction.regex": _HIDDEN,
    "spark.ui.showConsoleProgress": "false",
    # What a Python worker gets at once. Spark's 10,000 rows take 30 to 60 MB more, and up to 9 % less time.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    # What is kept in memory of work that is over; Spark's thousand plans would fill it while a stream runs.
    "spark.sql.ui.retainedExecutions": "50",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    # A merge has more than Spark's hundred generated classes: each batch would compile them all again.
    "spark.sql.codegen.cache.maxEntries": "500",
}
"""Only of a Spark that is ours."""

_EXTENSIONS = "spark.sql.extensions"
_LONGEST_SOCKET_FOLDER = 60
"""A path of a socket has at most 103 bytes, and Spark's names have 42."""

# Variables and settings that only spark-submit understands.
_SUBMIT_VARIABLES = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "SPARK_HOME",
                     "SPARK_CONF_DIR", "SPARK_REMOTE", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR")  # fmt: skip
_SUBMIT_SETTINGS = re.compile(
    r"spark\.(jars|files|archives|submit|remote|driver\.extra|driver\.default|driver\.userClassPath).*"
)

_lock = threading.RLock()
_started: Starting | None = None
_ours: SparkSession | None = None
_shared: tuple[Path, ...] = ()
"""Jars that the driver and all workers have from the start of Spark."""


def prepare(
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    jars: Sequence[str] = (),
    extensions: Sequence[str] = (),
    short: bool = False,
) -> None:
    """Starts the JVM beside whatever Python does until `open_session`; does nothing where there is one.

    Call it as soon as it is certain that Spark will be needed. `jars` and `extensions` are those that are
    likely to be; while a jar is not there yet, nothing is started, since a JVM is needed to fetch it.
    """
    global _started
    paths = [jar_path(coordinate) for coordinate in jars]
    with _lock:
        wanted = _started is None and not _has_jvm() and all(path.is_file() for path in paths)
        if wanted and _direct(master, settings or {}):
            launch = _launch(master, settings or {}, paths, extensions, short)
            _started = Starting(launch, *archive.use(launch))


def open_session(
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    jars: Sequence[str] = (),
    extensions: Sequence[str] = (),
    app_name: str = "penstock",
    short: bool = False,
) -> SparkSession:
    """A session with `settings` over our defaults and `jars` (Maven coordinates) on its class path.

    Inside a process that has a SparkSession it is a new session of that one: settings that are fixed when
    Spark starts are then refused, unless they are as asked. `short` suits work of a few seconds: code is
    compiled quickly, not well.
    """
    global _ours
    settings = {key: str(value) for key, value in (settings or {}).items()}
    with _lock:
        existing = _running()
        if existing is not None:
            require(existing, extensions)
            return _within(existing, settings, jars)
        if extensions:
            own = filter(None, settings.get(_EXTENSIONS, "").split(","))
            settings[_EXTENSIONS] = ",".join(dict.fromkeys([*own, *extensions]))
        find_java()
        load_later("pandas")
        if _direct(master, settings):
            session = _open_direct(master, settings, jars, extensions, app_name, short)
        else:
            session = _open_submit(master, settings, jars, app_name)
        _ours = session
        return session


def lacks(session: SparkSession, extensions: Sequence[str], jars: Sequence[str] = ()) -> bool:
    """Whether Spark was started without some of these extensions of its SQL, or by us without these jars."""
    if _started is not None and not set(fetch(jars)) <= set(_started.launch.jars):
        return True
    there = (session.sparkContext.getConf().get(_EXTENSIONS) or "").split(",")
    return not set(extensions) <= {name.strip() for name in there}


def require(session: SparkSession, extensions: Sequence[str], jars: Sequence[str] = ()) -> None:
    """Raises when Spark `lacks` something."""
    if lacks(session, (), jars):
        raise SetupError(
            "setting-too-late",
            f"Spark runs already, and was started without {', '.join(jars)}",
            hint="begin with the statement that needs them, or wait until nothing else runs",
        )
    if lacks(session, extensions):
        raise SetupError(
            "setting-too-late",
            f"Spark runs already, and was started without {_EXTENSIONS} = {','.join(extensions)}",
            hint="set it where the SparkSession is made, or give Penstock a process of its own",
        )


def close_session(*, jvm: bool = False) -> None:
    """Stops Spark if `open_session` started it.

    The JVM stays for the next session and ends by itself with this process; `jvm` ends it now and waits.
    """
    global _ours, _started
    with _lock:
        if _ours is not None:
            session, _ours = _ours, None
            context = session.sparkContext
            server = context._accumulatorServer
            context._accumulatorServer = None  # type: ignore[assignment]
            session.stop()
            # It polls, for up to a second; PySpark would wait for that.
            ending = threading.Thread(target=server.shutdown, daemon=True)
            ending.start()
            if jvm and _started is not None:
                ending.join()  # else it complains of the JVM that is gone
                _started.end()
                _started = None


def own_processes() -> tuple[int, ...]:
    """The JVM that this process started, which outlives it by some seconds when it is killed."""
    if _started is not None:
        return (_started.process.pid,)
    # spark-submit becomes the JVM, under the same id.
    submitted = getattr(_ours.sparkContext._gateway, "proc", None) if _ours is not None else None
    return (submitted.pid,) if submitted is not None else ()


def abandon() -> None:
    """Ends the JVM that `prepare` started, when nothing came to need it."""
    global _started
    with _lock:
        if _started is not None and not _has_jvm():
            _started.end()
            _started = None


def is_running() -> bool:
    """Whether Spark runs in this process, whoever started it."""
    return _running() is not None


def _has_jvm() -> bool:
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._gateway is not None


def _running() -> SparkSession | None:
    """The session of a Spark that runs in this process, ours or not."""
    if not _has_jvm():
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _within(existing: SparkSession, settings: Mapping[str, str], jars: Sequence[str]) -> SparkSession:
    use_this_python(existing)
    session = existing.newSession()
    for key, value in {**MEANING, **settings}.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
        elif key in settings and existing.sparkContext.getConf().get(key) != value:
            raise SetupError(
                "setting-too-late",
                f"'{key}' can only be set before Spark starts, and it runs already",
                hint="set it where the SparkSession is made, or give Penstock a process of its own",
            )
    add_jars(session, jars)
    return session


def use_this_python(session: SparkSession) -> None:
    """Lets local workers be this Python, which has Penstock, unless another one was chosen.

    Spark's own choice is the first `python3` of the PATH.
    """
    context = session.sparkContext
    settings = ("spark.pyspark.python", "spark.pyspark.driver.python")
    chosen = any(os.environ.get(name) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")) or any(
        context.getConf().get(key) for key in settings
    )
    if context._jsc.isLocal() and not chosen:
        context.pythonExec = sys.executable


def add_jars(session: SparkSession, jars: Sequence[str]) -> None:
    """Adds jars to a session that runs already; those it started with are there.

    Spark shows an added jar to this thread only, and to those that `see_jars` afterwards.
    """
    for path in fetch(jars):
        if path not in _shared:
            session.sql(f"ADD JAR '{path}'")


def see_jars(session: Any) -> None:
    """Lets this thread, and those that it starts, find what is in the jars that were added to a session."""
    loader = session._jsparkSession.artifactManager().classloader()
    session._jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)


def _direct(master: str, settings: Mapping[str, str]) -> bool:
    """Whether the JVM can be started without spark-submit: local, and nothing asks for its help."""
    return (
        os.name == "posix"
        and re.fullmatch(r"local(\[.*\])?", master) is not None
        and not any(os.environ.get(name) for name in _SUBMIT_VARIABLES)
        and not any(_SUBMIT_SETTINGS.fullmatch(key) for key in settings)
        and not (spark_home() / "conf").exists()
    )


def _launch(
    master: str, settings: Mapping[str, str], jars: Iterable[Path], extensions: Sequence[str], short: bool
) -> Launch:
    # What extends Spark's SQL are formats of tables.
    flags = jvm_flags(master, settings.get("spark.driver.memory"), short=short, tables=bool(extensions))
    return Launch(find_java(), tuple(jars), flags)


def _open_direct(
    master: str,
    settings: Mapping[str, str],
    jars: Sequence[str],
    extensions: Sequence[str],
    app_name: str,
    short: bool,
) -> SparkSession:
    global _started, _shared
    paths = fetch(jars)
    if _started is not None and not set(paths) <= set(_started.launch.jars):
        # Only on the class path are jars seen by every thread and every session.
        _started.end()
        _started = None
    if _started is None and not _has_jvm():
        launch = _launch(master, settings, paths, extensions, short)
        _started = Starting(launch, *archive.use(launch))
    if _started is not None and not _has_jvm():
        _started = _adopt(_started)
    _shared = _started.launch.jars if _started is not None else ()
    session = local_session(master, settings, app_name)
    add_jars(session, jars)
    return session


def _adopt(starting: Starting) -> Starting:
    """Waits for a JVM; one that dies of its archive is started again without."""
    try:
        starting.adopt()
    except SetupError:
        if not starting.more:
            raise
        archive.forget(starting.more)
        starting = Starting(starting.launch)
        starting.adopt()
    return starting


def local_session(master: str, settings: Mapping[str, str], app_name: str) -> SparkSession:
    """A session in the JVM that is there."""
    defaults = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(cores(master)),
        "spark.python.daemon.module": "penstock.engine.daemon",
    }
    if settings.get("spark.sql.catalogImplementation") != "hive":
        # A metastore would remember it.
        defaults["spark.sql.warehouse.dir"] = _folder("warehouse")
    sockets = _folder("sockets")
    if len(sockets) <= _LONGEST_SOCKET_FOLDER:
        # Over TCP each task waits 40 ms for an answer that the other side holds back.
        defaults["spark.python.unix.domain.socket.enabled"] = "true"
        defaults["spark.python.unix.domain.socket.dir"] = sockets
    return _build(master, {**defaults, **settings}, app_name)


def _open_submit(
    master: str, settings: Mapping[str, str], jars: Sequence[str], app_name: str
) -> SparkSession:
    global _shared
    abandon()
    paths = fetch(jars)
    # A JVM that is there keeps the class path that it has.
    _shared = tuple(path for path in paths if not _has_jvm() or path in _shared)
    files = [*filter(None, settings.get("spark.jars", "").split(",")), *map(str, paths)]
    more = {"spark.jars": ",".join(files)} if files else {}
    options = [os.environ.get("SPARK_SUBMIT_OPTS", ""), *(f'"{flag}"' for flag in log_flags())]
    with environment(SPARK_SUBMIT_OPTS=" ".join(options).strip()):
        session = _build(master, {**settings, **more}, app_name)
    add_jars(session, jars)
    return session


def _build(master: str, settings: Mapping[str, str], app_name: str) -> SparkSession:
    from pyspark.sql import SparkSession

    python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in {**MEANING, **DEFAULTS, **settings}.items():
        builder = builder.config(key, value)
    with environment(PYSPARK_PYTHON=python), _own_interrupt():
        session = builder.getOrCreate()
    _silence()
    return session


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keeps a handler of Ctrl-C that the program has set; PySpark puts its own in place of any."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if before is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def _silence() -> None:
    """PySpark logs, as JSON on stderr, each exception that it also raises."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _folder(name: str) -> str:
    """A folder for what nobody keeps, that Spark would put into the current folder or leave behind."""
    folder = tempfile.mkdtemp(prefix=f"penstock-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
