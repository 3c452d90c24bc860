"""A small OpenAI-compatible server for tests. It answers from a script, and can misbehave.

    python -m examples.model_server --port 8100
    python -m examples.model_server --port 8100 --reply '{"score": 3}' --behave status --status 429 --retry-after 2
    python -m examples.model_server --port 8100 --yes-if "thank you" --latency-s 0.2

It answers `POST /v1/chat/completions`. With a JSON schema in `response_format`, the reply is the smallest value that
fits the schema, with the first option of an `enum`. With `tools`, it calls the first tool with such arguments. With
`--yes-if`, it chooses the last option if the last message lacks a word. With `--prefers`, it chooses the one of several
responses that contains most of some words. `POST /v1/score`, as of a reward server, gives each thread `--reward`. The
model's name can select a behaviour too, as in `behave:hang` or `behave:status:503`, so that one server serves all
tests. `GET /requests` returns the number of requests.
"""

import argparse
import json
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BEHAVIOURS = (
    "answer", "status", "hang", "drip", "cut-off", "broken-off", "refusal", "prose", "other-json", "empty",
    "no-choices", "huge", "huge-headers", "redirect", "half", "gzip", "echo-key", "say-key", "deep", "deep-error",
)  # fmt: skip
HUGE_BYTES = 50_000_000
_RESPONSE = re.compile(r"\[begin (response \d+) \w+\]\n(.*?)\n\[end", re.DOTALL)  # the format of pairwise judges


@dataclass(frozen=True)
class Script:
    """What a server does with each request.

    Attributes:
        reply: the text of replies without a schema.
        yes_if: a word that the last message must have for the first of several options; else the last is chosen.
        prefers: words. Of several responses that are compared, it chooses the one that contains most of them.
        replies: pairs of a text and the reply to a last message that contains it, instead of `reply`; the first counts.
        reward: the reward of every thread, as a reward server.
        behave: one of BEHAVIOURS.
        status: that of `status`.
        times: how many of the first requests are not answered; 0 means all.
        retry_after: a header of errors; empty: none.
        latency_s: the delay before each answer.
        location: where `redirect` leads.
        schemas, logprobs: whether it supports these; else a schema gets 400, and log probabilities are absent.
        api_key: the key that requests must have, as a bearer token or in X-API-Key; empty: any.
    """

    reply: str = '{"answer": "yes"}'
    yes_if: str = ""
    prefers: tuple[str, ...] = ()
    replies: tuple[tuple[str, str], ...] = ()
    reward: float = 0.5
    behave: str = "answer"
    status: int = 500
    retry_after: str = ""
    times: int = 0
    latency_s: float = 0.0
    location: str = "http://169.254.169.254/latest/meta-data/"
    schemas: bool = True
    logprobs: bool = True
    api_key: str = ""

    def reply_to(self, body: Mapping[str, Any]) -> str:
        """The text of the reply to a request without a schema."""
        last = str(body["messages"][-1]["content"])
        return next((reply for held, reply in self.replies if held in last), self.reply)


