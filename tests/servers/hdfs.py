"""HDFS: a name node and a data node in one process."""

from __future__ import annotations

from pathlib import Path

from penstock.engine.java import find_java
from tests.servers import maven
from tests.servers.process import Process, free_ports

VERSION = "3.4.2"
MAIN = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"


class Hdfs(Process):
    """A file system of one copy; who starts it may do all."""

    def __init__(self, folder: Path, *, heap: str = "256m") -> None:
        self._port, web = free_ports(2)
        self._details = folder / "details.json"
        jars = maven.jars(f"hdfs-{VERSION}", [f"org.apache.hadoop:hadoop-client-minicluster:{VERSION}"])
        command = [
            str(find_java().command),
            *(f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dtest.build.data={folder}"),
            *("-cp", f"{jars}/*", MAIN, "-nomr", "-format", "-datanodes", "1"),
            *("-nnport", str(self._port), "-nnhttpport", str(web), "-writeDetails", str(self._details)),
        ]
        super().__init__("HDFS", command, folder / "hdfs.log", self._details.exists)

    @property
    def address(self) -> str:
        """host:port, as it stands in a URI."""
        return f"127.0.0.1:{self._port}"
