"""Tests of graders of groups, honest and hostile, in both isolations."""

from typing import Any

import msgspec
import pytest

from gradebox.outcome import CompletionScore, Outcome, completion_scores, encoded
from gradebox.schemas import Isolation
from gradebox.score import GROUP_BYTES
from sandbox.grading.session import Session
from sandbox.guest.protocol.fields import SCORES
from tests.sandbox.contract.conftest import Grader
from tests.sandbox.scoring import BOTH

# Groups are the code of the guest, and their records are like others: `test_channel` tries those on every backend.
VARIANTS = ("bubblewrap",)

# Executes the first completion, and returns its `answer`.
GRADER = """
import os, sys, time
from gradebox import NotApplicable, Score

async def grade(threads: list[StringThread]) -> list[float]:
    names = {"threads": threads, "Score": Score, "NotApplicable": NotApplicable}
    exec(threads[0].completion(), names)
    return names["answer"]
"""


def group(code: str, more: int = 2) -> dict[str, Any]:
    return {"prompt": "Why?", "completions": [code, *["x"] * (more - 1)]}


def scored(session: Session, isolation: Isolation, *codes: str, **limits: Any) -> list[Outcome]:
    return Grader(session).load(GRADER, isolation, **limits).score_threads([group(code) for code in codes])


def error_of(outcome: Outcome) -> tuple[str, str]:
    assert outcome.error is not None, outcome
    assert outcome.score is None
    return outcome.error.kind, outcome.error.message


@BOTH
def test_both_forms_of_a_line_are_read(session: Session, isolation: Isolation) -> None:
    source = """
async def grade(threads: list[StringThread]) -> list[float]:
    assert type(threads) is list
    longest = max(len(thread.completion()) for thread in threads)
    return [len(thread.completion()) / longest * thread.metadata["weight"] for thread in threads]
"""
    lines = [
        {"id": "a", "prompt": "Why?", "completions": ["ab", "abcd"], "metadata": {"weight": 1}},
        {
            "threads": [
                {"messages": [{"role": "assistant", "content": "x" * n}], "metadata": {"weight": n}, "id": n}
                for n in range(1, 5)
            ],
            "id": 7,
        },
    ]
    first, second = Grader(session).load(source, isolation).score_threads(lines)
    assert (first.scores, first.details, first.completions) == ([0.5, 1.0], None, None)
    assert (first.id, first.score, first.error) == ("a", 0.75, None)
    assert second.scores == [0.25, 1.0, 2.25, 4.0]
    assert (second.id, second.score) == (7, 1.875)


@BOTH
def test_each_element_says_what_its_completion_came_to(session: Session, isolation: Isolation) -> None:
    said = "[Score(0.5, reason='so', values={'a': 1}, details={'won': [1]}), True]"
    failed = "[1.0, ValueError('no'), NotApplicable('why')][1:]"
    outcomes = scored(
        session,
        isolation,
        f"answer = {said}",
        f"answer = tuple({said})",
        f"answer = {failed}",
        "answer = [NotApplicable('n', details={'a': 1}), 2]",
        "answer = [NotApplicable('n'), NotApplicable('m')]",
        "answer = [MemoryError(), KeyboardInterrupt()]",
    )
    whole = [CompletionScore(0.5, "so", values={"a": 1.0}, details=encoded({"won": [1]})), CompletionScore(1.0)]
    for outcome in outcomes[:2]:
        assert (completion_scores(outcome), outcome.score) == (whole, 0.75)
        told = msgspec.json.decode(msgspec.json.encode(outcome))
        assert (told["scores"], told["details"]) == ([0.5, 1.0], [{"won": [1]}, None])
        assert told["completions"] == [{"reason": "so", "values": {"a": 1.0}}, {}]
    (mine,) = scored(session, isolation, f"class Mine(Score): pass\nanswer = {said.replace('Score', 'Mine')}")
    assert (completion_scores(mine), mine.score) == (whole, 0.75)
    assert error_of(outcomes[2]) == ("exception", "2 of 2 completions have no score: ValueError: no")
    lacking = completion_scores(outcomes[2])
    assert [(each.score, each.error and each.error.kind, each.not_applicable) for each in lacking] == [
        (None, "exception", None),
        (None, None, "why"),
    ]
    for outcome, number in zip(outcomes[3:5], (1, 2), strict=True):
        assert (outcome.score, outcome.error) == (None, None)
        assert outcome.not_applicable == f"{number} of 2 completions have no score: n"
    first = CompletionScore(None, not_applicable="n", details=encoded({"a": 1}))
    assert completion_scores(outcomes[3]) == [first, CompletionScore(2.0)]
    assert error_of(outcomes[5])[0] == "memory"
    assert [each.error and each.error.kind for each in outcomes[5].completions or []] == ["memory", "exception"]


_DEEP = "[1.0, Score(1, details={'a': __import__('json').loads('[' * 200 + ']' * 200)})]"


