"""The base class of the wire schemas."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

from gradebox.options import check_known

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


class StrictSchema(Schema):
    """The base class of schemas that users construct. An unknown member is a TypeError, except in JSON, which a newer
    service may have sent.
    """

    @model_validator(mode="before")
    @classmethod
    def _check_known(cls, members: Any, info: ValidationInfo) -> Any:
        if info.mode == "python" and isinstance(members, Mapping):
            check_known(members, cls.model_fields, cls.__name__)
        return members
