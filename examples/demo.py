"""A demo of gradebox that takes a minute: `make demo`, or `python -m examples.demo`.

Starts the service in a new folder, uploads the example graders, scores the bundled completions with all of them,
prints the results, and removes everything.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

import gradebox
from examples.model_server import ModelServer, Script
from gradebox.outcome import completion_scores

HERE = Path(__file__).parent
COMPLETIONS = HERE / "completions.jsonl"
GRADERS = ["exact_match", "regex_match", "json_shape", "keywords", "gsm8k_answer", "code_execution"]
START_S, STOP_S = 90.0, 20.0
ENDLESS_REGEX_S = 1.0
SAMPLES_EACH = 2
TEST_RUN_THREADS = 5
MODEL_ANSWERS_S = 0.05

PREFERRED = ("sorry", "Monday", "!")  # words that the scripted model prefers
ANSWERS = {
    "prompt": "Where is my parcel?",
    "completions": [
        "Look at the tracking page.",
        "I am sorry that it is late. It arrives on Monday, and shipping is on us!",
        "It arrives on Monday.",
        "Oh, I am so sorry! That must be annoying.",
    ],
}

REJECTED = """\
async def grade(thread):
    if thread.completion() == "4":
        return "correct"
    return "wrong"
"""

console = Console(highlight=False)


class DemoFailed(Exception):
    """The demo failed, for the reason in the message."""


def main() -> int:
    """Runs the demo. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="demo", description="Shows the whole of gradebox on this machine.")
    parser.add_argument("--backend", choices=["auto", "bubblewrap", "docker"], default="auto")
    backend = parser.parse_args().backend
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs the finally blocks, which stop the service
    try:
        with service(backend) as (url, key), gradebox.Client(url=url, api_key=key) as client:
            show(client)
    except (DemoFailed, gradebox.GradeboxError) as error:
        console.print(Text(f"The demo failed: {error}", style="red"))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


@contextmanager
def service(backend: str) -> Iterator[tuple[str, str]]:
    """Starts a service on a free port; yields its URL and API key. Stops it and removes its data at the end."""
    folder = Path(tempfile.mkdtemp(prefix="gradebox-demo-"))
    try:
        with (folder / "log").open("w+") as log:
            command = [sys.executable, "-m", "gradebox", "serve", "--port", "0", "--backend", backend]
            process = subprocess.Popen(
                [*command, "--data-dir", str(folder / "data")], stdout=log, stderr=log, start_new_session=True
            )
            try:
                url = wait_until_ready(process, folder / "log")
                yield url, (folder / "data" / "api-key").read_text().strip()
            finally:
                stop(process)
    finally:
        shutil.rmtree(folder)


