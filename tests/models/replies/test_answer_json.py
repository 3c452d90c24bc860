"""Tests that answers sent into a sandbox contain no secret, URL or address."""

import json
from time import process_time

import pytest

from gradebox.outcome import Spent
from models.replies.answer_json import ANSWER_BYTES, cleaned, failed, replied


@pytest.mark.parametrize(
    "text",
    [
        "see http://models.internal:8000/v1/chat?x=1, please",
        "no route to 10.1.2.3",
        "no route to 10.1.2.3:8000",
        "at [fd00::1]:80 or fd00::1",
        "models.internal refused, Models.Internal:8000 too",
        "key sk-0123456789",
    ],
)
def test_secrets_are_left_out(text: str) -> None:
    told = cleaned(text, "models.internal", ("sk-0123456789",))
    for secret in ("models.internal", "10.1.2.3", "fd00", "8000", "sk-0123456789"):
        assert secret not in told.lower()


def test_what_is_no_address_stays() -> None:
    text = "answered 503 after 1.5 s at 12:30: version 3.2, model qwen3:8b, see amodels.internals"
    assert cleaned(text, "models.internal", ()) == text


def test_addresses_of_many_forms_are_found_in_one_look() -> None:
    """A server's reply is parsed on the event loop of all projects, so slow parsing would delay all of them."""
    for text in ("a" * 4096, "." * 4096, ":" * 4096, "1." * 2048, "[" * 4096):
        began = process_time()
        cleaned(text, "models.internal", ("sk-0123456789",))
        assert process_time() - began < 0.03
    assert cleaned("ffff 10.1.2.3.", "", ()) == "ffff [address]."
    assert "10.1.2.3" not in cleaned("a[10.1.2.3]", "", ())


@pytest.mark.parametrize("text", ['you sent sk-"012345', "x" * ANSWER_BYTES], ids=["repeats the key", "is long"])
def test_a_reply_that_repeats_the_key_or_is_long_is_an_error(text: str) -> None:
    answer = replied({"text": text}, Spent(1, 0, 5, 5, 1.0), ("another-key", 'sk-"012345'))
    assert b"012345" not in answer.body
    assert json.loads(answer.body)["error"]["kind"] == "invalid_reply"
    assert answer.is_error
    assert answer.spent.usd == 1.0


@pytest.mark.parametrize("key", ["1", "8", "x", "none", "text", "reply", ":18", "EMPTY"])
def test_a_placeholder_for_a_key_changes_nothing(key: str) -> None:
    """It was replaced in the whole JSON: `Score: 18` became `Score: 1[API key]`."""
    reply = {"text": "Score: 18, none", "usage": {"input_tokens": 18, "output_tokens": 1}}
    assert json.loads(replied(reply, Spent(), (key,)).body) == {"reply": reply}
    assert cleaned("the server answered 418: x, text, none", "", (key,)) == "the server answered 418: x, text, none"


def test_what_is_told_of_a_failure_is_bounded() -> None:
    error = json.loads(failed("refused", "m" * 9999, reply="é" * 9999).body)["error"]
    assert len(error["message"]) == 1000
    assert error["reply"] == "é" * 2048
