"""The rows of a store, as whoever holds its files reads and writes them.

No code of Custody runs here, and none of its keys is used. What has no key, the commitment of a content, an id, an
edge of the graph, is recomputed where a case asks for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Row:
    """One write of memory: its record, and the content that arrived with it."""

    seq: int
    record: dict[str, Any]
    salt: bytes
    content: bytes
    tenant: str

    def commit(self) -> None:
        """Makes the record name the content that is there now."""
        commitment = hashlib.sha256(self.salt + self.content).hexdigest()
        self.record["request"]["write"]["value"] = {"new": commitment}


def spelled(record: dict[str, Any]) -> bytes:
    """The record as it is stored: without white space, in its order."""
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def writes(database: Path, tenant: str) -> list[Row]:
    """Every accepted write of a tenant, in the order of the log."""
    with closing(sqlite3.connect(database)) as connection:
        log = connection.execute("SELECT seq, record FROM log ORDER BY seq").fetchall()
        contents = connection.execute("SELECT arrival, salt, bytes FROM contents").fetchall()
    kept = {arrival: (salt, content) for arrival, salt, content in contents}
    tenants: dict[str, str] = {}
    rows = []
    for seq, stored in log:
        record = json.loads(stored)
        request = record["request"]
        if not isinstance(request, dict):
            continue
        if "open_session" in request:
            tenants[request["open_session"]["session"]] = record["by"]["principal"]["tenant"]
        owner = tenants.get(record["by"].get("session", ""))
        if "write" in request and record["answer"] == "done" and owner == tenant and seq in kept:
            rows.append(Row(seq, record, *kept[seq], tenant))
    return rows


def put(database: Path, row: Row) -> None:
    """Stores a row in the place that it names."""
    with closing(sqlite3.connect(database)) as connection, connection:
        changed = connection.execute("UPDATE log SET record=? WHERE seq=?", (spelled(row.record), row.seq))
        _expect_one(changed)
        values = (row.salt, row.content, row.seq)
        _expect_one(connection.execute("UPDATE contents SET salt=?, bytes=? WHERE arrival=?", values))


def append(database: Path, row: Row) -> None:
    """Adds a row behind everything, with an id, a commitment and edges of its own."""
    with closing(sqlite3.connect(database)) as connection, connection:
        end, stored = connection.execute("SELECT seq + 1, record FROM log ORDER BY seq DESC LIMIT 1").fetchone()
        identity = os.urandom(16)
        row.seq = end
        # Another item at the time of the last record, so that it could have been written then.
        row.record = {**row.record, "seq": end, "id": f"e-{identity.hex()}", "at": json.loads(stored)["at"]}
        row.record["request"]["write"]["key"] = f"{row.record['request']['write']['key']}-too"
        row.salt = os.urandom(16)
        row.commit()
        connection.execute("INSERT INTO log VALUES (?, ?, ?)", (end, identity, spelled(row.record)))
        connection.execute("INSERT INTO contents VALUES (?, ?, ?)", (end, row.salt, row.content))
        edges = [(parent, end) for parent in row.record["parents"]]
        connection.executemany("INSERT INTO edges VALUES (?, ?)", edges)


def delete(database: Path, seqs: list[int]) -> None:
    """Takes rows out, with every trace of them in the indexes."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for seq in seqs:
            _expect_one(connection.execute("DELETE FROM log WHERE seq=?", (seq,)))
            connection.execute("DELETE FROM contents WHERE arrival=?", (seq,))
            connection.execute("DELETE FROM edges WHERE parent=? OR child=?", (seq, seq))
            connection.execute("DELETE FROM fingerprints WHERE arrival=?", (seq,))
            connection.execute("DELETE FROM fingerprints_waiting WHERE arrival=?", (seq,))


def from_on(database: Path, seq: int) -> list[int]:
    """Every position from `seq` to the end of the log."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT seq FROM log WHERE seq>=? ORDER BY seq DESC", (seq,))
        return [found for (found,) in rows]


def _expect_one(cursor: sqlite3.Cursor) -> None:
    if cursor.rowcount != 1:
        raise RuntimeError("the edit changed no row; it would prove nothing")
