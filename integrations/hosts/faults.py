"""What can happen to Custody between a prompt and a call."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator

from custody import Custody, Server


@contextlib.contextmanager
def missing(custody: Custody, _: Server) -> Iterator[None]:
    """The program is gone."""
    away = custody.binary.with_name("away")
    custody.binary.rename(away)
    try:
        yield
    finally:
        away.rename(custody.binary)


@contextlib.contextmanager
def crashing(custody: Custody, server: Server) -> Iterator[None]:
    """The program is killed by a signal as soon as it starts."""
    with missing(custody, server):
        custody.binary.write_text("#!/bin/sh\nkill -SEGV $$\n")
        custody.binary.chmod(0o755)
        yield
        custody.binary.unlink()


@contextlib.contextmanager
def killed(_: Custody, server: Server) -> Iterator[None]:
    """The service is gone."""
    server.kill()
    yield


@contextlib.contextmanager
def suspended(_: Custody, server: Server) -> Iterator[None]:
    """The service keeps its connections and answers nothing."""
    server.suspend()
    yield


@contextlib.contextmanager
def garbled(custody: Custody, server: Server) -> Iterator[None]:
    """Something else answers in its place."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "5")
            self.end_headers()
            self.wfile.write(b"{\"ok\"")

        def log_message(self, *_: object) -> None:
            pass

    server.kill()
    host, port = custody.address.split(":")
    with http.server.ThreadingHTTPServer((host, int(port)), Handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield
        other.shutdown()


FAULTS = {"missing": missing, "crashing": crashing, "killed": killed, "suspended": suspended, "garbled": garbled}
