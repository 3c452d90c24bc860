"""A score that says why.

Graders see this class inside the sandbox, so this module imports nothing but the standard library.
"""


class Score(float):
    """A float with a reason: `return Score(0.0, reason="no e-mail address found")`.

    It is a float everywhere else: it adds, compares and prints as one.
    """

    __slots__ = ("reason",)

    reason: str | None

    def __new__(cls, value: float, reason: str | None = None) -> "Score":  # noqa: D102  # the class says it
        score = super().__new__(cls, value)
        score.reason = reason
        return score

    def __reduce__(self) -> "tuple[type[Score], tuple[float, str | None]]":
        return Score, (float(self), self.reason)
