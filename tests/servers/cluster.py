"""A Spark cluster of its own: a master and workers, each a process, as the installed pyspark brings them."""

from __future__ import annotations

import json
import os
import shutil
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from penstock.engine.gateway import spark_home, worker_path
from penstock.engine.java import find_java
from tests.servers.process import Process, free_ports, listens

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
# Of what a developer has set for a Spark of their own, nothing holds here.
FOREIGN = ("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "SPARK_DAEMON_CLASSPATH")


class Cluster:
    """A master and workers of one core each, whose ports and logs stay the same when they start again."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        port, self._page, *ports = free_ports(2 + workers)
        self.url = f"spark://127.0.0.1:{port}"
        told = ["--port", str(port), "--webui-port", str(self._page)]
        self.master = Process(
            "Spark's master", self._command(MASTER, *told), folder / "master.log", self._answers
        )
        self.workers = [self._worker(number, port) for number, port in enumerate(ports)]

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all and removes what applications left; the logs stay, to be read when a test has failed."""
        self.kill()
        for number in range(len(self.workers)):
            shutil.rmtree(self._scratch(number), ignore_errors=True)

    @property
    def settings(self) -> dict[str, str]:
        """What a session must be told to fit on the workers and to stay on this machine."""
        return {
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }

    def start(self) -> None:
        """Starts what does not run; returns when the master knows all workers."""
        for process in (self.master, *self.workers):
            if not process.running:
                process.start()

    def kill(self) -> None:
        """kill -9 of all there is, executors included."""
        for number in range(len(self.workers)):
            self.kill_worker(number)
        self.master.kill()

    def restart(self) -> None:
        """Kills all and starts it again; applications that ran are lost."""
        self.kill()
        self.start()

    def kill_worker(self, number: int) -> None:
        """kill -9 of a worker, and of the executors and Pythons that it started: its machine is gone."""
        worker = self.workers[number]
        started = psutil.Process(worker.pid).children(recursive=True) if worker.running else []
        worker.kill()  # first: it would put new executors in the place of those that end
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(started)

    def executors(self, number: int) -> list[int]:
        """The process ids of the executors that a worker runs now."""
        return [p.pid for p in psutil.Process(self.workers[number].pid).children()]

    def state(self) -> Any:
        """What the master tells of workers and applications."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=30) as answer:
            return json.load(answer)

    def _worker(self, number: int, port: int) -> Process:
        told = ["--port", str(port), "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        command = self._command(WORKER, *told, "--work-dir", str(self._scratch(number) / "work"), self.url)
        log = self.folder / f"worker-{number}.log"
        return Process(f"Spark's worker {number}", command, log, lambda: self._knows(port))

    def _scratch(self, number: int) -> Path:
        return self.folder / f"worker-{number}"

    def _command(self, kind: str, *told: str) -> list[str]:
        home = spark_home()
        variables = {
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(find_java().home),
            "PYTHONPATH": os.pathsep.join(worker_path()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder),
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
        hidden = [part for name in FOREIGN for part in ("-u", name)]
        given = [f"{name}={value}" for name, value in variables.items()]
        return ["env", *hidden, *given, str(home / "bin" / "spark-class"), kind, "--host", "127.0.0.1", *told]

    def _answers(self) -> bool:
        return listens(self._page) and self.state()["status"] == "ALIVE"

    def _knows(self, port: int) -> bool:
        """Whether a worker has come to the master; one that was killed is listed for a moment longer."""
        return listens(port) and any(
            w["port"] == port and w["state"] == "ALIVE" for w in self.state()["workers"]
        )
