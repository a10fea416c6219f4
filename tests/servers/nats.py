"""NATS: one server with JetStream, whose data is in a folder, so that it is there again after a restart."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.servers.certificate import write_certificate
from tests.servers.process import Process, free_ports, listens

USER = "penstock"
PASSWORD = "right password"  # with a space, as passwords may have

SETTINGS = """\
host: 127.0.0.1
port: {port}
jetstream {{ store_dir: "{folder}/data" }}
"""
LOGIN = """\
authorization {{ user: "{user}", password: "{password}" }}
"""
TOKEN = """\
authorization {{ token: "{password}" }}
tls {{
  cert_file: "{folder}/keystore.pem", key_file: "{folder}/keystore.pem"
  ca_file: "{folder}/certificate.pem", verify: {verify}
}}
"""


class Nats(Process):
    """A server that lets in everybody; or, when `strict`, who has the password; or, when `secure`, who comes
    with TLS, trusts `certificate`, and has the password as a token; with `verify`, with that certificate."""

    def __init__(
        self, folder: Path, *, strict: bool = False, secure: bool = False, verify: bool = False
    ) -> None:
        (self._port,) = free_ports(1)
        self.certificate, self.keystore = folder / "certificate.pem", folder / "keystore.pem"
        write_certificate(self.certificate, self.keystore)
        settings = folder / "nats.conf"
        text = SETTINGS + (LOGIN if strict else TOKEN if secure else "")
        told = {"user": USER, "password": PASSWORD, "verify": str(verify).lower()}
        settings.write_text(text.format(port=self._port, folder=folder, **told), encoding="utf-8")
        super().__init__(
            "NATS", [_program(), "-c", str(settings)], folder / "nats.log", lambda: listens(self._port)
        )

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self._port}"


def _program() -> str:
    # Debian puts it where only root looks.
    return shutil.which("nats-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or "nats-server"
