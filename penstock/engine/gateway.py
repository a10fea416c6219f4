"""Starts the JVM that PySpark talks to, without the launcher in between.

PySpark starts a shell script, which starts a JVM that prints the command of a second JVM. For local
masters that command is known, so it is run at once, beside the imports of Python.
"""

from __future__ import annotations

import os
import shutil
import signal
import site
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.java import Java
from penstock.errors import SetupError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

# As org.apache.spark.launcher.JavaModuleOptions has them, less the vector module: only MLlib's linear
# algebra uses it, and the JVM prints a warning for it.
MODULE_OPTIONS = (
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio",
            "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref",
            "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar",
        )
    ),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
)  # fmt: skip

MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"


@dataclass(frozen=True)
class Launch:
    """What makes one JVM differ from another."""

    java: Java
    jars: tuple[Path, ...] = ()
    """Beside Spark's own."""
    flags: tuple[str, ...] = ()

    @cached_property
    def class_path(self) -> tuple[Path, ...]:
        """Spark's jars first and in one order: an archive of classes fits only the order it was made with."""
        return (*sorted((spark_home() / "jars").glob("*.jar")), *self.jars)

    def command(self, *more: str) -> list[str]:
        path = os.pathsep.join(map(str, self.class_path))
        # Warnings of the JVM, such as those about an archive that does not fit, are not the user's concern.
        quiet = ("-Xlog:disable", "-Xlog:all=error:stderr")
        return [
            str(self.java.command), "-cp", path, "-XX:+IgnoreUnrecognizedVMOptions",
            *MODULE_OPTIONS, *quiet, *log_flags(), *self.flags, *more, MAIN_CLASS,
        ]  # fmt: skip


def log_flags() -> tuple[str, ...]:
    """What Spark's driver prints: errors, or as much as PENSTOCK_LOG asks for."""
    level = os.environ.get("PENSTOCK_LOG")
    wish = (f"-Dpenstock.log={level}",) if level else ()
    return (f"-Dlog4j2.configurationFile={LOG_SETTINGS}", *wish)


def spark_home() -> Path:
    """The folder of the installed pyspark, found without importing it."""
    found = find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SetupError("no-pyspark", "pyspark is not installed", hint="install Penstock again with pip")
    return Path(found.submodule_search_locations[0])


class Starting:
    """A JVM that was started and may not listen yet."""

    def __init__(self, launch: Launch, *more: str, python: str = sys.executable) -> None:
        self.launch = launch
        self.more = more
        self._gateway: JavaGateway | None = None
        self._folder = tempfile.mkdtemp(prefix="penstock-")
        self._answer = Path(self._folder, "connection")
        self.process = subprocess.Popen(
            launch.command(*more),
            stdin=subprocess.PIPE,  # the JVM ends when this pipe does, that is, with Python
            env=_environment(self._answer, python),
            # Ctrl-C is for Python, which then tells Spark.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )

    def connect(self) -> JavaGateway:
        """Waits until it listens."""
        from pyspark.java_gateway import launch_gateway

        port, secret = self._wait()
        with environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
            self._gateway = launch_gateway()  # type: ignore[no-untyped-call]
        return self._gateway

    def adopt(self) -> None:
        """Makes it the JVM of this process's PySpark."""
        from pyspark import SparkContext

        SparkContext._ensure_initialized(gateway=self.connect())

    def end(self) -> int:
        """Ends it, waits until it is gone, and gives its exit code."""
        if self._gateway is not None:
            from pyspark import SparkContext

            if SparkContext._gateway is self._gateway:
                SparkContext._gateway = SparkContext._jvm = None
            self._gateway.shutdown()
        else:
            self.process.kill()  # it would first finish its start
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return self.process.wait()

    def _wait(self) -> tuple[int, str]:
        try:
            while not self._answer.is_file():
                if self.process.poll() is not None:
                    raise SetupError(
                        "spark-not-started",
                        f"Java ended with code {self.process.returncode} before Spark was there",
                        hint="see the lines above; `penstock doctor` looks at Java, memory and settings",
                    )
                time.sleep(0.005)
            data = self._answer.read_bytes()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        port, length = struct.unpack_from("!ii", data)
        return port, data[8 : 8 + length].decode()


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Sets environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _environment(answer: Path, python: str) -> Mapping[str, str]:
    """The JVM's variables.

    Without SPARK_HOME, Python workers import the installed pyspark, whose bytecode is there, and not the
    copy in pyspark.zip, which is compiled anew in each worker. Of Arrow's allocators, jemalloc gives back
    most of what a worker no longer uses.
    """
    return {
        **({"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"} if sys.platform == "linux" else {}),
        **os.environ,
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
        "SPARK_CONNECT_MODE": "0",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "PYTHONPATH": os.pathsep.join(worker_path()),
    }


def worker_path() -> list[str]:
    """PYTHONPATH for workers: with the folders of Penstock and pyspark when they are not installed.

    A site-packages folder is never put there: it would come before the standard library.
    """
    installed = {str(Path(p).resolve()) for p in (*site.getsitepackages(), site.getusersitepackages())}
    ours = [Path(__file__).resolve().parents[2], spark_home().resolve().parent]
    before = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return list(dict.fromkeys([*before, *(str(p) for p in ours if str(p) not in installed)]))
