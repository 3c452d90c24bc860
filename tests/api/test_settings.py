import pytest
from pydantic import ValidationError

from api.settings import ApiSettings


@pytest.mark.parametrize(
    ("value", "dialects"), [("reward, adaptive", ("reward", "adaptive")), ("openai", ("openai",)), ("", ())]
)
def test_dialects_are_names_with_commas(monkeypatch: pytest.MonkeyPatch, value: str, dialects: tuple[str, ...]) -> None:
    monkeypatch.setenv("GRADEBOX_DIALECTS", value)
    assert ApiSettings().dialects == dialects


def test_all_dialects_are_spoken_by_default() -> None:
    assert ApiSettings().dialects == ("adaptive", "langfuse", "openai", "promptfoo", "reward", "weave")


def test_a_dialect_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADEBOX_DIALECTS", "esperanto")
    with pytest.raises(ValidationError, match=r"'adaptive', .* or 'weave'"):
        ApiSettings()
