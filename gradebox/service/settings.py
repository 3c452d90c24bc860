"""What is said of a setting that is not as it should be."""

from pydantic import ValidationError


def fault_of(error: ValidationError) -> str:
    """The environment variable that is at fault, and what is wrong with it. Its value may be a secret."""
    fault = error.errors(include_url=False)[0]
    return f"GRADEBOX_{str(fault['loc'][0]).upper()} is not as it should be: {fault['msg']}"
