"""Tests of the storage settings."""

import pytest
from pydantic import ValidationError

from gradebox.service.settings_error import fault_of
from storage.settings import StorageSettings


@pytest.mark.parametrize("url", ["localhost", "http://127.0.0.1:6379", "redis://127.0.0.1:many"])
def test_a_url_that_is_not_of_redis_is_refused_by_the_name_of_its_setting(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        StorageSettings(redis_url=url)
    assert fault_of(refused.value).startswith("GRADEBOX_REDIS_URL is invalid: write redis://HOST")


@pytest.mark.parametrize("url", ["redis://:key@127.0.0.1:6379/3", "rediss://a.example", "unix:///run/redis.sock?db=1"])
def test_urls_of_redis_are_taken(url: str) -> None:
    assert StorageSettings(redis_url=url).redis_url == url


@pytest.mark.parametrize(
    "name", ["waiting_completions", "waiting_batches", "project_batches", "project_spool_gb", "audit_lines"]
)
def test_a_count_that_redis_would_not_take_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(ValidationError) as refused:
        StorageSettings.model_validate({name: 10**12})
    said = f"GRADEBOX_{name.upper()} is invalid: Input should be less than or equal to 1000000000"
    assert fault_of(refused.value) == said
