"""Pulsar: broker and storage in one process; the data is in a folder, and there again after a restart."""

from __future__ import annotations

import base64
import hmac
import json
import shutil
import urllib.request
from pathlib import Path
from typing import Any

from penstock.engine.java import find_java
from tests.servers import maven
from tests.servers.certificate import write_certificate
from tests.servers.process import Process, free_ports, listens

VERSION = "4.0.8"
ARCHIVE = f"org.apache.pulsar:pulsar-server-distribution:{VERSION}:tar.gz:bin"
SECRET = b"a key with which tests sign their tokens"

# Members of groups follow each other quickly, and what is acknowledged is kept at once.
SETTINGS = """
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
brokerServicePort={broker}
brokerServicePortTls={broker_tls}
webServicePort={web}
webServicePortTls={web_tls}
tlsCertificateFilePath={folder}/certificate.pem
tlsKeyFilePath={folder}/key.pem
authenticationEnabled=true
authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken
tokenSecretKey=data:;base64,{secret}
brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken
brokerClientAuthenticationParameters=token:{token}
acknowledgmentAtBatchIndexLevelEnabled=true
activeConsumerFailoverDelayTimeMillis=100
managedLedgerDefaultMarkDeleteRateLimit=0
numIOThreads=2
numHttpServerThreads=8
dbStorage_writeCacheMaxSizeMb=16
dbStorage_readAheadCacheMaxSizeMb=16
dbStorage_rocksDB_blockCacheSize=8388608
managedLedgerCacheSizeMB=16
"""
LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %p %m (%c)%n%throwable
"""
OPENED = (
    *("java.io", "java.util.zip", "java.nio", "jdk.internal.misc", "jdk.internal.platform"),
    *("sun.management", "com.sun.management.internal"),
)
MODULES = {"sun.management": "java.management", "com.sun.management.internal": "jdk.management"}
PORTS = ("broker", "broker_tls", "web", "web_tls", "bookkeeper")


class Pulsar(Process):
    """A server that lets in who has one of its tokens."""

    def __init__(self, folder: Path, *, heap: str = "256m") -> None:
        self.folder = folder
        self._ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        (home,) = maven.unpacked(f"pulsar-{VERSION}", ARCHIVE).iterdir()
        self.certificate = folder / "certificate.pem"
        write_certificate(self.certificate, folder / "key.pem")
        secret = base64.b64encode(SECRET).decode()
        settings = SETTINGS.format(**self._ports, folder=folder, secret=secret, token=token())
        config = folder / "standalone.conf"
        config.write_text((home / "conf" / "standalone.conf").read_text(encoding="utf-8") + settings)
        (folder / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        drivers = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
        command = [
            str(find_java().command),
            *("-Xms64m", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=256m"),
            *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"--add-opens={MODULES.get(name, 'java.base')}/{name}=ALL-UNNAMED" for name in OPENED),
            *("-Djava.net.preferIPv4Stack=true", "-Dio.netty.tryReflectionSetAccessible=true"),
            f"-Dbookkeeper.metadata.bookie.drivers={drivers}BookieDriver",
            f"-Dbookkeeper.metadata.client.drivers={drivers}ClientDriver",
            f"-Dlog4j2.configurationFile={folder}/log4j2.properties",
            *("-cp", f"{home}/lib/*", "org.apache.pulsar.PulsarStandaloneStarter"),
            *("--config", str(config), "-nfw", "-nss", "-a", "127.0.0.1"),
            *("--metadata-dir", f"{folder}/data/metadata", "--bookkeeper-dir", f"{folder}/data/bookkeeper"),
            *("--bookkeeper-port", str(self._ports["bookkeeper"])),
        ]
        super().__init__("Pulsar", command, folder / "pulsar.log", self._answers)

    def __exit__(self, *_: object) -> None:
        """Ends it and removes the data; the log stays, to be read when a test has failed."""
        super().__exit__()
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self._ports['broker']}"

    @property
    def secure_address(self) -> str:
        """host:port for who comes with TLS, and trusts `certificate`."""
        return f"127.0.0.1:{self._ports['broker_tls']}"

    @property
    def admin(self) -> str:
        """Where the REST API is."""
        return f"http://127.0.0.1:{self._ports['web']}"

    @property
    def secure_admin(self) -> str:
        return f"https://127.0.0.1:{self._ports['web_tls']}"

    @property
    def query(self) -> str:
        """What stands in the query of a URI, to be let in."""
        return f"?admin={self.admin}&token={token()}"

    def call(self, method: str, path: str, body: object = None) -> Any:
        """What the REST API answers to who knows nothing of Penstock."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token()}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.admin}/admin/v2/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith((b"{", b"[")) else text

    def _answers(self) -> bool:
        if not listens(self._ports["broker"]):
            return False
        try:
            self.call("GET", "brokers/health")
            self.call("GET", "namespaces/public/default")  # is made last
        except OSError:
            return False
        return True


def token(secret: bytes = SECRET) -> str:
    """What lets in; with another secret, what does not."""
    parts = [_encoded(json.dumps(part).encode()) for part in ({"alg": "HS256"}, {"sub": "tests"})]
    signed = hmac.digest(secret, ".".join(parts).encode(), "sha256")
    return ".".join([*parts, _encoded(signed)])


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