def wait_until_ready(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """The URL that the service prints once it is ready.

    Raises:
        DemoFailed: the service ended, or was not ready in time.
    """
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        ended = process.poll()
        text = log.read_text(errors="replace")
        if found := re.search(r"is ready at (\S+)", text):
            return found.group(1)
        if ended is not None:
            raise DemoFailed(f"`gradebox serve` ended with status {ended}:\n{text[-4000:]}")
        time.sleep(0.05)
    raise DemoFailed(f"`gradebox serve` was not ready after {START_S:g} s:\n{log.read_text(errors='replace')[-4000:]}")


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Stops the service; kills it if that takes too long."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise DemoFailed(f"the service had not stopped {STOP_S:g} s after it was asked to") from None


def show(client: gradebox.Client) -> None:
    """Runs all steps of the demo."""
    heading("Uploading graders: each is proved in a sandbox before it is kept")
    keys = [upload(client, name) for name in GRADERS]
    heading("A grader that is not right is told so, and nothing of it is kept")
    reject(client)
    heading("Scoring the bundled completions with all of them")
    batch = client.batches.create(keys, COMPLETIONS)
    batch.wait(progress=True)
    console.print(table(batch.summary))
    for each in batch.summary:
        for warning in each.warnings:
            console.print(Text(f"{each.grader}: {warning}", style="yellow"))
    heading("What graders said of single completions")
    show_outcomes(batch.outcomes())
    script = Script(yes_if="Here is", prefers=PREFERRED, latency_s=MODEL_ANSWERS_S)
    with ModelServer(script) as server:
        heading("A judge asks a model: here a small program that plays one, on this machine")
        judge(client, server.base_url)
        heading("A judge compares the answers to one prompt, each two of them, in both orders")
        rank(client)


def judge(client: gradebox.Client, base_url: str) -> None:
    """Registers the model, uploads a grader that asks it, and scores the completions."""
    client.models.create("small-judge", base_url=base_url, model="scripted", input_price=0.5, output_price=1.5)
    key = upload(client, "explained_code")
    batch = client.batches.create(key, COMPLETIONS)
    batch.wait(progress=True)
    (summary,) = batch.summary
    console.print(table([summary]))
    if (spent := summary.spent) is None:
        raise DemoFailed("a judge asked nothing")
    console.print(
        f"{summary.not_applicable:,} of {summary.count:,} threads ask for no code: neither a score nor an error.\n"
        f"For the others it asked {spent.asks:,} times. {spent.kept:,} of these asks had a reply that was kept.\n"
        f"At 0.5 and 1.5 USD for a million input and output tokens, that cost {spent.usd:.4f} USD."
    )
    show_outcomes(batch.outcomes())


def rank(client: gradebox.Client) -> None:
    """Compares answers with each other, and prints their ranking."""
    client.graders.create.pairwise_judge(
        key="ranking",
        criterion="The better answer is polite, and says what happens next.",
        judge_model="small-judge",
        check_positional_bias=True,
    )
    (outcome,) = client.score("ranking", [ANSWERS])
    if outcome.scores is None:
        raise DemoFailed(f"the answers were not compared: {outcome.error}")
    drawn = Table(Column("rank", justify="right"), Column("win rate", justify="right"), "won against", "answer")
    places = [(one.score, dict(one.details or {})) for one in completion_scores(outcome)]
    for score, details in sorted(places, key=lambda place: place[1]["ranking"]):
        number = details["response"]
        won = [str(other) for contest in details["contests"] if contest["won"] for other in contest["against"]]
        drawn.add_row(
            str(details["ranking"]),
            f"{score:.3f}",
            ", ".join(won) or "none",
            f"{number}: {ANSWERS['completions'][number - 1]}",
        )
    console.print(drawn)


def upload(client: gradebox.Client, name: str) -> str:
    """Uploads one of the example graders; returns its key."""
    module = import_module(f"examples.graders.{name}")
    key = name.replace("_", "-")
    description = (module.__doc__ or "").splitlines()[0]
    # The search for the pattern of one sample does not end. It delays the batch by this time.
    timeout_s = ENDLESS_REGEX_S if name == "regex_match" else None
    with COMPLETIONS.open() as lines:  # the grader reads metadata, so the test run needs threads with metadata
        threads = [json.loads(line) for line in islice(lines, TEST_RUN_THREADS)]
    grader = client.graders.create.function(
        key=key, fn=module.grade, description=description, timeout_s=timeout_s, threads=threads
    )
    named = f"{key}@{grader.version}"
    line(Text.assemble((f"  {named:<18}", "bold"), f"isolation {grader.isolation:<12}{description}"))
    return key


def reject(client: gradebox.Client) -> None:
    """Uploads a grader that returns strings instead of numbers, which must fail."""
    console.print(Text(REJECTED, style="dim"))
    try:
        client.graders.create.function(key="rejected", fn=REJECTED)
    except gradebox.ValidationError as error:
        console.print(Text(str(error)))
    else:
        raise DemoFailed("a grader that returns no number was accepted")


def table(summaries: list[gradebox.Summary]) -> Table:
    """A table with a row for each grader."""
    drawn = Table(
        "grader", *(Column(name, justify="right") for name in ("count", "mean", "p50", "errors", "time each"))
    )
    for each in summaries:
        errors = ", ".join(f"{count} {kind}" for kind, count in each.errors.items() if count) or "none"
        numbers = [f"{value:.3f}" if value is not None else "-" for value in (each.mean, each.quantiles.get("p50"))]
        run_ms = f"{each.run_ms_mean:.3f} ms" if each.run_ms_mean is not None else "-"
        drawn.add_row(each.grader, f"{each.count:,}", *numbers, errors, run_ms)
    return drawn


def show_outcomes(outcomes: Iterator[gradebox.Outcome]) -> None:
    """Prints all errors and, for each grader, a few outcomes with a reason."""
    shown: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.error is not None:
            text = f"{outcome.error.kind}: {outcome.error.message}"
        elif outcome.reason and outcome.score != 1 and shown.get(outcome.grader, 0) < SAMPLES_EACH:
            shown[outcome.grader] = shown.get(outcome.grader, 0) + 1
            text = outcome.reason
        else:
            continue
        score = "no score" if outcome.score is None else f"{outcome.score:8.3f}"
        line(Text(f"  {outcome.id}  {outcome.grader:<18} {score}  {' '.join(text.split())}"))


def line(text: Text) -> None:
    """Prints one line, cut at the terminal's width."""
    console.print(text, no_wrap=True, overflow="ellipsis")


def heading(text: str) -> None:
    """Prints a heading."""
    console.print(Text(f"\n{text}", style="bold cyan"))


if __name__ == "__main__":
    sys.exit(main())
