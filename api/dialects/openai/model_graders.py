"""Runs model graders. Each is converted to a source that asks through `gradebox.asks`, and runs in a sandbox.

Templates are filled in here. The sandbox gets the messages as the turns of a thread.
"""

from functools import partial
from json import JSONEncoder

import msgspec

from api.access.callers import Caller
from api.dialects.openai import templates
from api.dialects.openai.graders import LabelModel, ScoreModel, texts_of
from api.dialects.openai.problems import OpenAIProblem
from api.dialects.openai.sample import Sample
from api.http.problems import too_large
from api.services import Services
from gradebox.asks.schema import object_of
from gradebox.outcome import Outcome
from models.asks.ask_context import AskContext
from models.scoring.asking_scorer import AskingScorer
from sandbox.grader_source import GraderSource
from sandbox.grading.source_bytes import SourceRefused, from_bytes
from sandbox.limits import TIMEOUT_S

_STEP = object_of({"description": {"type": "string"}, "conclusion": {"type": "string"}})
_SCHEMA = object_of({"steps": {"type": "array", "items": _STEP}, "result": {"type": "number"}})
_HOW = (
    "\n\nAnswer with one JSON object and nothing around it, which fits this schema. `steps` are your reasoning, and "
    f"`result` is the score:\n{JSONEncoder().encode(_SCHEMA)}"
)
_SCORE = """\
from gradebox import Model, StringThread

MODEL = Model({model!r})
SCHEMA = {schema!r}
HOW = {how!r}


async def grade(thread: StringThread) -> float:
    messages = [{{"role": role, "content": content}} for role, content in thread.get_turns()]
    messages[-1]["content"] += HOW
    reply = await MODEL.chat(messages, schema=SCHEMA, **{options!r})
    return float(min(max(reply.data["result"], {low!r}), {high!r}))
"""
_LABEL = """\
from gradebox import Model, StringThread

MODEL = Model({model!r})


async def grade(thread: StringThread) -> float:
    messages = [{{"role": role, "content": content}} for role, content in thread.get_turns()]
    verdict = await MODEL.choose(messages, {labels!r}, **{options!r})
    return float(verdict.option in {passing!r})
"""


def check(services: Services, caller: Caller, grader: ScoreModel | LabelModel, param: str) -> GraderSource:
    """Returns the source. Raises OpenAIProblem if the project does not have the model, or the source is too long."""
    source = _source_of(caller, grader, param)
    if missing := services.answering(caller.project).missing([_ask(grader)]):
        raise OpenAIProblem(missing, f"{param}.model", "unknown-model")
    return source


def run(services: Services, caller: Caller, grader: ScoreModel | LabelModel, sample: Sample, param: str) -> Outcome:
    """Runs the grader on one sample.

    Raises:
        Unresolved: a template contains an unknown name.
        OpenAIProblem: the grader is at fault, whatever the sample.
        ProblemError: the messages are too long, or it took too long.
        Stopped: the client disconnected.
        InfrastructureError: no sandbox is available.
    """
    source = check(services, caller, grader, param)
    line = _line(grader, sample, param, services.line_bytes)
    context = AskContext(caller.project, "", f"openai:{grader.kind}", asks={_ask(grader): ""})
    scorer = AskingScorer(partial(services.pool.grading, source), services.asker, context)
    outcomes = scorer.score(line, 0, grader.kind, 1, stop=caller.should_stop)
    if not outcomes:
        raise caller.why(f"{param} did not finish")
    return outcomes[0]


def _ask(grader: ScoreModel | LabelModel) -> str:
    return f"model:{grader.model}"


def _source_of(caller: Caller, grader: ScoreModel | LabelModel, param: str) -> GraderSource:
    options = grader.sampling_params.options()
    if isinstance(grader, LabelModel):
        passing = tuple(grader.passing_labels)
        text = _LABEL.format(model=grader.model, labels=grader.labels, passing=passing, options=options)
    else:
        low, high = grader.range
        text = _SCORE.format(model=grader.model, schema=_SCHEMA, how=_HOW, options=options, low=low, high=high)
    try:
        source = from_bytes(text.encode())
    except SourceRefused as refused:
        raise OpenAIProblem(f"the labels are too long: {refused}", param) from refused
    timeout_s = min(TIMEOUT_S, caller.limits.timeout_s)
    return GraderSource(source, "completion", timeout_s, caller.limits.memory_mb, project=caller.project)


def _line(grader: ScoreModel | LabelModel, sample: Sample, param: str, longest: int) -> bytes:
    turns: list[dict[str, str]] = []
    length = 0
    for number, message in enumerate(grader.input):
        texts: list[str] = []
        for text in texts_of(message.content, f"{param}.input[{number}]"):
            texts.append(templates.render(text, sample.names, f"{param}.input[{number}]"))
            length += len(texts[-1])
            if length > longest:
                raise too_large(f"the messages are longer than {longest} characters together: send less")
        role = "system" if message.role == "developer" else message.role
        turns.append({"role": role, "content": "\n".join(texts)})
    line = msgspec.json.encode({"messages": turns})
    if len(line) > longest:
        raise too_large(f"the messages are longer than {longest} bytes together: send less")
    return line
