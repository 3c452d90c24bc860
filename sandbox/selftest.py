"""Run the hostile suite against this machine. `models.selftest` calls it and answers graders that ask."""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from sandbox import limits
from sandbox.backend_choice import choose
from sandbox.errors import IsolationUnavailable
from sandbox.hostile.cases import Case
from sandbox.hostile.corpus import corpus
from sandbox.hostile.surroundings import surroundings
from sandbox.hostile.trial import AnsweringBatches, attempt, attempt_again, is_late
from sandbox.hostile.watched import Watched
from sandbox.pool.pool import Pool
from sandbox.settings import SandboxSettings, settings_or_exit

_AT_ONCE = 4
_LOAD_S = 4.0
# The cases are written for these limits, whatever the settings of this machine are.
_LIMITS = {
    "processes": limits.PROCESSES,
    "scratch_files": limits.SCRATCH_FILES,
    "stdout_bytes": limits.STDOUT_BYTES,
    "text_bytes": limits.TEXT_BYTES,
}
# For each category, what its graders try, and the meaning of an attack that succeeds.
_CATEGORIES = {
    "syntax": ("sources that are hard to read", "a source can fool the checks, or hold them up"),
    "module": ("module bodies that work against their process", "a grader can hold up the service while it is loaded"),
    "execution": ("odd ends of `grade`", "an outcome can be lost or wrong"),
    "return": ("odd results and exceptions", "a score or an error message can be wrong"),
    "resource": ("taking time, memory, files, processes", "a grader can take from others what the machine has"),
    "escape": ("reaching files, networks, processes of the host", "a grader can get out: run no untrusted code here"),
    "calls": ("system calls that must be refused", "the seccomp filter is not in force: run no untrusted code here"),
    "cross": ("reaching another completion", "a completion can change what another is scored"),
    "channel": ("forging reports to the host", "a completion can write scores of others"),
    "asking": ("asking what is not theirs, or in another's place", "a completion can receive what others asked for"),
    "reuse": ("leaving something for the next batch", "a batch can change or read what another one says"),
    "left behind": ("", "sandboxes do not end as they should"),
}
_LATE = "this machine may be too busy: run the self-test again, with nothing beside it. If it is late again, report it"
_TRIED = [name for name, (tries, _) in _CATEGORIES.items() if tries]


@dataclass(frozen=True)
class Breach:
    """One attack that succeeded."""

    name: str
    category: str
    must: str
    faults: list[str]
    means: str


@dataclass(frozen=True)
class Result:
    """The result of all attacks."""

    backend: str
    user: int
    seconds: float
    tried: dict[str, int]
    breaches: list[Breach]


def run(settings: SandboxSettings, only: Collection[str], show: bool, answering: AnsweringBatches) -> Result:
    """Runs every case that applies to the backend, or only those of the categories in `only`. Raises
    IsolationUnavailable.
    """
    started = time.monotonic()
    with surroundings() as around:
        backend = Watched(choose(settings))
        cases = [case for case in corpus() if case.concerns(backend.name) and (not only or case.category in only)]
        with Pool(backend, settings) as pool:
            attempted = partial(attempt, pool=pool, canaries=around.canaries, answering=answering)
            breaches = list(attack(cases, attempted, show))
        if left := backend.left() + around.left():
            breaches.append(_breach("what was left", "left behind", "nothing is left of a sandbox", left))
    tried = dict(Counter(case.category for case in cases))
    return Result(backend.name, os.geteuid(), time.monotonic() - started, tried, breaches)


def attack(cases: Sequence[Case], attempted: Callable[[Case], list[str]], show: bool = False) -> Iterator[Breach]:
    """Attempts all cases, several at once, and yields what got through. Those that were only late are attempted again,
    alone. `show`: with a progress bar.
    """
    late = []
    with ThreadPoolExecutor(_AT_ONCE) as several:
        running = {several.submit(attempted, case): case for case in cases}
        done = track(as_completed(running), "attacking", len(cases), console=Console(stderr=True), disable=not show)
        for future in done:
            case, faults = running[future], future.result()
            if is_late(faults):
                late.append(case)
            elif faults:
                yield _breach(case.name, case.category, case.must, faults)
    for case in late:
        if faults := attempt_again(attempted, case):
            yield _breach(case.name, case.category, case.must, faults)


def _breach(name: str, category: str, must: str, faults: list[str]) -> Breach:
    return Breach(name, category, must, faults, _LATE if is_late(faults) else _CATEGORIES[category][1])


def main(answering: AnsweringBatches) -> int:
    """Prints the results; `answering` answers graders that ask. Returns 0 if all attacks held, 1 if one did not or
    took too long, 2 if none could be tried, 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog="gradebox selftest", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print machine-readable output")
    parser.add_argument("--category", action="append", choices=_TRIED, help="only graders of this kind")
    arguments = parser.parse_args()
    as_json = arguments.json
    try:
        result = run(settings_or_exit(load_s=_LOAD_S, **_LIMITS), arguments.category or (), not as_json, answering)
    except IsolationUnavailable as error:
        Console(stderr=True).print(
            f"gradebox: no sandbox can be started here, so nothing was tried: {escape(str(error))}"
        )
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("gradebox: interrupted\n")
        return 130
    if as_json:
        sys.stdout.write(json.dumps({"held": not result.breaches, **asdict(result)}, indent=2) + "\n")
    else:
        _show(result)
    return 1 if result.breaches else 0


def _show(result: Result) -> None:
    console = Console()
    table = Table("category", "what was tried", "graders", "held", title_justify="left")
    table.title = f"backend {result.backend}, user {result.user}, {result.seconds:.0f} s"
    through = Counter(breach.category for breach in result.breaches)
    for category, (tries, _) in _CATEGORIES.items():
        if number := result.tried.get(category):
            held = number - through[category]
            table.add_row(category, tries, str(number), f"[{'green' if held == number else 'red'}]{held}[/]")
    console.print(table)
    for breach in result.breaches:
        kind = "[yellow]late[/]" if is_late(breach.faults) else "[red]breach[/]"
        console.print(f"{kind} [bold]{escape(_plain(breach.name))}[/] ({breach.category})", soft_wrap=True)
        console.print(f"  must: {escape(breach.must)}", soft_wrap=True)
        for fault in breach.faults:
            console.print(f"  happened: {escape(_plain(fault))}", soft_wrap=True)
        console.print(f"  means: {breach.means}", soft_wrap=True)
    total = sum(result.tried.values())
    late = sum(is_late(breach.faults) for breach in result.breaches)
    if number := len(result.breaches) - late:
        console.print(
            f"[red]{number} of {total} attacks got through.[/] "
            "Run no untrusted code here, and please report it as SECURITY.md describes."
        )
    if late:
        console.print(f"[yellow]{late} of {total} attacks took too long[/], so it is not known whether they hold.")
    if not result.breaches:
        console.print(f"All {total} attacks held.")


def _plain(text: str) -> str:
    """Escapes control sequences for terminals, which a grader may have written."""
    return text.encode("unicode_escape").decode()[:1000]
