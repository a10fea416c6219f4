"""Which servers a URI names, however it writes them."""

from __future__ import annotations

import re

_SERVER = re.compile(r"(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?")
Address = tuple[str, int]


def addresses(authority: str, port: int) -> frozenset[Address]:
    """Of all servers, with `port` where none is said; by name where a name is not known here."""
    found: set[Address] = set()
    for server in authority.split(","):
        if match := _SERVER.fullmatch(server.strip()):
            host, at = (match[1] or match[2]).lower(), int(match[3] or port)
            found.update((address, at) for address in _known(host))
    return frozenset(found)


def _known(host: str) -> set[str]:
    import socket  # commands that ask nobody start without it

    try:
        return {str(told[4][0]) for told in socket.getaddrinfo(host, None)}
    except OSError:
        return {host}
