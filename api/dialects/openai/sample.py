"""The sample and the item of a run: as bytes for a sandbox, and as the namespaces of templates."""

from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec

from api.dialects.openai.graders import JSON_BYTES
from api.dialects.openai.problems import OpenAIProblem
from api.http.problems import too_large
from api.intake import bodies
from runtime import slow_numbers


class Sample:
    """`output` is a JSON string, `item` a JSON object. They are parsed only for templates."""

    def __init__(self, output: bytes, item: bytes, longest: int) -> None:
        self._output = output
        self._item = item
        self._longest = longest

    @cached_property
    def line(self) -> bytes:
        """The thread for a sandbox. Raises ProblemError if it is too long."""
        line = b'{"messages":[{"role":"assistant","content":%b}],"metadata":%b}' % (self._output, self._item)
        if len(line) > self._longest:
            raise too_large(f"the sample and the item are longer than {self._longest} bytes together: send less")
        return bodies.line_of(line, self._longest)

    @cached_property
    def names(self) -> dict[str, Any]:
        """The namespaces `item` and `sample`. Raises OpenAIProblem if they are too long or of another type."""
        text = _decode(self._output, str, "model_sample")
        sample: dict[str, Any] = {
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "output_text": text,
            "output_tools": [],
        }
        with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):  # only if it is JSON
            json = text.encode()
            if not slow_numbers.are_many(json):
                sample["output_json"] = msgspec.json.decode(json)
        return {"item": _decode(self._item, dict[str, Any], "item"), "sample": sample}


def _decode(raw: bytes, kind: Any, param: str) -> Any:
    if len(raw) > JSON_BYTES:
        raise OpenAIProblem(f"{param} is longer than {JSON_BYTES} bytes: only python graders accept more", param)
    if slow_numbers.are_many(raw):
        raise OpenAIProblem(f"{param} is not read: {slow_numbers.REASON}", param)
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OpenAIProblem(f"{param} is invalid: {error}", param, "invalid-request") from error
