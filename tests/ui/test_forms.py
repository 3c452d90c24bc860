"""Tests that forms are read at once, in any spelling."""

import time
from urllib.parse import urlencode

import httpx
import pytest

from api.http.problems import ProblemError
from tests.api.conftest import Service
from ui.forms import fields_of


@pytest.mark.parametrize(
    "text",
    ["", "a b+c=d&e%41", "ü€😀", "line\r\nline\n \n=\n", "= == =3D =\r\n", "\x00\x7f", "%", "~-._!*'()", " \t end \t "],
)
def test_fields_are_as_they_were_typed(text: str) -> None:
    assert fields_of(urlencode({"a": text, "ü=&": "x", "b": ""}).encode()) == {"a": text, "ü=&": "x", "b": ""}


def test_a_long_form_is_read_at_once() -> None:
    began = time.monotonic()
    assert fields_of(b"key=" + b"%41" * 5_000_000) == {"key": "A" * 5_000_000}
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("body", [b"a=%ff", b"\xff=a", b"&".join(b"a%d=1" % n for n in range(33))])
def test_what_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(ProblemError, match="the form"):
        fields_of(body)


def test_who_is_not_signed_in_sends_little(service: Service) -> None:
    body = b"key=" + b"%41" * 10_000
    headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
    answer = httpx.post(f"{service.url}/ui/sign-in", content=body, headers=headers)
    assert answer.status_code == 413
