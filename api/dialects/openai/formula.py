"""`calculate_output` of multi graders: the arithmetic of `gradebox.judges.formula`, with errors in OpenAI's form."""

from collections.abc import Collection, Mapping

from api.dialects.openai.refused import OpenAIProblem
from gradebox.judges import formula
from gradebox.judges.formula import Undefined

__all__ = ["OpenAIFormula", "Undefined"]

_PARAM = "grader.calculate_output"


class OpenAIFormula:
    """A formula that refers only to these graders and the eight functions. Raises OpenAIProblem if it uses others."""

    def __init__(self, text: str, graders: Collection[str]) -> None:
        try:
            self._formula = formula.Formula(text, graders)
        except formula.FormulaError as error:
            raise OpenAIProblem(str(error), _PARAM) from error

    def value(self, scores: Mapping[str, float]) -> float:
        """The formula's value. Raises Undefined if it is not a finite number."""
        return self._formula.value(scores)
