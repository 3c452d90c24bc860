from collections.abc import Callable
from threading import Thread
from time import thread_time
from typing import Any

import msgspec
import pytest

from api.dialects.adaptive.route import Operation
from api.dialects.openai.routes import GraderToValidate, _grader
from api.dialects.openai.sample import Sample
from api.intake import batch_upload, bodies, score_upload
from api.intake.feedback_upload import NewFeedback
from api.intake.source_upload import Options, _config
from models.parse_ask import GraderRequest, OnceRequest, parse
from runtime import slow_numbers
from sandbox.grading.group_scores import read_scores

MANY = b"1e308," * 12_000


def as_member(name: str, value: bytes = b"5e-324") -> bytes:
    return b'{%b"%b":1}' % (b'"%b":%b,' % (name.encode(), value) * 12_000, name.encode())


def listed(name: str) -> bytes:
    return b'{"%b":[%b1]}' % (name.encode(), MANY)


@pytest.mark.parametrize(
    ("text", "are_many"),
    [
        (b"[" + MANY + b"1]", True),
        (b"[" + b"-1.5E-0310, " * 1001 + b"1]", True),
        (b"[" + b"1e308," * 1000 + b"1]", False),
        (b"[" + b"1e308," * 1000 + b" " * (2**20 - 6004) + b"1e308]", True),  # over the end of a slice
        (b"[" + b"1.5e-30," * 9000 + b"1]", False),
        (b'["' + MANY + b'"]', False),
        (b'["\\"' + MANY + b'"]', False),
        (b'["\\\\",' + MANY + b'""]', True),
        (b'"' + b'\\"' * 1_000_000 + MANY, False),
    ],
)
def test_numbers_near_the_ends_of_the_range_are_counted_outside_of_strings(text: bytes, are_many: bool) -> None:
    began = thread_time()
    assert slow_numbers.are_many(text) is are_many
    assert thread_time() - began < 0.3


def test_other_threads_have_their_turn_while_megabytes_are_searched() -> None:
    searching = Thread(target=slow_numbers.are_many, args=(b"1" * 32_000_000,))
    searching.start()
    turns = 0
    while searching.is_alive():
        searching.join(0.01)
        turns += 1
    assert turns > 10


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda text: bodies.parse(text, Options), as_member("timeout_s")),
        (lambda text: bodies.decode(text, Operation), b'{"query":"{__typename}","variables":%b}' % listed("a")),
        (lambda text: bodies.decode(text, NewFeedback), b'{"model":"m","labels":%b}' % as_member("a")),
        (
            lambda text: batch_upload._parsed(text, 1),
            b'{"graders":[],"threads":[%b],"budget":%b}' % (b"1," * 9_000 + b"1", as_member("usd")),
        ),
        (_config, listed("a")),
        (lambda text: Sample(b'""', text, 1).names, listed("a")),
        (lambda text: _grader(GraderToValidate(msgspec.Raw(text))), listed("a")),
        (lambda text: score_upload.read(text, 1), as_member("score")),
        (parse, b'{"ask":"endpoint","name":"a","thread":%b}' % listed("a")),
        (parse, b'{"ask":"endpoint","name":"a","thread":%b,"ask":"grader"}' % listed("a")),
        (lambda text: read_scores(text, 12_000, 1), b"[%b]" % as_member("score")),
    ],
)
def test_what_holds_many_of_them_is_refused_and_not_read(read: Callable[[bytes], Any], text: bytes) -> None:
    began = thread_time()
    with pytest.raises(Exception, match="numbers with an exponent of three digits"):
        read(text)
    assert thread_time() - began < 0.05  # of a processor, while no other request of the API is handled


@pytest.mark.parametrize("ask", [b'"grader","name":"a","thread"', b'"once","name":"a","value"'])
def test_an_ask_may_pass_on_many_of_them(ask: bytes) -> None:
    request = parse(b'{"ask":%b:%b}' % (ask, listed("a")))
    assert isinstance(request, GraderRequest | OnceRequest)