class ModelServer(ThreadingHTTPServer):
    """Listens as soon as it is created; `port` 0 selects a free port. Use it as a context manager."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, script: Script | None = None, host: str = "127.0.0.1", port: int = 0) -> None:
        self.script = script or Script()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.ended = threading.Event()
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        super().__init__((host, port), _Handler)

    @property
    def base_url(self) -> str:
        """The URL for clients."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}/v1"

    def __enter__(self) -> "ModelServer":
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts the requests that wait at once."""
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            yield
        finally:
            with self._lock:
                self.at_once -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect early."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits 40 ms for the acknowledgement of the headers
    server: ModelServer

    @property
    def _key(self) -> str:
        return str(self.headers.get("Authorization", self.headers.get("X-API-Key")))

    def do_GET(self) -> None:
        """Returns the number of requests."""
        self._send(200, json.dumps({"requests": len(self.server.bodies)}).encode())

    def do_POST(self) -> None:
        """Returns a chat completion, or shows the scripted behaviour."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.server.bodies.append(body)
        self.server.headers.append(dict(self.headers))
        script = self.server.script
        with self.server.counted():  # only until it answers: the next request may come before the answer is written
            time.sleep(script.latency_s)
        if script.api_key and self._key not in (f"Bearer {script.api_key}", script.api_key):
            return self._error(401, "Incorrect API key provided", "invalid_api_key")
        if not self.path.endswith(("/chat/completions", "/score")):
            return self._error(404, f"there is nothing at {self.path}", "not_found")
        behave, status = script.behave, script.status
        if str(body.get("model", "")).startswith("behave:"):
            _, behave, *rest = str(body["model"]).split(":")
            status = int(rest[0]) if rest else status
        if script.times and len(self.server.bodies) > script.times:
            behave = "answer"
        return self._behave(behave, status, body)

    def _behave(self, behave: str, status: int, body: Mapping[str, Any]) -> None:
        script = self.server.script
        if behave == "status":
            return self._error(status, "as the script says", "scripted")
        if behave == "hang":
            self.server.ended.wait(3600)
            self.close_connection = True
            return None
        if behave in ("drip", "half", "huge"):
            return self._stream(behave)
        if behave == "huge-headers":
            return self._send(200, b"{}", {f"X-{number}": "x" * 60_000 for number in range(170)})
        if behave == "redirect":
            return self._send(307, b"", {"Location": script.location})
        if behave == "gzip":
            return self._send(200, b"\x1f\x8b", {"Content-Encoding": "gzip"})
        if behave == "echo-key":
            return self._error(400, f"you sent {self._key}", "echo")
        if behave.startswith("deep"):
            return self._send(200 if behave == "deep" else 400, b'{"choices":' + b"[" * 200_000 + b"]" * 200_000 + b"}")
        if self.path.endswith("/score"):
            reason = self._key if behave == "say-key" else "as the script says"
            answer = {"reward": script.reward, "metadata": {"reason": reason}, "id": body.get("id")}
            return self._send(200, json.dumps(answer).encode())
        return self._completion(behave, body)

    def _completion(self, behave: str, body: Mapping[str, Any]) -> None:
        script = self.server.script
        schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
        if schema is not None and not script.schemas:
            return self._error(400, "response_format is not supported", "unsupported")
        last_message = str(body["messages"][-1]["content"]) if body.get("messages") else ""
        text = script.reply_to(body) if schema is None else json.dumps(self._fitting(schema, last_message))
        text = {
            "prose": "I should say yes.",
            "other-json": '{"verdict": 1}',
            "empty": "",
            "say-key": self._key,
        }.get(behave, text)
        reason = {"cut-off": "length", "broken-off": "abort"}.get(behave, "stop")
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if tools := body.get("tools"):
            wanted = self._fitting(tools[0]["function"].get("parameters", {}), last_message)
            called = {"name": tools[0]["function"]["name"], "arguments": json.dumps(wanted)}
            message |= {"content": None, "tool_calls": [{"id": "call-1", "type": "function", "function": called}]}
        if behave == "refusal":
            message |= {"content": None, "refusal": "I cannot help with that."}
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        if body.get("logprobs") and script.logprobs:
            choice["logprobs"] = {"content": [{"token": text[:1], "logprob": -0.1, "bytes": None, "top_logprobs": []}]}
        answer = {
            "id": f"chatcmpl-{len(self.server.bodies)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model"),
            "choices": [] if behave == "no-choices" else [choice],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
        return self._send(200, json.dumps(answer).encode())

    def _fitting(self, schema: Mapping[str, Any], message: str) -> Any:
        word, words = self.server.script.yes_if, self.server.script.prefers
        shown = _RESPONSE.findall(message) if words else []
        if shown:
            best, text = max(shown, key=lambda response: sum(each in response[1] for each in words))
            held = [each for each in words if each in text]
            return smallest(schema, text=f"{best} says {', '.join(held) or 'least badly what is asked'}.") | {
                "option": best
            }
        if not word:
            return smallest(schema)
        is_there = word in message
        return smallest(schema, not is_there, f"{word!r} {'is' if is_there else 'is not'} in it.")

    def _stream(self, behave: str) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(HUGE_BYTES))
        self.end_headers()
        if behave == "half":
            self.wfile.write(b'{"choices": [')
        elif behave == "huge":
            for _ in range(HUGE_BYTES // 100_000):
                self.wfile.write(b" " * 100_000)
        else:
            while not self.server.ended.wait(0.2):
                self.wfile.write(b" ")

    def _error(self, status: int, message: str, code: str) -> None:
        error = {"error": {"message": message, "type": code, "param": None, "code": code}}
        script = self.server.script
        headers = {"Retry-After": script.retry_after} if script.retry_after else {}
        self._send(status, json.dumps(error).encode(), headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Prints nothing for requests."""


def smallest(schema: Mapping[str, Any], takes_last: bool = False, text: str = "") -> Any:
    """A small value that fits a JSON schema for structured output, with the first or last option of an `enum`."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][-1 if takes_last else 0]
    if schema.get("anyOf"):
        return smallest(schema["anyOf"][0], takes_last, text)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: smallest(part, takes_last, text) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [smallest(schema.get("items", {}), takes_last, text)] * int(schema.get("minItems", 0))
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return {"boolean": False, "null": None}.get(str(kind), text)


def main() -> None:
    """Serves until Ctrl-C."""
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible server, for tests.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8100, help="0 takes a free one")
    parser.add_argument("--reply", default=Script.reply, help="the text of replies without a schema")
    parser.add_argument("--yes-if", default="", help="without this word in the last message, the last option is chosen")
    parser.add_argument("--prefers", nargs="*", default=(), help="words that a better one of several responses holds")
    parser.add_argument("--reward", type=float, default=Script.reward, help="what `/v1/score` gives every thread")
    parser.add_argument("--behave", choices=BEHAVIOURS, default="answer")
    parser.add_argument("--status", type=int, default=500, help="what `--behave status` answers with")
    parser.add_argument("--times", type=int, default=0, help="to how many of the first requests it does; 0: all")
    parser.add_argument("--retry-after", default="", help="a header of errors: seconds or a date")
    parser.add_argument("--location", default=Script.location, help="where `--behave redirect` leads")
    parser.add_argument("--latency-s", type=float, default=0.0, help="before each answer")
    parser.add_argument("--no-schemas", dest="schemas", action="store_false", help="refuse response_format")
    parser.add_argument("--no-logprobs", dest="logprobs", action="store_false")
    parser.add_argument("--api-key", default="", help="what must be sent")
    arguments = vars(parser.parse_args())
    host, port = arguments.pop("host"), arguments.pop("port")
    with ModelServer(Script(**arguments), host, port) as server:
        print(f"answers at {server.base_url}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(f"{len(server.bodies)} requests")


if __name__ == "__main__":
    main()
