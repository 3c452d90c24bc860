"""How large a query may be: the largest that adaptive-sdk sends has 220 tokens, three aliases and five levels.

Strawberry's own limiters walk each use of a fragment again, so that forty fragments which name the next one twice
keep them busy for years; these look at every definition once.
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
    """Refuses a query that nests too deep or has too many aliases."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        self._aliases = 0
        self._depths: dict[str, int] = {}

    def enter_field(self, node: FieldNode, *_: Any) -> None:
        """Each field of the document, those in fragments too."""
        self._aliases += node.alias is not None
        if self._aliases == ALIASES + 1:
            self.report_error(GraphQLError(f"the query has more than {ALIASES} aliases: ask in several requests", node))

    def enter_operation_definition(self, node: OperationDefinitionNode, *_: Any) -> None:
        """Each operation of the document."""
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
            self._depths[name] = 0  # a fragment that names itself is refused by another rule
            fragment = self.context.get_fragment(name)
            if isinstance(fragment, FragmentDefinitionNode):
                self._depths[name] = self._depth(fragment.selection_set)
        return self._depths[name]
