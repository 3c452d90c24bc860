"""Tests of environments over HTTP. tests/gradebox/test_environments.py builds some."""

import hashlib
import io
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import IO
from unittest.mock import Mock
from zipfile import ZipInfo

import httpx
import pytest

from api.routes import environments
from api.services import READS_AT_ONCE
from sandbox.environments import PYTHON
from storage import redis_keys
from storage.environments.environment_builds import Made
from storage.janitor import Janitor
from tests.api.conftest import PROJECT, Service, answer_of, comes_early, create, problem
from tests.storage.environments.test_environments import claimed
from tests.wheels import zip_of
from worker.environments.data_zip import check as checked
from worker.environments.settings import EnvironmentSettings

PATH = f"{PROJECT}/environments"
CONTENT = b"content"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ZIP = {"Content-Type": "application/zip"}


@pytest.fixture
def on(service: Service) -> Iterator[None]:
    """Allows environments. No worker builds them here."""
    before = service.services.environments
    service.services.environments = EnvironmentSettings(environments="on")
    yield
    service.services.environments = before


def test_nobody_may_build_unless_the_operator_says_so(client: httpx.Client) -> None:
    answer = client.post(PATH, json={"key": "math", "packages": ["sympy"]})
    assert "GRADEBOX_ENVIRONMENTS=on" in problem(answer, 403, "forbidden")
    problem(client.post(f"{PATH}/data", content=zip_of({"a": ""}), headers=ZIP), 403, "forbidden")
    assert client.get(PATH).json() == []


@pytest.mark.usefixtures("on")
def test_one_is_made_and_read(client: httpx.Client, service: Service) -> None:
    made = answer_of(client.post(PATH, json={"key": "math", "packages": ["SymPy == 1.14", "numpy"]}), 202)
    assert made["builds"][0]["packages"] == ["numpy", "sympy==1.14"]
    assert client.get(PATH).json() == [made]

    service.store.builds.fail(claimed(service.store.builds), "no wheels")
    found = client.get(f"{PATH}/math", params={"wait_s": 5}).json()
    assert (found["state"], found["builds"][0]["reason"]) == ("failed", "no wheels")
    assert client.put(f"{PATH}/math", json={"packages": ["numpy"]}).json()["build"] == 2
    problem(client.post(PATH, json={"key": "math", "packages": ["numpy"]}), 409, "conflict")
    assert client.delete(f"{PATH}/math").status_code == 204
    problem(client.get(f"{PATH}/math"), 404, "not-found")


