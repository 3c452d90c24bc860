"""The base class of the wire schemas."""

from pydantic import BaseModel, ConfigDict

KEY_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}(?!\n)$"  # `$` alone would also match before a trailing newline
_LINE = 200  # characters of a `repr`


class Schema(BaseModel):
    """The base class of all schemas."""

    model_config = ConfigDict(frozen=True)

    def __str__(self) -> str:
        return repr(self)

    def _in_brackets(self, text: str) -> str:
        """The `repr` of an object with many fields: its class and one line of text."""
        line = " ".join(text.split())
        return f"<{type(self).__name__} {line if len(line) <= _LINE else line[:_LINE] + '…'}>"
