"""Tests of graders that an older gradebox kept in Redis before it could run graders of their kind."""

import pytest
from redis import Redis

from gradebox.judges.source import source_of
from gradebox.schemas import ModelDefaults
from storage.connection import check_format
from storage.errors import NotRunnable
from storage.store import Store
from tests.storage.making import load_keys


@pytest.fixture(autouse=True)
def _kept(redis: Redis, store: Store) -> None:
    load_keys(redis, "kept_graders.json")
    check_format(redis)


def model(store: Store, key: str) -> None:
    store.models.create("default", key, "http://127.0.0.1:1/v1", "m", "", ModelDefaults(), 5)


def lacks(store: Store, key: str) -> str:
    """What the grader lacks, as its record and the error of a score name it."""
    said = store.graders.shown("default", key).lacks
    assert said is not None
    with pytest.raises(NotRunnable) as refused:
        store.graders.runnable("default", key)
    assert said in str(refused.value)
    return said


def test_a_judge_runs_once_its_project_has_the_model(store: Store) -> None:
    said = lacks(store, "polite")
    assert "no model 'small-judge' (it has none)" in said
    assert "`gradebox models create small-judge" in said
    model(store, "small-judge")
    assert store.graders.shown("default", "polite").lacks is None
    before = store.graders.version("default", "polite")
    version = store.graders.runnable("default", "polite")
    assert before.config is not None
    assert version.config is not None
    assert (version.number, version.kind, version.asks) == (2, "binary_judge", ["model:small-judge"])
    assert version.source == source_of("binary_judge", version.config)
    settings = ("criteria", "model", "system_template", "user_template")
    assert {name: version.config[name] for name in settings} == {name: before.config[name] for name in settings}
    assert version.config["examples"][0]["output"] == "5, of course!"
    assert (version.timeout_s, version.memory_mb, version.created_at) == (5.0, 256, before.created_at)
    assert "was not proved" in version.warnings[0]
    assert store.graders.version("default", "polite") == version
    grader = store.graders.get("default", "polite")
    assert (grader.kind, grader.version, grader.sha256, grader.asks) == (
        "binary_judge",
        2,
        version.sha256,
        version.asks,
    )
    assert grader.locked


def test_what_came_to_run_is_kept_and_counted(store: Store, redis: Redis) -> None:
    model(store, "small-judge")
    first, second = (store.graders.runnable("default", "polite") for _ in range(2))
    assert first == second
    held = sum(len(value) for value in redis.hvals("gradebox:versions:default:polite"))
    assert int(redis.hget("gradebox:version-bytes:default", "polite") or 0) == held


def test_an_older_version_comes_to_run_by_itself(store: Store) -> None:
    model(store, "small-judge")
    version = store.graders.runnable("default", "polite", 1)
    assert version.config is not None
    assert (version.number, version.config["criteria"]) == (1, "The answer is <polite>")
    assert store.graders.get("default", "polite").kind == "judge"
    assert store.graders.runnable("default", "polite").number == 2


def test_an_external_runs_once_its_project_has_an_endpoint_of_its_url(store: Store) -> None:
    said = lacks(store, "far")
    assert "no endpoint at http://reward.example:9000/" in said
    assert "gradebox endpoints create" in said
    store.endpoints.create("default", "other", "http://reward.example:9001", "", 5)
    assert "no endpoint at" in lacks(store, "far")
    store.endpoints.create("default", "rewards", "http://reward.example:9000", "", 5)
    version = store.graders.runnable("default", "far")
    assert (version.config, version.asks) == ({"endpoint": "rewards"}, ["endpoint:rewards"])
    assert store.graders.shown("default", "far").lacks is None


def test_what_no_model_or_endpoint_mends_says_what_does(store: Store) -> None:
    model(store, "small-judge")
    said = lacks(store, "kind")
    assert "no model 'Qwen/Qwen3-8B' (it has small-judge)" in said
    assert "models create" not in said  # no model can have this key
    assert "`gradebox graders update kind --model MODEL`" in said
    assert "batch.record" in lacks(store, "own")
