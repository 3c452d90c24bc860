"""Limits of queries. The largest query of adaptive-sdk has 220 tokens, three aliases and five levels.

Strawberry's own limiters walk a fragment again for each use, so that forty fragments which each use the next one twice
keep them busy for years. These visit every definition once.
"""

from typing import Any

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    ValidationContext,
    ValidationRule,
)

TOKENS = 500
ALIASES = 10
DEPTH = 10


class Bounds(ValidationRule):
    """Refuses a query that is nested too deep or has too many aliases."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        self._aliases = 0
        self._depths: dict[str, int] = {}

    def enter_field(self, node: FieldNode, *_: Any) -> None:
        """Counts the aliases of all fields, including those in fragments."""
        self._aliases += node.alias is not None
        if self._aliases == ALIASES + 1:
            self.report_error(GraphQLError(f"the query has more than {ALIASES} aliases: ask in several requests", node))

    def enter_operation_definition(self, node: OperationDefinitionNode, *_: Any) -> None:
        """Checks the depth of each operation."""
        if self._depth(node.selection_set) > DEPTH:
            self.report_error(GraphQLError(f"the query is more than {DEPTH} levels deep: ask for less at once", node))

    def _depth(self, selections: SelectionSetNode | None) -> int:
        return max((self._depth_of(node) for node in selections.selections), default=0) if selections else 0

    def _depth_of(self, node: object) -> int:
        if isinstance(node, FieldNode):
            return 1 + self._depth(node.selection_set)
        if isinstance(node, InlineFragmentNode):
            return self._depth(node.selection_set)
        assert isinstance(node, FragmentSpreadNode)
        name = node.name.value
        if name not in self._depths:
            self._depths[name] = 0  # another rule refuses recursive fragments
            fragment = self.context.get_fragment(name)
            if isinstance(fragment, FragmentDefinitionNode):
                self._depths[name] = self._depth(fragment.selection_set)
        return self._depths[name]