@pytest.mark.usefixtures("on")
def test_an_update_takes_a_place_that_projects_share(client: httpx.Client, service: Service) -> None:
    """It may read all versions of the project's graders, for a build that none of them names."""
    client.post(PATH, json={"key": "math", "packages": ["numpy"]})
    service.store.builds.fail(claimed(service.store.builds), "no wheels")
    update = partial(client.put, f"{PATH}/math", json={"packages": ["numpy"]})
    assert not comes_early(service.services.reading.shares, READS_AT_ONCE // 2, update)


@pytest.mark.usefixtures("on")
def test_an_answer_waits_for_the_next_step_and_asks_redis_for_nothing_meanwhile(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.post(PATH, json={"key": "math", "packages": ["numpy"]})
    looks = Mock(side_effect=service.store.environments.newest)
    monkeypatch.setattr(service.store.environments, "newest", looks)
    waited = client.get(f"{PATH}/math", params={"wait_s": 2})
    assert (waited.elapsed.total_seconds() >= 2, looks.call_count <= 3) == (True, True)
    assert waited.json()["builds"][0]["step"] == "waiting"

    claim = claimed(service.store.builds)
    for step in ("resolving", "compiling"):
        with ThreadPoolExecutor() as waiting:
            found = waiting.submit(client.get, f"{PATH}/math", params={"wait_s": 20})
            time.sleep(0.3)
            service.store.builds.renew(claim, step)
            answer = found.result()
        assert answer.json()["builds"][0]["step"] == step
        assert answer.elapsed.total_seconds() < 5


@pytest.mark.usefixtures("on")
def test_data_of_one_project_is_checked_beside_that_of_another(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.store.projects.ensure("other")
    small, large, goes_on = zip_of({"a": ""}), zip_of({"large": ""}), Event()

    def check(sent: IO[bytes], most_mb: int) -> list[ZipInfo]:
        if b"large" in sent.read():
            goes_on.wait(20)
        sent.seek(0)
        return checked(sent, most_mb)

    monkeypatch.setattr(environments, "check", check)
    with ThreadPoolExecutor() as sending:
        send = partial(client.post, f"{PATH}/data", content=large, headers=ZIP)
        first = [sending.submit(send) for _ in range(4)]
        time.sleep(0.3)
        answer = client.post("/v1/projects/other/environments/data", content=small, headers=ZIP, timeout=10)
        goes_on.set()
        assert answer.status_code == 201
        assert {one.result().status_code for one in first} == {201}


@pytest.mark.usefixtures("on")
def test_data_is_sent_and_named(client: httpx.Client, service: Service) -> None:
    packed = zip_of({"corpora/stopwords/english": "the\n", "b": "12"})
    sent = client.post(f"{PATH}/data", content=packed, headers=ZIP)
    sha256 = hashlib.sha256(packed).hexdigest()
    assert (sent.status_code, sent.json()) == (201, {"sha256": sha256, "size_bytes": 6, "files": 2})
    assert client.post(f"{PATH}/data", content=packed, headers=ZIP).json() == sent.json()

    made = answer_of(client.post(PATH, json={"key": "words", "data": sha256}), 202)
    assert (made["builds"][0]["data"], made["builds"][0]["packages"]) == (sha256, [])
    lent = claimed(service.store.builds)
    assert lent.data == sha256
    service.store.builds.fail(lent, "no room")
    for body, found in (({"packages": ["nltk"]}, (["nltk"], sha256)), ({"data": ""}, (["nltk"], ""))):
        build = client.put(f"{PATH}/words", json=body).json()["builds"][0]
        assert (build["packages"], build["data"]) == found
        while claim := service.store.builds.claim():
            service.store.builds.fail(claim, "no room")
    problem(client.put(f"{PATH}/words", json={"packages": []}), 422, "invalid-request")
    problem(client.post(PATH, json={"key": "more", "data": "0" * 64}), 404, "not-found")
    problem(client.post(PATH, json={"key": "more", "data": "../" * 21 + "a"}), 422, "invalid-request")
    client.post("/v1/projects", json={"key": "other"}).raise_for_status()
    problem(client.post("/v1/projects/other/environments", json={"key": "w", "data": sha256}), 404, "not-found")


@pytest.mark.usefixtures("on")
def test_data_that_cannot_be_is_refused_at_once(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = service.store.spool.batches()
    monkeypatch.setattr(service.services.pool.environments, "most_mb", 1)
    bomb = zip_of({"zeros": "0" * (2 << 20)})
    for content, told in ((b"a,b", "no zip file"), (zip_of({"../a": ""}), "below its folder"), (bomb, "MiB unpacked")):
        assert told in problem(client.post(f"{PATH}/data", content=content, headers=ZIP), 422, "invalid-request")
    problem(
        client.post(f"{PATH}/data", content=b"{}", headers={"Content-Type": "text/csv"}), 415, "unsupported-media-type"
    )
    monkeypatch.setattr(service.services, "environments", EnvironmentSettings(environments="on", environment_data_mb=1))
    large = client.post(f"{PATH}/data", content=bytes(2 << 20), headers=ZIP)
    assert "GRADEBOX_ENVIRONMENT_DATA_MB" in problem(large, 413, "too-large")
    service.store.redis.delete(redis_keys.ARCHIVES_LOOK)
    assert Janitor(service.store, None).look()
    assert service.store.spool.batches() == before


@pytest.mark.usefixtures("on")
@pytest.mark.parametrize(
    "body",
    [
        {"key": "math", "packages": ["a @ https://example.org/a.whl"]},
        {"key": "math", "packages": ["-r x.txt"]},
        {"key": "math", "packages": []},
        {"key": "math", "packages": "numpy"},
        {"key": "Math", "packages": ["numpy"]},
        {"key": "math"},
        {"key": "math", "requirements": ["numpy"]},
        {"key": "math", "packages": ["numpy"], "index": "https://example.org"},
    ],
)
def test_what_cannot_be_asked_for(client: httpx.Client, body: dict[str, object]) -> None:
    problem(client.post(PATH, json=body), 422, "invalid-request")


@pytest.mark.usefixtures("on")
def test_a_grader_needs_a_build_that_is_ready(client: httpx.Client, service: Service) -> None:
    source = "async def grade(thread):\n    return 1.0\n"
    wanted = {"key": "in-math", "source": source, "environment": "math"}
    problem(client.post(f"{PROJECT}/graders", json=wanted), 404, "not-found")
    client.post(PATH, json={"key": "math", "packages": ["numpy"]})
    assert "still being built" in problem(client.post(f"{PROJECT}/graders", json=wanted), 409, "conflict")
    problem(client.post(f"{PROJECT}/validate", json={"source": source, "environment": "math@1"}), 409, "conflict")
    problem(client.post(f"{PROJECT}/validate", json={"source": source, "environment": "a b"}), 422, "invalid-request")
    problem(
        client.post(f"{PROJECT}/validate", json={"source": source, "environment": "math@0"}), 422, "invalid-request"
    )


@pytest.mark.usefixtures("on")
@pytest.mark.parametrize(
    ("python", "stored", "build"),
    [(PYTHON, CONTENT, 1), (PYTHON, None, 2), (PYTHON, CONTENT[:-1], 2), ("3.1", CONTENT, 2)],
)
def test_a_build_that_cannot_be_used_gives_no_score_and_the_same_packages_are_built_anew(
    client: httpx.Client, service: Service, python: str, stored: bytes | None, build: int
) -> None:
    client.post(PATH, json={"key": "math", "packages": ["numpy"]})
    if stored is not None:
        service.store.archives.keep(SHA256, io.BytesIO(stored))
    service.store.builds.finish(claimed(service.store.builds), Made([], SHA256, python, 1, 1))
    wanted = {"source": "async def grade(thread):\n    return 1.0\n", "environment": "math"}
    if python != PYTHON:
        said = problem(client.post(f"{PROJECT}/validate", json=wanted), 409, "conflict")
        assert "math@1 was built for Python 3.1, and the service has" in said
    elif stored != CONTENT:
        said = problem(client.post(f"{PROJECT}/validate", json=wanted), 503, "build-unusable")
        what = "are gone from" if stored is None else "were changed or cut off in"
        assert f"{what} the service's storage: update the environment with the same packages" in said
        create(client)  # other graders still work
    assert client.put(f"{PATH}/math", json={"packages": ["numpy"]}).json()["build"] == build
