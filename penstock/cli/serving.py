"""`--metrics-port`: GET /metrics on this machine, in the text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from penstock.errors import SetupError
from penstock.metrics import CONTENT_TYPE, REGISTRY

_HOST = "127.0.0.1"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path.partition("?")[0] == "/metrics"
        content = (REGISTRY.text() if found else "see /metrics\n").encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", CONTENT_TYPE if found else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: stderr is for who runs the statements."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing of who has gone before the answer came."""


@contextmanager
def metrics_at(port: int) -> Iterator[str]:
    """Serves the metrics of this process at a port, or at any free one for 0; gives their address."""
    try:
        server = _Server((_HOST, port), _Handler)
    except OSError as failure:
        raise SetupError(
            "metrics-port",
            f"cannot serve metrics at {_HOST}:{port}: {failure.strerror}",
            hint="another process may have that port: take another one, or --metrics-port 0 for any",
        ) from None
    thread = Thread(target=server.serve_forever, name="penstock-metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{_HOST}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
