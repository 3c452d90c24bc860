"""Arguments and options of the commands about graders."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from gradebox.limits import MAX_MEMORY_MB, MAX_TIMEOUT_S, MEMORY_MB, MIN_MEMORY_MB, TIMEOUT_S

Key = Annotated[str, typer.Argument(metavar="KEY", help="The grader's key.")]
Name = Annotated[str | None, typer.Option(help="A name for display.")]
Description = Annotated[str | None, typer.Option(help="What the grader looks for.")]
Isolation = Literal["auto", "batch", "completion"]  # a copy from the schemas, whose import would slow down `--help`
IsolationChoice = Annotated[
    Isolation | None,
    typer.Option(
        "--isolation",
        help="batch grades all completions in one process, completion each in its own; a new grader has auto, which "
        "takes completion if the source can run code of completions.",
    ),
]
OptionalFile = Annotated[
    Path | None, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The grader's source.")
]
KindChoice = Annotated[
    Literal[
        "binary_judge",
        "external",
        "judge",
        "faithfulness",
        "context_relevancy",
        "answer_relevancy",
        "checks",
        "combine",
        "multi_criteria",
        "pairwise_judge",
        "custom",
    ]
    | None,
    typer.Option("--kind", help="A kind whose source is generated; or custom, whose scores are recorded."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE.json", exists=True, dir_okay=False, help="The settings of the kind."),
]
Criteria = Annotated[
    str | None,
    typer.Option("--criteria", help="For a binary_judge or a judge: the criteria that a completion must meet."),
]
ModelKey = Annotated[
    str | None, typer.Option("--model", metavar="KEY", help="For a judge of any kind: the model that judges.")
]
EndpointKey = Annotated[
    str | None, typer.Option("--endpoint", metavar="KEY", help="For an external: the endpoint that scores.")
]
TimeoutS = Annotated[
    float | None,
    typer.Option(
        "--timeout-s", min=0.001, max=MAX_TIMEOUT_S, help=f"Seconds for one completion; {TIMEOUT_S:g} for a new grader."
    ),
]
EnvironmentKey = Annotated[
    str | None,
    typer.Option("--environment", metavar="KEY[@BUILD]", help="The environment with packages that it may import."),
]
AskChoice = Annotated[
    Literal["real", "stand-in"] | None,
    typer.Option(
        "--ask",
        help="What answers asks in the checks: models and endpoints (real, the default), or the smallest replies.",
    ),
]
MemoryMb = Annotated[
    int | None,
    typer.Option(
        "--memory-mb",
        min=MIN_MEMORY_MB,
        max=MAX_MEMORY_MB,
        help=f"MiB for the grader; {MEMORY_MB}, or 512 with packages, for a new one.",
    ),
]
