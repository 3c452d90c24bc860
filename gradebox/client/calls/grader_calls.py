"""Requests about graders: to check, create and list them, and to score with them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec
from pydantic import TypeAdapter

from gradebox.client.calls.call import Call, encode
from gradebox.client.calls.paths import path_of, query
from gradebox.client.thread_line import Thread, to_line
from gradebox.client.threads import each_of
from gradebox.client.warned_answers import proved_grader
from gradebox.outcome import Outcome
from gradebox.schemas import GraderRecord, Isolation, Report, Version

PROOF_S = 320.0  # for the five checks: a sandbox, the import, and the test run
_CHECKED = "the grader is still being checked: the test run, which grades all test threads, may take a minute"
ASK_S = 600.0  # for one ask of a grader: the longest `timeout_s` of a model
COMPLETION_S = 5.0  # for one completion, unless the grader has a longer timeout
_graders = TypeAdapter(list[GraderRecord]).validate_json
_versions = TypeAdapter(list[Version]).validate_json


class _ScoreAnswer(msgspec.Struct):
    """`schemas.ScoreAnswer` with outcomes as the structs that users get, and without the summary."""

    outcomes: list[Outcome]


_score_answer = msgspec.json.Decoder(_ScoreAnswer)


def validate(
    project: str,
    source: str,
    threads: Sequence[Thread] | None = None,
    isolation: Isolation | None = None,
    grader: str | None = None,
    environment: str | None = None,
    ask: str | None = None,
) -> Call[Report]:
    """Runs the five checks; without threads, on those that stay with `grader`."""
    fields = {"source": source, "isolation": isolation, "grader": grader, "environment": environment, "ask": ask}
    path, body = path_of(project, "validate"), _to_prove(fields, threads)
    return Call("POST", path, Report.model_validate_json, body=body, work_s=PROOF_S, if_slow=_CHECKED)


def create_grader(
    project: str, fields: Mapping[str, Any], threads: Sequence[Thread] | None = None
) -> Call[GraderRecord]:
    """Creates a grader with its first version."""
    path, body = path_of(project, "graders"), _to_prove(fields, threads)
    return Call("POST", path, proved_grader, body=body, once=uuid4().hex, work_s=PROOF_S, if_slow=_CHECKED)


def list_graders(project: str, after: str = "") -> Call[list[GraderRecord]]:
    """Requests the project's graders with keys after `after`; the answer may hold only the first megabytes of them."""
    return Call("GET", path_of(project, "graders"), _graders, params=query(after=after or None))


def test_threads(project: str, key: str) -> Call[list[dict[str, Any]]]:
    """Requests the threads that stay with a grader."""
    return Call("GET", path_of(project, "graders", key, "threads"), msgspec.json.Decoder(dict[str, Any]).decode_lines)


def put_grader(
    project: str,
    key: str,
    fields: Mapping[str, Any],
    threads: Sequence[Thread] | None,
    if_version: int | None,
    known: GraderRecord | None,
) -> Call[GraderRecord]:
    """Gives a grader a new version, unless nothing changed: then warnings are issued only without `known`."""
    path, body = path_of(project, "graders", key), _to_prove(fields, threads)
    read = partial(proved_grader, known=known)
    once = uuid4().hex
    return Call("PUT", path, read, body=body, once=once, if_version=if_version, work_s=PROOF_S, if_slow=_CHECKED)


def list_versions(project: str, key: str, after: int) -> Call[list[Version]]:
    """Requests the versions of a grader after number `after`; the answer may hold only the first megabytes of them."""
    return Call("GET", path_of(project, "graders", key, "versions"), _versions, params=[("after", str(after))])


def get_version(project: str, key: str, number: int) -> Call[Version]:
    """Requests one version of a grader with its source."""
    return Call("GET", path_of(project, "graders", key, "versions", str(number)), Version.model_validate_json)


def score(project: str, key: str, version: int | None, lines: Sequence[bytes]) -> Call[list[Outcome]]:
    """Scores threads in one request."""
    return Call(
        "POST",
        path_of(project, "graders", key, "score"),
        lambda body: _score_answer.decode(body).outcomes,
        body=with_threads(encode({"version": version}), lines),
        work_s=COMPLETION_S * len(lines) + ASK_S,
    )


def _to_prove(fields: Mapping[str, Any], threads: Sequence[Thread] | None) -> bytes:
    """A JSON body with the fields of a grader, and the threads of its test run, if any."""
    if threads is None:
        return encode(fields)
    return with_threads(encode(fields), [to_line(thread, number) for number, thread in enumerate(each_of(threads))])


def with_threads(head: bytes, lines: Sequence[bytes]) -> bytes:
    """The encoded JSON object `head` with the encoded threads as another member."""
    comma = b"," if head != b"{}" else b""
    return b'%b%b"threads":[%b]}' % (head[:-1], comma, b",".join(lines))
