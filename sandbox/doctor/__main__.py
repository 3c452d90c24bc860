"""Test which layers of isolation are in force here. Each one is tried in a real sandbox, not looked up."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict
from shutil import which

from rich.console import Console
from rich.table import Table

from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.doctor import engine, inside, kernel
from sandbox.doctor.layer import Layer
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.grading.channel import Ended
from sandbox.settings import SandboxSettings, settings_or_exit

_ZYGOTE = "Without it sandboxes are as safe, and take 25 ms longer to start."


def bubblewrap(settings: SandboxSettings) -> Iterable[Layer]:
    """The layers of the bubblewrap backend, and of the kernel below it."""
    yield from kernel.examine()
    try:
        with closing(Bubblewrap(settings)) as backend:
            yield from inside.examine(backend, settings.processes)
            yield _zygote(backend)
    except (IsolationUnavailable, InfrastructureError, Ended) as error:
        namespaces = f"What was seen says why. If namespaces or mounts were refused: {kernel.NAMESPACES}"
        fix = namespaces if which("bwrap") else "Install it: see above."
        yield Layer("a sandbox, and a grader in it", False, str(error), fix=fix)
        return
    yield kernel.control_groups()


def _zygote(backend: Bubblewrap) -> Layer:
    seen = backend.why_no_zygote or "one was forked"
    return Layer("sandboxes forked from a zygote", backend.zygote is not None, seen, needed=False, fix=_ZYGOTE)


EXAMINED: dict[str, Callable[[SandboxSettings], Iterable[Layer]]] = {"bubblewrap": bubblewrap, "docker": engine.examine}


def is_safe(layers: Iterable[Layer]) -> bool:
    """Whether all layers that safety needs are in force."""
    return all(layer.in_force for layer in layers if layer.needed)


def main() -> int:
    """Prints the results. Returns 0 if a backend is safe, otherwise 1; 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="gradebox doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print machine-readable output")
    arguments = parser.parse_args()
    settings = settings_or_exit()
    names = list(EXAMINED) if settings.backend == "auto" else [settings.backend]
    try:
        backends = {name: list(EXAMINED[name](settings)) for name in names}
    except KeyboardInterrupt:
        sys.stderr.write("gradebox: interrupted\n")
        return 130
    safe = [name for name, layers in backends.items() if is_safe(layers)]
    if arguments.json:
        told = {name: [asdict(layer) for layer in layers] for name, layers in backends.items()}
        sys.stdout.write(json.dumps({"safe": bool(safe), "backends": told}, indent=2) + "\n")
    else:
        _show(backends, safe)
    return 0 if safe else 1


def _show(backends: dict[str, list[Layer]], safe: list[str]) -> None:
    console = Console()
    for name, layers in backends.items():
        _show_backend(console, name, layers)
    others = [name for name in backends if name not in safe]
    if not safe:
        console.print("[red]Not safe: the service refuses to start here.[/]")
    else:
        lacking = f" (not with {' or '.join(others)})" if others else ""
        console.print(f"Safe: graders can run here, with {' or '.join(safe)}{lacking}.")


def _show_backend(console: Console, name: str, layers: list[Layer]) -> None:
    table = Table("layer", "in force", "seen", title=f"backend {name}", title_justify="left")
    for layer in layers:
        mark = "[green]yes[/]" if layer.in_force else "[red]no[/]" if layer.needed else "[yellow]no[/]"
        table.add_row(layer.name, mark, layer.seen)
    console.print(table)
    for layer in layers:
        if not layer.in_force:
            console.print(f"[bold]{layer.name}[/]: {layer.fix}", soft_wrap=True)
    console.print()


if __name__ == "__main__":
    sys.exit(main())
