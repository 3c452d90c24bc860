import pytest

from storage.access import sessions
from storage.access.sessions import Sessions
from storage.store import Store


@pytest.fixture
def few(store: Store, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    monkeypatch.setattr(sessions, "MOST", 3, raising=False)
    return store.sessions


def test_a_key_has_only_so_many_sessions(store: Store, few: Sessions) -> None:
    other = few.begin("other")
    begun = [few.begin("mine") for _ in range(5)]
    assert [few.key_of(session) for session in begun] == [None, None, "mine", "mine", "mine"]
    assert few.key_of(other) == "other"
    assert len(store.redis.keys("gradebox:session:*")) == 4


def test_a_key_has_only_so_many_links(few: Sessions) -> None:
    made = [few.make_link("mine") for _ in range(4)]
    assert [few.take_link(token) for token in made] == [None, "mine", "mine", "mine"]
    assert few.take_link(made[-1]) is None