@BOTH
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("[1.0]", "`grade` returned 1 scores for 2 completions"),
        ("[1.0] * 3", "`grade` returned 3 scores for 2 completions"),
        ("[]", "`grade` returned 0 scores for 2 completions"),
        ("1.0", "it returned an object of type `float`"),
        ("None", "it returned an object of type `NoneType`"),
        ("iter([1.0, 1.0])", "it returned an object of type `list_iterator`"),
        ("{0: 1.0, 1: 1.0}", "it returned an object of type `dict`"),
        ("[1.0, None]", "position 1 of what `grade` returned: `grade` returned None"),
        ("[float('nan'), 1.0]", "position 0 of what `grade` returned: `grade` returned nan"),
        ("[1.0, 10 ** 400]", "position 1 of what `grade` returned"),
        ("[1.0, [1.0]]", "position 1 of what `grade` returned"),
        ("[1.0, ValueError]", "position 1 of what `grade` returned"),
        ("[1.0, Score(1, details={'a': 'x' * 20000})]", "position 1 of what `grade` returned: the details"),
        ("[1.0, Score(1, details={'a': {1}})]", "position 1 of what `grade` returned: JSON cannot hold"),
        (_DEEP, "position 1 of what `grade` returned: the details of the Score are nested"),
        ("[NotApplicable('', {'a': {1}}), 1.0]", "position 0 of what `grade` returned: JSON cannot hold"),
    ],
)
def test_any_other_return_is_bad_as_a_whole(session: Session, isolation: Isolation, answer: str, message: str) -> None:
    bad, good = scored(session, isolation, f"answer = {answer}", "answer = [0, 1]")
    kind, told = error_of(bad)
    assert kind == "bad_return"
    assert message in told
    assert bad.scores is None
    assert good.score == 0.5


@BOTH
def test_a_grader_that_changes_its_list_is_held_to_what_it_was_given(session: Session, isolation: Isolation) -> None:
    bad, good = scored(session, isolation, "threads.pop(); answer = [1.0]", "threads.clear(); answer = [1, 2]")
    assert error_of(bad)[0] == "bad_return"
    assert good.score == 1.5


@BOTH
def test_a_subclass_of_list_runs_no_code(session: Session, isolation: Isolation) -> None:
    code = """
class Odd(list):
    __len__ = __iter__ = __getitem__ = lambda *_: os._exit(3)
import os
answer = Odd([1.0, 0.0])
"""
    (outcome,) = scored(session, isolation, code)
    assert outcome.score == 0.5


@BOTH
def test_what_ends_in_the_middle_costs_its_own_group(session: Session, isolation: Isolation) -> None:
    outcomes = scored(
        session,
        isolation,
        "answer = [1, 1]",
        "import os; os._exit(3)",
        "raise ValueError('no')",
        "raise NotApplicable('none of them')",
        "while True: pass",
        "import os; os.kill(os.getpid(), 9)",
        "answer = [0, 1]",
        timeout_s=0.5,
    )
    assert [one.error.kind if one.error else one.score for one in outcomes] == [
        *(1.0, "crash", "exception", None, "timeout", "crash", 0.5)
    ]
    assert outcomes[3].not_applicable == "none of them"
    assert [one.scores is not None for one in outcomes] == [True, *[False] * 5, True]


@BOTH
def test_a_line_that_is_no_group_is_bad_input(session: Session, isolation: Isolation) -> None:
    deep: Any = 1
    for _ in range(61):
        deep = [deep]
    lines: list[tuple[Any, str]] = [
        ({"completion": "x"}, 'a line of this grader is a group, {"threads": [thread, …]} or {"prompt", "completions"'),
        ([1], "this is no object"),
        ({"threads": []}, '"threads" of a group has 1 to 1024 members, and this has 0'),
        ({"threads": [{"completion": "x"}] * 1025}, "and this has 1025"),
        ({"threads": "x"}, '"threads" of a group must be a list'),
        ({"threads": [{"completion": "x"}, 1]}, "thread 1 of the group: a thread is a JSON object"),
        ({"threads": [{"completion": "x"}], "metadata": {}}, 'a group has no member "metadata" beside "threads"'),
        ({"threads": [{"completion": "x"}], "completions": []}, 'no member "completions" beside "threads"'),
        ({"completion": "x", "completions": ["y"]}, 'this has "completion" beside them'),
        ({"prompt": 1, "completions": ["x"]}, "thread 0 of the group"),
        ({"completions": ["x"], "metadata": {"a": deep}}, "nested more than 64 levels deep"),
        ({"completions": ["x"], "id": 1.5}, '"id" must be a string'),
    ]
    source = "async def grade(threads: list[StringThread]) -> list[float]:\n    return [1.0] * len(threads)\n"
    outcomes = Grader(session).load(source, isolation).score_threads([line for line, _ in lines])
    for outcome, (_, message) in zip(outcomes, lines, strict=True):
        kind, told = error_of(outcome)
        assert kind == "bad_input"
        assert message in told


