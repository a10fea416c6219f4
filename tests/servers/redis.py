"""Redis: one server, whose data is in a file, so that it is there again after a restart."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import redis

from tests.servers.certificate import write_certificate
from tests.servers.process import Process, free_ports, listens

USER = "reader"
PASSWORD = "right password"  # with a space, as passwords may have


class Redis(Process):
    """A server that lets in everybody, and a user with a password who may use the keys `mine*` alone."""

    def __init__(self, folder: Path) -> None:
        self._port, self._secure_port = free_ports(2)
        self.certificate = folder / "certificate.pem"
        keystore = folder / "keystore.pem"
        write_certificate(self.certificate, keystore)
        command = [
            *("redis-server", "--bind", "127.0.0.1", "--port", str(self._port), "--dir", str(folder)),
            # With everysec, a server that is killed may lose what it has answered for, when the disk is busy.
            *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
            *("--tls-port", str(self._secure_port), "--tls-auth-clients", "no"),
            *("--tls-cert-file", str(keystore), "--tls-key-file", str(keystore)),
            *("--user", USER, "on", f"#{_hashed(PASSWORD)}", "~mine*", "+@all"),
        ]
        super().__init__("Redis", command, folder / "redis.log", self._answers)

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self._port}"

    @property
    def secure_address(self) -> str:
        """host:port for who comes with TLS, and trusts `certificate`."""
        return f"127.0.0.1:{self._secure_port}"

    def client(self) -> redis.Redis:
        """A client that knows nothing of Penstock."""
        return redis.Redis(port=self._port, host="127.0.0.1")

    def _answers(self) -> bool:
        if not listens(self._port):
            return False
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


def _hashed(password: str) -> str:
    return sha256(password.encode()).hexdigest()
