"""Contracts between modules that import-linter does not bring itself; `pyproject.toml` names them."""

from __future__ import annotations

import sys
from typing import Any

from importlinter import Contract, ContractCheck, fields, output


class ClosedContract(Contract):
    """What a part of the project may know, as a list of what is allowed: itself, the standard library, and no more.

    `modules`, with all that is in them, import nothing else of the project; one in parentheses need not exist yet. Of
    other packages they import the `third_party` ones alone, or any if that is not given.
    """

    type_name = "closed"

    modules = fields.ListField(subfield=fields.StringField())
    third_party = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        missing = [root for root in self.modules if root not in graph.modules and not root.startswith("(")]
        if missing:
            return ContractCheck(kept=False, metadata={"more": [], "missing": missing})
        roots = [name for root in self.modules if (name := root.strip("()")) in graph.modules]
        inside = {module for root in roots for module in (root, *graph.find_descendants(root))}
        more = [
            (module, imported, graph.get_import_details(importer=module, imported=imported)[0]["line_number"])
            for module in sorted(inside)
            for imported in sorted(graph.find_modules_directly_imported_by(module) - inside)
            if not self._may_import(imported)
        ]
        return ContractCheck(kept=not more, metadata={"more": more, "missing": []})

    def _may_import(self, module: str) -> bool:
        package = module.partition(".")[0]
        if package in sys.stdlib_module_names:
            return True
        ours = package in self.session_options["root_packages"]
        return not ours and (self.third_party is None or package in self.third_party)

    def render_broken_contract(self, check: ContractCheck) -> None:
        for module in check.metadata["missing"]:
            output.print_error(f"{module} does not exist; in parentheses it need not")
        for module, imported, line in check.metadata["more"]:
            output.print_error(f"{module}:{line} imports {imported}, which is not allowed")
