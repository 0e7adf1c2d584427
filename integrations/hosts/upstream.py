"""A scripted model server on one loopback port: Anthropic's Messages, OpenAI's Chat Completions and Responses, and
Google's generateContent.

A script is a function from a request to a reply. The server writes the reply in the vendor's format, as one
answer or as a stream, and records every request byte for byte.

    with Upstream(script) as upstream:
        run_a_client(upstream.url)
        assert upstream.requests[0].body["model"] == "claude-scripted"
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import wire_anthropic
import wire_gemini
import wire_openai
import wire_responses
from wire import Frame, Reply

COUNT_TOKENS = "/v1/messages/count_tokens"
MESSAGES = "/v1/messages"
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
COMPACT = "/v1/responses/compact"
GENERATE = (":generateContent", ":streamGenerateContent")
MODELS = "/v1/models"
GEMINI_COUNT = ":countTokens"
EMBEDDINGS = "/v1/embeddings"


@dataclass
class Request:
    """One request as it arrived, and how its answer ended."""

    number: int
    method: str
    target: str
    headers: list[tuple[str, str]]
    raw: bytes
    # `answered`, `cut` by the script, or `client left` before the end.
    outcome: str = "open"

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def body(self) -> dict:
        try:
            value = json.loads(self.raw)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def is_model_call(self) -> bool:
        return self.method == "POST" and (self.path in (MESSAGES, CHAT, RESPONSES) or self.is_generate)

    @property
    def is_generate(self) -> bool:
        """Whether it is in Google's format."""
        return self.path.endswith(GENERATE)

    @property
    def wants_stream(self) -> bool:
        return self.path.endswith(GENERATE[1]) if self.is_generate else bool(self.body.get("stream"))

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


Script = Callable[[Request], Reply]


class Upstream:
    """The server. Use it as a context manager, or call `start` and `stop`."""

    def __init__(self, script: Script, port: int = 0, save: Path | None = None):
        self.script = script
        self.requests: list[Request] = []
        self.save = save
        self._lock = threading.Lock()
        self._server = Server(("127.0.0.1", port), Handler)
        self._server.upstream = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> Upstream:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Upstream:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def model_calls(self) -> list[Request]:
        return [request for request in list(self.requests) if request.is_model_call]

    def record(self, method: str, target: str, headers: list[tuple[str, str]], raw: bytes) -> Request:
        with self._lock:
            request = Request(len(self.requests) + 1, method, target, headers, raw)
            self.requests.append(request)
        if self.save:
            save_request(self.save, request)
        return request


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # A client that leaves early is part of the tests, not an error worth a traceback.
    upstream: Upstream

    def handle_error(self, request: object, client_address: object) -> None:
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_HEAD(self) -> None:
        self._record()
        self._send(200, b"")

    def do_GET(self) -> None:
        request = self._record()
        if request.path != MODELS:
            return self._send_json(404, wire_openai.error(404, "no such path"))
        # All vendors use this path; only Anthropic's clients send a version, and only Google's such a key.
        wire = wire_anthropic if request.header("anthropic-version") else wire_openai
        wire = wire_gemini if request.header("x-goog-api-key") else wire
        return self._send_json(200, wire.models())

    def do_POST(self) -> None:
        request = self._record()
        if request.path == COUNT_TOKENS:
            self._send_json(200, {"input_tokens": len(request.raw) // 4})
        elif request.path.endswith(GEMINI_COUNT):
            self._send_json(200, {"totalTokens": len(request.raw) // 4})
        elif request.path == EMBEDDINGS:
            self._send_json(200, wire_openai.embedding(request.body))
        elif request.path == COMPACT:
            self._send_json(200, wire_responses.compacted(request.body))
        elif request.is_model_call:
            self._answer(request, self.server.upstream.script(request))
        else:
            self._send_json(404, wire_openai.error(404, "no such path"))
        if request.outcome == "open":
            request.outcome = "answered"

    def _record(self) -> Request:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        return self.server.upstream.record(self.command, self.path, list(self.headers.items()), raw)

    def _answer(self, request: Request, reply: Reply) -> None:
        wire, whole = wire_of(request)
        if reply.status != 200:
            time.sleep(reply.pause_s)
            return self._send_json(reply.status, wire.error(reply.status, reply.text), retry_headers(reply))
        if request.wants_stream:
            return self._stream(request, reply, wire.frames(reply, request.body))
        time.sleep(reply.pause_s)
        return self._send_json(200, whole(reply, request.body))

    def _stream(self, request: Request, reply: Reply, frames: list[Frame]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self._send_request_id()
        self.end_headers()
        last = len(frames) if reply.cut_at is None else int(len(frames) * reply.cut_at)
        try:
            for frame in frames[:last]:
                self._send_chunk(frame.encode())
                time.sleep(reply.pause_s)
            if reply.cut_at is None:
                self._send_chunk(b"")
                request.outcome = "answered"
            else:
                self._cut(request)
        except OSError:
            request.outcome = "client left"
            self.close_connection = True

    def _cut(self, request: Request) -> None:
        """Closes the connection without the end that chunked encoding demands."""
        request.outcome = "cut"
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send_json(self, status: int, value: dict, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self._send_request_id()
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _send_request_id(self) -> None:
        # Anthropic's name and OpenAI's name; both libraries hand the id to their callers.
        self.send_header("request-id", "req_scripted")
        self.send_header("x-request-id", "req_scripted")


def wire_of(request: Request) -> tuple:
    """The format of a request, and what writes an answer in one piece."""
    if request.is_generate:
        return wire_gemini, wire_gemini.content
    return {
        MESSAGES: (wire_anthropic, wire_anthropic.message),
        CHAT: (wire_openai, wire_openai.completion),
        RESPONSES: (wire_responses, wire_responses.response),
    }[request.path]


def retry_headers(reply: Reply) -> dict[str, str]:
    return {} if reply.retry_after is None else {"retry-after": str(reply.retry_after)}


def save_request(folder: Path, request: Request) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{request.number:03}-{request.method}{request.path.replace('/', '-')}"
    head = [f"{request.method} {request.target}", *(f"{key}: {value}" for key, value in request.headers)]
    (folder / f"{name}.headers").write_text("\n".join(head) + "\n")
    (folder / f"{name}.json").write_bytes(request.raw)


def main() -> None:
    from scenarios import agent

    parser = argparse.ArgumentParser(description="Run the scripted model server until interrupted.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--save", type=Path, help="folder for every request")
    options = parser.parse_args()
    with Upstream(agent, options.port, options.save) as upstream:
        print(upstream.url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
