"""`gradebox run`"""

from pathlib import Path
from typing import Annotated

import typer

from gradebox.cli.environments import Data, RequirementsFile, packages_of
from gradebox.cli.files import ColumnChoice, ContractChoice, FunctionChoice, GraderFile
from gradebox.cli.grader_options import IsolationChoice, MemoryMb, TimeoutS
from gradebox.cli.server import RoleBackend


def run(
    file: GraderFile,
    threads: Annotated[
        Path | None, typer.Option("--threads", metavar="FILE.jsonl", help="Threads to score, one per line; - is stdin.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT.jsonl", help="File for the outcomes; - is stdout.")
    ] = None,
    column: ColumnChoice = None,
    isolation: IsolationChoice = None,
    timeout_s: TimeoutS = None,
    memory_mb: MemoryMb = None,
    package: Annotated[
        list[str] | None,
        typer.Option(metavar="PACKAGE", help="A package to import, such as sympy==1.14. May be repeated."),
    ] = None,
    requirements: RequirementsFile = None,
    data: Data = None,
    contract: ContractChoice = "gradebox",
    function: FunctionChoice = None,
    backend: RoleBackend = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Checks a grader and scores threads with it in a sandbox of this machine: no service is needed, nothing is kept.

    Packages and data are built into an environment on this machine, which later runs with the same ones use again.

    Exits 0 when the grader is valid and a completion has a score, 1 when not, 2 when there is no sandbox or no such
    file.
    """
    from gradebox.service.server_programs import become

    given = {
        "--threads": threads,
        "--output": output,
        "--isolation": isolation,
        "--timeout-s": timeout_s,
        "--memory-mb": memory_mb,
        "--contract": contract,
        "--function": function,
        "--data": data,
    }
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    options += [f"--package={one}" for one in packages_of(package, requirements)]
    columns = [f"--column={one}" for one in column or ()]
    become("worker.run_file", [*options, *columns, *["--json"] * json, "--", str(file)], {"backend": backend})
