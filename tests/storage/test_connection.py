import pytest
from redis import Redis

from storage import names
from storage.connection import check_format
from storage.errors import UnknownFormat


def test_data_of_a_newer_gradebox_is_refused(redis: Redis) -> None:
    redis.set(names.FORMAT, 99)
    with pytest.raises(UnknownFormat, match="format 99"):
        check_format(redis)


def test_an_empty_redis_is_claimed_once(redis: Redis) -> None:
    check_format(redis)
    assert redis.get(names.FORMAT) == b"1"