def test_a_group_is_bad_input_to_a_grader_of_threads(session: Session) -> None:
    grader = Grader(session).load("async def grade(thread):\n    return 1.0\n")
    for outcome in grader.score_threads([{"threads": [{"completion": "x"}]}, {"prompt": "a", "completions": ["x"]}]):
        kind, told = error_of(outcome)
        assert kind == "bad_input"
        assert "this is a group of threads, which a grader takes whose parameter is annotated" in told


@BOTH
def test_the_largest_group_with_long_reasons_arrives_whole(session: Session, isolation: Isolation) -> None:
    source = """
async def grade(threads: list[StringThread]) -> list[Score]:
    return [Score(1.0, reason='"' * 5000) for _ in threads]
"""
    source = "from gradebox import Score\n" + source
    outcomes = Grader(session).load(source, isolation).score_threads([{"completions": ["x"] * 1024}] * 5)
    for outcome in outcomes:
        assert outcome.score == 1.0
        assert len(outcome.scores or []) == 1024
        assert {len((each.reason or "").encode()) for each in outcome.completions or []} == {GROUP_BYTES // 4 // 1024}


@BOTH
def test_scores_that_fill_their_room_arrive_beside_much_that_is_printed(session: Session, isolation: Isolation) -> None:
    full = "print('p' * 4000); answer = [Score(1, details={'a': 'x' * 16000})] * 16"
    lines = [group(full, 16), group("answer = [1] * 16", 16)] * 12
    outcomes = Grader(session).load(GRADER, isolation).score_threads(lines)
    assert [one.error or one.score for one in outcomes] == [1.0] * 24
    assert all(len(msgspec.json.encode(one.details)) > 250_000 for one in outcomes[::2])
    (over,) = Grader(session).score_threads([group(full.replace("] * 16", "] * 17"), 17)])
    assert error_of(over)[0] == "bad_return"
    assert f"may take {GROUP_BYTES}" in error_of(over)[1]


FORGED = """
from gradebox._guest.protocol.records import pack_record
import os, sys
frame = sys._getframe()
while not hasattr(frame.f_locals.get("self"), "_records"):
    frame = frame.f_back
frame.f_locals["self"]._records._send(pack_record(1, 1, 1.0, {fields}))
os._exit(0)
"""


_NONE = "a score of a group that is none"
_ERROR = b'{"score":null,"error":{"kind":"%b","message":""%b}}'


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (None, "scores of a group that there are not to be, or none where there are"),
        (b'[{"score":1}]', "1 scores of a group of 2"),
        (b'[{"score":1},{"score":1},{"score":1}]', "3 scores of a group of 2"),
        (b'[{"score":1},{"score":1e999}]', ""),
        (b'[{"score":1},{"score":null}]', _NONE),
        (b'[{"score":1},{"score":1,"not_applicable":"a"}]', _NONE),
        (b'[{"score":1},%b]' % (_ERROR % (b"infrastructure", b"")), _NONE),
        (b'[{"score":1},%b]' % (_ERROR % (b"model", b"")), _NONE),
        (b'[{"score":1},%b]' % (_ERROR % (b"exception", b',"retryable":true')), _NONE),
        (b'[{"score":1},{"score":1,"reason":"%b"}]' % (b"x" * 5000), _NONE),
        (b'[{"score":1},{"score":1,"values":{"":1}}]', _NONE),
        (b'[{"score":1},{"score":1,"details":{"a":%s%s}}]' % (b"[" * 200, b"]" * 200), _NONE),
        (b'[{"score":1},%b]' % (b"[" * 5000 + b"]" * 5000), "scores that are no JSON"),
    ],
    ids=range(13),
)
def test_what_a_completion_forges_is_no_score(session: Session, scores: bytes | None, message: str) -> None:
    fields = [] if scores is None else [(SCORES, scores)]
    forged, honest = scored(session, "completion", FORGED.format(fields=fields), "answer = [0, 1]")
    kind, told = error_of(forged)
    assert kind == "crash"
    assert message in told
    assert forged.scores is None
    assert honest.score == 0.5


def test_a_grader_of_threads_that_forges_scores_of_a_group_has_none(session: Session) -> None:
    source = "async def grade(thread):\n    exec(thread.completion(), {})\n    return 1.0\n"
    forged, honest = Grader(session).load(source).score(FORGED.format(fields=[(SCORES, b'[{"score":1}]')]), "")
    assert error_of(forged)[0] == "crash"
    assert (forged.scores, honest.score) == (None, 1.0)


def test_a_half_surrogate_and_a_byte_order_mark_are_counted(session: Session) -> None:
    source = "async def grade(threads: list[StringThread]) -> list[float]:\n    return [1.0] * len(threads)\n"
    grader = Grader(session).load(source)
    half, whole = grader.score_threads([{"completions": ["a \ud83d", "b"]}, {"completions": ["ä"]}])
    assert [len(one.scores or []) for one in (half, whole)] == [2, 1]
