"""The full view of one row of a batch's table."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from api.http.problems import invalid, too_large
from api.intake.grader_of_batch import refuse_feedback
from api.services import Services
from gradebox import group_forms, thread_forms
from gradebox.outcome import Outcome, OutcomeDecoder, PlainOutcome, read_outcomes
from gradebox.schemas import Batch
from gradebox.schemas.outcome_table import MOST_PICKED
from storage.batches import batch_threads
from storage.errors import NotFound
from storage.outcomes import outcomes
from storage.spool.blocks import lines_of
from storage.store import Store
from ui.samples import SAMPLES_SHOWN, is_sample
from ui.templates import MOST_SHOWN, as_json, long_page
from ui.visits import visit

_PARSED_BYTES = 256 * 1024  # longer threads are shown as the raw line
_TURNS_SHOWN = 500
_MEMBERS_SHOWN = 50  # completions of a group
RANDOM = 20  # number of threads picked at random
_decode_lines = OutcomeDecoder(PlainOutcome).decode_lines


_Turns = Sequence[tuple[str, str, str]]
"""Role, content, and the other fields of the message as JSON, such as its tool calls."""


class _Member(NamedTuple):
    """A thread of a group for display. Its turns and metadata are without those that the whole group has."""

    turns: _Turns
    metadata: str
    more_turns: int


class _Thread(NamedTuple):
    """A thread or a group for display: its turns and metadata, and the members of a group; or only the raw line if it
    is neither, or is too long. `is_sample`: whether the editor can test it.
    """

    line: str
    turns: _Turns = ()
    metadata: str = ""
    more_turns: int = 0
    members: Sequence[_Member] = ()
    more_members: int = 0
    is_sample: bool = True


async def show(request: Request) -> Response:
    """Show a thread and its outcomes: in a dialog over the table, or as a page."""
    who = await visit(request)
    text = request.path_params["index"]
    if not (text.isascii() and text.isdigit() and len(text) < 8):
        raise invalid(f"{text!r:.40} is not the index of a thread: write a number from 0")
    batch_id = request.path_params["batch"]
    batch, said, thread = await who.services.read(request, _read, who.services, who.project, batch_id, int(text))
    graders = [str(one) for one in batch.graders]
    values: dict[str, Any] = {
        "visit": who,
        "batch": batch,
        "index": int(text),
        "graders": graders,
        "outcomes": sorted(said, key=lambda one: (one.grader not in graders, one.grader)),
        "thread": thread,
        "of": asked if (asked := request.query_params.get("grader")) in graders else graders[0],
        "in_dialog": "hx-request" in request.headers,
    }
    if values["in_dialog"]:
        return await long_page(request, "_row.html", **values)
    return await long_page(request, "row.html", here="batches", **values)


def _read(services: Services, project: str, batch_id: str, index: int) -> tuple[Batch, list[Outcome], _Thread]:
    batch = services.store.batches.get(project, batch_id)
    line = _line(services, batch, index)
    shown = _shown(line)._replace(is_sample=is_sample(line))
    said = b"".join(outcomes.read_picked(services.store.batches, batch.id, [index]))
    return batch, read_outcomes(said), shown


def outcomes_of(store: Store, batch_id: str, indices: Sequence[int]) -> Iterator[PlainOutcome]:
    """Yield the outcomes of some threads, in thread order. Those of groups may take megabytes each."""
    for block in outcomes.read_picked(store.batches, batch_id, indices):  # of whole threads
        yield from _decode_lines(block)


def _line(services: Services, batch: Batch, index: int) -> bytes:
    """The line of a thread, as it was sent. Raises NotFound."""
    store = services.store
    if index >= batch.threads:
        raise NotFound(f"batch {batch.id} has no thread {index}: its threads are 0 to {batch.threads - 1}")
    return b"".join(batch_threads.read_picked(store.batches, batch.id, [index])).rstrip(b"\n")


def _shown(line: bytes) -> _Thread:
    text = line.decode("utf-8", "replace")
    cut = text[:MOST_SHOWN] + "…" * (len(text) > MOST_SHOWN)
    if len(line) > _PARSED_BYTES:
        return _Thread(cut)
    try:
        value = json.loads(text)
        return _group(cut, value) if _is_group(value) else _single(cut, value)
    except (ValueError, RecursionError):
        return _Thread(cut)


def _is_group(value: object) -> bool:
    return type(value) is dict and thread_forms.is_group(value)


def _single(cut: str, value: object) -> _Thread:
    turns, metadata = _read_turns(value)
    shown, more = _texts(turns, _TURNS_SHOWN)
    return _Thread(cut, shown, as_json(metadata) if metadata else "", more)


def _read_turns(value: object) -> tuple[_Turns, dict[str, Any]]:
    """The turns of a thread, and its metadata. Raises ValueError."""
    turns, metadata, messages = thread_forms.read(value, keep_unknown=True)
    more = [{name: message[name] for name in message.keys() - {"role", "content"}} for message in messages or ()]
    texts = [json.dumps(one, ensure_ascii=False, sort_keys=True) if one else "" for one in more] or [""] * len(turns)
    return [(str(role), str(content), text) for (role, content), text in zip(turns, texts, strict=True)], metadata


def _group(cut: str, value: object) -> _Thread:
    """A group, with the turns and the metadata that all members share only once."""
    members = group_forms.members(value)
    read = [_read_turns(one) for one in members[:_MEMBERS_SHOWN]]
    shared = _shared([turns for turns, _ in read])
    same = read[0][1]
    has_same = all(metadata == same for _, metadata in read)
    most_turns, most_text = _TURNS_SHOWN // len(read), MOST_SHOWN // len(read)
    shown = [
        _Member(texts, as_json(metadata, most_text) if metadata and not has_same else "", more)
        for turns, metadata in read
        for texts, more in [_texts(turns[shared:], most_turns)]
    ]
    above, more_turns = _texts(read[0][0][:shared], _TURNS_SHOWN)
    metadata = as_json(same) if same and has_same else ""
    return _Thread(cut, above, metadata, more_turns, shown, len(members) - len(shown))


def _shared(threads: Sequence[_Turns]) -> int:
    """The number of first turns that all threads have, without the last turn of any."""
    most = max(0, min(map(len, threads)) - 1)
    first = threads[0]
    return next((n for n in range(most) if any(turns[n] != first[n] for turns in threads)), most)


def _texts(turns: _Turns, most: int) -> tuple[_Turns, int]:
    """The first `most` turns, and the number of the others."""
    return turns[:most], max(0, len(turns) - most)


def samples(services: Services, project: str, place: str) -> str:
    """Return the threads at `batch:index,index`, or random ones at `batch:random`, as samples for the editor: one per
    line, as many as the editor takes. Lines that are no JSON objects are left out: the test would score them.

    Raises:
        ProblemError: `place` is invalid, has too many threads, its first thread is too long, or none is a JSON object.
        NotFound, Refused: the batch or a thread does not exist.
    """
    batch_id, _, listed = place.partition(":")
    store = services.store
    batch = store.batches.get(project, batch_id, summary=False)
    refuse_feedback(batch)
    if listed == "random":
        picked = random.sample(range(batch.threads), min(batch.threads, RANDOM))
        listed = ",".join(map(str, sorted(picked)))
    indices = listed.split(",")
    if not all(index.isascii() and index.isdigit() and len(index) < 8 for index in indices):
        raise invalid(f"{place!r:.60} does not name threads: write BATCH:INDEX, or BATCH:INDEX,INDEX")
    if len(indices) > MOST_PICKED:
        raise invalid(f"there are {len(indices)} threads, and at most {MOST_PICKED} can be taken at once")
    blocks = batch_threads.read_picked(store.batches, batch.id, [int(index) for index in indices])
    taken: list[str] = []
    size = 0
    for number, line in zip(indices, lines_of(blocks), strict=True):
        if not is_sample(line):
            continue
        if not taken and len(line) > SAMPLES_SHOWN:
            raise too_large(
                f"thread {int(number)} has {len(line)} bytes, and the editor takes samples of {SAMPLES_SHOWN}: score "
                "it with `gradebox score`"
            )
        size += len(line)
        if size > SAMPLES_SHOWN:
            break
        taken.append(line.decode())
    if not taken:
        raise invalid(f"{place!r:.60} has no thread to test: each of its lines is not a JSON object, and is bad_input")
    return "\n".join(taken) + "\n"
