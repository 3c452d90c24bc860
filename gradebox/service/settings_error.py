"""The error message for an invalid setting."""

from pydantic import ValidationError


def fault_of(error: ValidationError) -> str:
    """The first invalid environment variable and its error, without its value, which may be a secret."""
    fault = error.errors(include_url=False)[0]
    return f"GRADEBOX_{str(fault['loc'][0]).upper()} is invalid: {fault['msg'].removeprefix('Value error, ')}"
