import pytest
from pydantic import ValidationError

from api.services import Services
from api.settings import ApiSettings
from sandbox.pool.pool import Pool
from storage.store import Store
from tests.api.in_process import asked


@pytest.mark.parametrize(
    ("value", "dialects"), [("reward, adaptive", ("reward", "adaptive")), ("openai", ("openai",)), ("", ())]
)
def test_dialects_are_names_with_commas(monkeypatch: pytest.MonkeyPatch, value: str, dialects: tuple[str, ...]) -> None:
    monkeypatch.setenv("GRADEBOX_DIALECTS", value)
    assert ApiSettings().dialects == dialects


def test_all_dialects_are_spoken_by_default() -> None:
    assert ApiSettings().dialects == ("adaptive", "langfuse", "openai", "promptfoo", "reward", "weave")


@pytest.mark.sandbox
def test_a_dialect_that_is_switched_off_is_not_there(store: Store, pool: Pool) -> None:
    services = Services(store, pool, ApiSettings(dialects=("adaptive",)))
    assert asked(services, "/api/graphql").status_code == 405
    assert asked(services, "/openai/v1/models").status_code == 404


@pytest.mark.parametrize("value", ["", "x" * 16])
def test_a_secret_for_langfuse_is_long_or_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("GRADEBOX_LANGFUSE_SECRET", value)
    secret = ApiSettings().langfuse_secret
    assert (secret.get_secret_value() if secret else "") == value
    assert value not in repr(ApiSettings()) or not value


@pytest.mark.parametrize("value", ["", "*", "10.0.0.1", "10.0.0.0/8, ::1"])
def test_proxies_are_addresses_and_networks_or_any(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("GRADEBOX_PROXIES", value)
    assert ApiSettings().proxies == value


_PROXIES = ("nginx", "10.0.0.1/8", "300.1.1.1", "10.0.0.1,*", "10.0.0.1 10.0.0.2")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SCORE_THREADS", "100001", "less than or equal to 100000"),
        ("SCORE_MB", "65", "less than or equal to 64"),  # the shortest memory for bodies
        ("BATCH_THREADS", "50000001", "less than or equal to 50000000"),
        ("BATCH_GRADERS", "65", "less than or equal to 64"),
        ("DIALECTS", "esperanto", "'adaptive', .* or 'weave'"),
        ("LANGFUSE_SECRET", "x" * 15, "at least 16 characters, and has 15"),
        *(("PROXIES", value, r"such as 10\.0\.0\.1, nor a network") for value in _PROXIES),
        ("IDEMPOTENCY_S", str(10**16), "less than or equal to 315360000"),  # Redis would not take it
        *(("STOP_S", value, "less than or equal to 86400") for value in ("inf", "1e30")),  # no clock can wait so long
    ],
)
def test_what_no_setting_can_be_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    monkeypatch.setenv(f"GRADEBOX_{name}", value)
    with pytest.raises(ValidationError, match=said):
        ApiSettings()
