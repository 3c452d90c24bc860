"""The grader of a batch of feedback. No project has it: it is generated each time, from what the feedback is on."""

import hashlib
from datetime import UTC, datetime

from gradebox.judges.feedback import cut, settings_of
from gradebox.limits import MEMORY_MB, TIMEOUT_S
from gradebox.schemas import FeedbackOf, Version
from gradebox.thread_forms import METADATA
from storage.batch_plan import Wanted
from storage.graders.graders import Graders

GIVEN = "given"
_SOURCE_BYTES = 120_000  # of a source that is generated here
_PREFIX = "feedback/"  # of a key that no grader of a project can have

_SOURCE = """\
from gradebox import StringThread
from gradebox.judges.feedback import Feedback

feedback = Feedback(
    model={model!r},
    settings={settings!r},
    of={of!r},
    instructions={instructions!r},
    label={label!r},
    threshold={threshold!r},
    only_wrong={only_wrong!r},
)


async def grade(thread: StringThread) -> float:
    return await feedback(thread)
"""


def wanted(graders: Graders, project: str, of: FeedbackOf) -> Wanted:
    """The generated grader that gives the feedback, with the number of the version that the feedback is on.

    Raises:
        NotFound: the grader whose outcomes it is on was deleted.
    """
    key, _, number = of.grader.partition("@")
    (version, limits), grader = graders.version_and_limits(project, key, int(number)), graders.get(project, key)
    source = _source(of, settings_of(of.grader, version.kind, grader.description, version.config, version.source))
    made = Version(
        number=version.number,
        sha256=hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest(),
        source=source,
        isolation="batch",
        isolation_asked="batch",
        timeout_s=min(TIMEOUT_S, limits.get("timeout_s", TIMEOUT_S)),
        memory_mb=int(min(MEMORY_MB, limits.get("memory_mb", MEMORY_MB))),
        asks=[f"model:{of.model}"],
        created_at=datetime.now(UTC),
    )
    return Wanted(_PREFIX + key, made)


def is_feedback(key: str) -> bool:
    """Whether this is the key of a generated grader that gives feedback."""
    return key.startswith(_PREFIX)


def _source(of: FeedbackOf, settings: str) -> str:
    """The source, with as much of the settings as fits: a character that is not printable takes ten bytes."""
    most = len(settings)
    while True:
        source = _SOURCE.format(
            model=of.model,
            settings=cut(settings, most),
            of=of.of,
            instructions=of.instructions,
            label=of.labels if of.labels is not None and of.labels.startswith(METADATA) else None,
            threshold=of.threshold,
            only_wrong=of.labels is not None and of.on == "failures",
        )
        if len(source.encode("utf-8", "surrogatepass")) <= _SOURCE_BYTES:
            return source
        most //= 2
