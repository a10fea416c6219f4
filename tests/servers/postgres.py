"""PostgreSQL: one server, which asks for a password."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.servers.process import Process, free_ports

USER = "penstock"
PASSWORD = "right password"  # with a space, as passwords may have
_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
_SYSTEM_USER = "postgres"


class Postgres(Process):
    """It does not run as root: then it runs as the user that its package has made, in a folder of that."""

    def __init__(self, folder: Path) -> None:
        (self._port,) = free_ports(1)
        self._data = Path(tempfile.mkdtemp(prefix="postgres-"))
        password = self._data / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            owner = pwd.getpwnam(_SYSTEM_USER)
            for path in (self._data, password):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        store = str(self._data / "store")
        made = [_program("initdb"), "-D", store, "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}"]
        subprocess.run([*self._as_its_user(), *made, "-N"], check=True, capture_output=True, cwd=self._data)
        settings = ("listen_addresses=127.0.0.1", f"unix_socket_directories={self._data}", "fsync=off")
        command = [
            *self._as_its_user(),
            *(_program("postgres"), "-D", store, "-p", str(self._port)),
            *(word for setting in settings for word in ("-c", setting)),
        ]
        super().__init__("PostgreSQL", command, folder / "postgres.log", self._answers)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        shutil.rmtree(self._data, ignore_errors=True)

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self._port}"

    def query(self, text: str) -> list[list[str]]:
        """What its own client is answered, as texts."""
        command = [_program("psql"), "-h", "127.0.0.1", "-p", str(self._port), "-AtF\t", "-c", text]
        environment = {**os.environ, "PGUSER": USER, "PGPASSWORD": PASSWORD, "PGDATABASE": "postgres"}
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def _answers(self) -> bool:
        try:
            return self.query("SELECT 1") == [["1"]]
        except subprocess.CalledProcessError:
            return False

    def _as_its_user(self) -> Sequence[str]:
        if os.geteuid() != 0:
            return ()
        return ("setpriv", f"--reuid={_SYSTEM_USER}", f"--regid={_SYSTEM_USER}", "--clear-groups", "--")


def _program(name: str) -> str:
    return str(_PLACES[0] / name)
