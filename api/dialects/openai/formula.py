"""`calculate_output` of multi graders: the arithmetic of `gradebox.judges.formula`, refused in OpenAI's form."""

from collections.abc import Collection, Mapping

from api.dialects.openai.refused import OpenAIProblem
from gradebox.judges import formula
from gradebox.judges.formula import Undefined

__all__ = ["OpenAIFormula", "Undefined"]

_PARAM = "grader.calculate_output"


class OpenAIFormula:
    """A formula that names nothing but these graders and the eight functions. Raises OpenAIProblem where it does."""

    def __init__(self, text: str, graders: Collection[str]) -> None:
        try:
            self._formula = formula.Formula(text, graders)
        except formula.FormulaError as error:
            raise OpenAIProblem(str(error), _PARAM) from error

    def value(self, scores: Mapping[str, float]) -> float:
        """What the formula comes to. Raises Undefined where that is no finite number."""
        return self._formula.value(scores)
