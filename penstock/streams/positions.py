"""Positions that are kept together with what was made of the messages, so that each has its effect once.

with sqlite3.connect("totals.db") as database:
    positions = Positions(database, "totals")
    consumer = streamer.consumer("orders", mode="exactly_once", positions=positions)
    for message in consumer:
        database.execute("UPDATE totals SET amount = amount + ?", (message.json()["amount"],))
        positions.keep(message)
        database.commit()
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from penstock.errors import InputError, RunError
from penstock.streams.message import Message, Sequence, order

_MAKE = (
    "CREATE TABLE IF NOT EXISTS penstock_positions (reader VARCHAR(200) NOT NULL, stream VARCHAR(400)"
    " NOT NULL, shard INTEGER NOT NULL, sequence VARCHAR(100) NOT NULL, PRIMARY KEY (reader, stream, shard))"
)
_REMOVE = "DELETE FROM penstock_positions WHERE reader = ? AND stream = ? AND shard = ?"
_ADD = "INSERT INTO penstock_positions VALUES (?, ?, ?, ?)"
_FORGET = "DELETE FROM penstock_positions WHERE reader = ? AND stream = ?"
_FIND = "SELECT shard, sequence FROM penstock_positions WHERE reader = ? AND stream = ?"

_MARKS: dict[str, Callable[[int], str]] = {
    "qmark": lambda n: "?",
    "numeric": lambda n: f":{n}",
    "named": lambda n: f":v{n}",
    "format": lambda n: "%s",
    "pyformat": lambda n: f"%(v{n})s",
}
"""How drivers have the place of the value of a number marked."""


class Positions:
    """Positions of one reader in a table of a database, reached by a connection as Python's DB-API has it.

    They are written inside the connection's own transaction, and never committed here.
    """

    def __init__(self, connection: Any, reader: str) -> None:
        self._connection = connection
        self._reader = reader
        self._style = _style_of(connection)
        self._run(_MAKE)
        connection.commit()

    def keep(self, message: Message) -> None:
        """The message, and those before it on its shard, have had their effect.

        Raises `kept-already` where the table says so already, since another reader has the same name: then
        what was made of the message is to be rolled back.
        """
        name = (self._reader, message.stream, message.shard)
        found = self._run(f"{_FIND} AND shard = ?", *name).fetchall()
        kept = json.loads(found[0][1]) if found else None
        if kept is not None and order(message.sequence) <= order(kept):
            raise RunError(
                "kept-already",
                f"message {message.sequence} of '{message.stream}' has had its effect: '{self._reader}' is"
                f" at {kept}",
                hint="readers of different things have different names; forget() lets all come again",
            )
        # Of two who come here at once, one adds first, and the table has room for one.
        self._run(_REMOVE, *name)
        self._run(_ADD, *name, json.dumps(message.sequence))

    def forget(self, stream: str) -> None:
        """All messages of a stream count as new, as for who goes back to do it all again."""
        self._run(_FORGET, self._reader, stream)

    def kept(self, stream: str) -> dict[int, Sequence]:
        """The last sequence of each shard that has had its effect."""
        found = self._run(_FIND, self._reader, stream).fetchall()
        return {int(shard): json.loads(text) for shard, text in found}

    def _run(self, statement: str, *values: Any) -> Any:
        *parts, last = statement.split("?")
        text = "".join(part + _MARKS[self._style](n) for n, part in enumerate(parts, 1)) + last
        by_name = self._style in ("named", "pyformat")
        given: Any = {f"v{n}": value for n, value in enumerate(values, 1)} if by_name else values
        if hasattr(self._connection, "execute"):
            # Where a cursor would be a transaction of its own, as in DuckDB, the connection is not.
            return self._connection.execute(text, given)
        cursor = self._connection.cursor()
        cursor.execute(text, given)
        return cursor


def _style_of(connection: Any) -> str:
    """How the driver marks the places of values: its module says so, or the package that the module is in."""
    for kind in type(connection).__mro__:
        name = kind.__module__
        while name:
            style = getattr(sys.modules.get(name), "paramstyle", None)
            if style in _MARKS:
                return str(style)
            name = name.rpartition(".")[0]
    raise InputError(
        "not-a-connection",
        f"a {type(connection).__qualname__} is no connection of a driver of Python's DB-API",
        hint="give what the driver's own connect() gives",
    )
