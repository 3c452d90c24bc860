"""A contract for import-linter: some modules import only the named ones and the standard library."""

import sys
from collections.abc import Iterable

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class OnlyContract(Contract):
    """`modules` and their submodules import only `allowed`, the submodules of those, and the standard library."""

    modules = fields.ListField(subfield=fields.StringField())
    allowed = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Checks direct imports only: our modules that may be imported are in `modules` too."""
        modules: Iterable[str] = self.modules  # type: ignore[assignment]
        allowed = (*modules, *self.allowed)  # type: ignore[misc]
        wrong = [
            f"{module} imports {imported}"
            for module in sorted(graph.modules)
            if _is_in(module, modules)
            for imported in sorted(graph.find_modules_directly_imported_by(module))
            if imported.partition(".")[0] not in sys.stdlib_module_names and not _is_in(imported, allowed)
        ]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints the wrong imports."""
        for line in check.metadata["wrong"]:
            output.print_error(line)


def _is_in(module: str, parents: Iterable[str]) -> bool:
    return any(module == parent or module.startswith(f"{parent}.") for parent in parents)
