"""Tests of environments from the client and the command line, against a real service."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gradebox.client import AsyncClient, Client
from gradebox.errors import (
    ApiError,
    Conflict,
    EnvironmentFailed,
    GradeboxError,
    GraderWarning,
    NotFound,
    SourceError,
    ValidationError,
)
from tests.gradebox.conftest import Service, serving
from tests.wheels import folder_for_environments, make_wheel, zip_of

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

SOURCE = """
import shouting

async def grade(thread: StringThread) -> float:
    return float(shouting.LOUDNESS)
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "shouting", {"shouting/__init__.py": "LOUDNESS = 0.25\n"})
    make_wheel(folder, "shouting", {"shouting/__init__.py": "LOUDNESS = 0.75\n"}, "2.0")
    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Iterator[Service]:
    """A service that builds only from the wheels of these tests."""
    folder = tmp_path_factory.mktemp("service")
    with folder_for_environments() as unpacked:
        settings = {"environments_dir": str(unpacked), "environments_index": wheels.as_uri(), "workers": "1"}
        with serving(folder, **settings) as running:
            yield running


@pytest.fixture(scope="module")
def client(own: Service) -> Iterator[Client]:
    with own.client() as client:
        yield client


@pytest.fixture(scope="module")
def shouting(client: Client) -> str:
    client.environments.create("shouting", packages=["shouting==1.0"], progress=False)
    return "shouting"


def test_a_grader_imports_what_its_environment_has(client: Client, shouting: str) -> None:
    with pytest.warns(GraderWarning, match='in a process of its own.*: shouting. If .* isolation "batch"'):
        grader = client.graders.create.function(key="loud", fn=SOURCE, environment=shouting)

    assert (grader.environment and grader.environment.label) == "shouting@1"
    assert grader.isolation == "completion"  # the package may run text as code
    assert grader.memory_mb == 512
    assert [outcome.score for outcome in grader.score([{"completion": "a"}])] == [0.25]
    batch = client.batches.create("loud", [{"completion": "a"}] * 3)
    assert batch.rewards() == [0.25] * 3


@pytest.mark.filterwarnings("error::gradebox.GraderWarning")
def test_who_chooses_an_isolation_is_not_warned_of_it(client: Client, shouting: str) -> None:
    grader = client.graders.create.function(key="chosen", fn=SOURCE, environment=shouting, isolation="batch")
    assert grader.isolation == "batch"


def test_a_new_build_leaves_the_versions_that_are_there_as_they_are(client: Client, shouting: str) -> None:
    client.environments.create("moving", ["shouting==1.0"], progress=False)
    old = client.graders.create.function(key="moving", fn=SOURCE, environment="moving")

    updated = client.environments.update("moving", packages=["shouting==2.0"], progress=False)
    same = client.environments.update("moving", ["shouting == 2.0"], progress=False)
    again = client.graders.update("moving", fn=SOURCE)
    new = client.graders.update("moving", environment="moving")

    assert (updated.build, same.build) == (2, 2)
    assert again.version == old.version == 1  # the grader keeps its build, so nothing has changed
    assert (new.version, new.environment and new.environment.label) == (2, "moving@2")
    scored = [client.score("moving", [{"completion": "a"}], version)[0].score for version in (1, 2)]
    assert scored == [0.25, 0.75]
    assert new.update(environment="moving@1").environment == old.environment


def test_an_environment_that_a_grader_names_cannot_be_deleted(client: Client) -> None:
    client.environments.create("held", ["shouting==1.0"], progress=False)
    client.graders.create.function(key="holder", fn=SOURCE, environment="held@1")

    with pytest.raises(Conflict, match="holder"):
        client.environments.delete("held")
    client.graders.delete("holder")
    client.environments.delete("held")

    with pytest.raises(NotFound):
        client.environments.get("held")
    with pytest.raises(NotFound):
        client.graders.create.function(key="holder", fn=SOURCE, environment="held")
    assert client.environments.create("held", ["shouting==1.0"], progress=False).build == 2  # numbers are not reused


def test_put_creates_an_environment_and_builds_again_only_what_is_different(client: Client, words: Path) -> None:
    with pytest.raises(ApiError, match="nothing to build"):
        client.environments.put("again")
    with ThreadPoolExecutor(4) as several:  # each process of a training puts the same environment
        puts = [several.submit(client.environments.put, "again", ["shouting==1.0"], progress=False) for _ in range(4)]
    assert [put.result().build for put in puts] == [1] * 4
    for packages in (["shouting==1.0"], None):
        assert client.environments.put("again", packages, data=words, progress=False).build == 2


def test_what_cannot_be_built_says_why(client: Client) -> None:
    with pytest.raises(EnvironmentFailed, match="no-such-package"):
        client.environments.create("broken", ["no-such-package"], progress=False)
    with pytest.raises(Conflict, match="could not be built"):
        client.graders.create.function(key="in-broken", fn=SOURCE, environment="broken")
    with pytest.raises(ApiError, match="URL"):
        client.environments.create("url", ["a @ https://example.org/a-1.0-py3-none-any.whl"])


READS = """
import os
from pathlib import Path

async def grade(thread: StringThread) -> float:
    words = (Path(os.environ["ENVIRONMENT_DATA"]) / "lists" / "words.txt").read_text().split()
    return float(thread.completion() in words)
"""


@pytest.fixture
def words(tmp_path: Path) -> Path:
    (tmp_path / "data" / "lists").mkdir(parents=True)
    (tmp_path / "data" / "lists" / "words.txt").write_text("cat dog")
    (tmp_path / "elsewhere").write_text("linked")
    (tmp_path / "data" / "linked").symlink_to(tmp_path / "elsewhere")
    return tmp_path / "data"


def test_a_grader_reads_the_data_of_its_environment(client: Client, words: Path) -> None:
    environment = client.environments.create("words", data=words, progress=False)
    grader = client.graders.create.function(key="word", fn=READS, environment="words")
    threads = [{"completion": "cat"}, {"completion": "cow"}]
    assert [outcome.score for outcome in grader.score(threads)] == [1.0, 0.0]
    assert grader.isolation == "batch"  # there is no package that could run text
    assert environment.newest is not None and (environment.newest.files, environment.newest.lock) == (3, [])

    again = client.environments.update("words", data=str(words), progress=False)
    assert again.build == 1  # the same files are the same data
    (words / "lists" / "words.txt").write_text("cow")
    assert client.environments.update("words", data=words, progress=False).build == 2
    assert client.environments.update("words", ["shouting==1.0"], progress=False).build == 3
    assert client.graders.update("word", environment="words").environment is not None
    scored = [[outcome.score for outcome in client.score("word", threads, version)] for version in (1, 2)]
    assert scored == [[1.0, 0.0], [0.0, 1.0]]
    without = client.environments.update("words", data="", progress=False).newest
    assert without is not None and (without.data, [package.name for package in without.lock]) == ("", ["shouting"])
    with pytest.raises(ApiError, match="nothing to build"):
        client.environments.update("words", [], progress=False)


def test_the_client_that_awaits_sends_data_too(own: Service, words: Path) -> None:
    async def create() -> str:
        async with AsyncClient(own.url, own.key) as client:
            return (await client.environments.create("words-async", data=words, progress=False)).state

    assert asyncio.run(create()) == "ready"


def test_data_that_cannot_be_sent_is_told_of(client: Client, words: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.zip").write_text("none")
    for path, told in (("missing", "not there"), ("empty", "no file in"), ("text.zip", "no zip file")):
        with pytest.raises(GradeboxError, match=told):
            client.environments.create("untold", data=tmp_path / path)
    (words / "more").symlink_to(words / "lists")
    with pytest.raises(GradeboxError, match="link to a folder"):
        client.environments.create("untold", data=words)
    with pytest.raises(NotFound):
        client.environments.get("untold")


def test_a_zip_file_is_sent_as_it_is_by_a_command(own: Service, tmp_path: Path) -> None:
    packed = tmp_path / "words.zip"
    packed.write_bytes(zip_of({"lists/words.txt": "zebra"}))
    (tmp_path / "grader.py").write_text(READS)
    sha256 = hashlib.sha256(packed.read_bytes()).hexdigest()

    made = own.run("environments", "create", "zoo", "--data", str(packed))
    kept = own.run("environments", "update", "zoo", "shouting==1.0")
    shown = own.run("environments", "show", "zoo")
    without = own.run("environments", "update", "zoo", "--no-data")
    unclear = own.run("environments", "update", "zoo", "--no-data", "--data", str(packed))
    nothing = own.run("environments", "update", "zoo")
    missing = own.run("environments", "create", "none", "--data", str(tmp_path / "none"))

    assert "zoo@1 is ready: 0 packages, with data, 0 MiB" in made.stdout, made.stderr
    assert "zoo@2 is ready: 1 package, with data" in kept.stdout, kept.stderr
    assert shown.stdout.count(f"data {sha256[:12]}") == 2
    assert "zoo@3 is ready: 1 package, 0 MiB" in without.stdout, without.stderr
    assert (unclear.returncode, nothing.returncode, missing.returncode) == (2, 2, 2)


def test_without_one_a_check_says_how_to_make_one(client: Client) -> None:
    caught = "try:\n    import shouting\nexcept ImportError:\n    pass\nasync def grade(thread):\n    return 1.0\n"

    assert any("gradebox environments create" in warning for warning in client.graders.validate(caught).warnings)
    with pytest.raises(ValidationError, match="environment"):
        client.graders.create.function(key="without", fn=SOURCE)


def test_a_check_in_one_knows_what_it_has(client: Client, shouting: str) -> None:
    source = "try:\n    import whispering\nexcept ImportError:\n    pass\n" + SOURCE
    warnings = client.graders.validate(source, environment=shouting).warnings
    assert next(one for one in warnings if "cannot be imported" in one).startswith("line 2: `whispering`")
    assert not any("`shouting`" in warning for warning in warnings)


async def uses_a_package(thread: object) -> float:
    import shouting  # type: ignore[import-not-found]

    return float(shouting.LOUDNESS)


async def uses_a_module_of_its_own(thread: object) -> float:
    from tests.wheels import make_wheel

    return float(bool(make_wheel))


def test_a_function_may_import_packages_in_one(client: Client, shouting: str) -> None:
    with pytest.raises(SourceError):
        client.graders.create.function(key="fn", fn=uses_a_package)
    grader = client.graders.create.function(key="fn", fn=uses_a_package, environment=shouting)
    assert grader.score([{"completion": "a"}])[0].score == 0.25
    assert client.graders.update("fn", fn=uses_a_package, timeout_s=2).environment == grader.environment
    assert client.graders.put("fn", fn=uses_a_package, timeout_s=3).environment == grader.environment
    assert grader.update(uses_a_package, timeout_s=4).environment == grader.environment
    assert client.graders.validate(uses_a_package, grader="fn").valid
    assert client.graders.validate(SOURCE, grader="fn").valid
    assert not client.graders.validate(SOURCE, grader="fn", environment="").valid
    for without in (client.graders.update, client.graders.put):
        with pytest.raises(SourceError):
            without("fn", fn=uses_a_package, environment="")
    with pytest.raises(SourceError):
        client.graders.put("fn-new", fn=uses_a_package)
    own = client.graders.create.function(key="own", fn=uses_a_module_of_its_own, environment=shouting)
    assert own.score([{"completion": "a"}])[0].score == 1.0


def test_the_commands(own: Service, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# packages\nshouting[loud]==1.0\t# an old one\n\n")
    (tmp_path / "grader.py").write_text(SOURCE)
    key = "by-command"

    made = own.run("environments", "create", key, "-r", str(tmp_path / "requirements.txt"))
    listed = json.loads(own.run("environments", "list", "--json").stdout)
    shown = own.run("environments", "show", key)
    valid = own.run("validate", str(tmp_path / "grader.py"), "--environment", key)
    created = own.run("graders", "create", key, str(tmp_path / "grader.py"), "--environment", key)
    of_grader = own.run("graders", "show", key)
    exported = own.run("graders", "export", key)
    (tmp_path / "graders.jsonl").write_text(exported.stdout)
    imported = own.run("graders", "import", str(tmp_path / "graders.jsonl"), "--replace")
    refused = own.run("environments", "delete", key)
    nothing = own.run("environments", "create", "none")

    assert made.returncode == 0, made.stderr
    assert "by-command@1 is ready: 1 package," in made.stdout
    assert "by-command@1: " in made.stderr  # the progress
    (build,) = next(one["builds"] for one in listed if one["key"] == key)
    assert (build["state"], build["packages"]) == ("ready", ["shouting[loud]==1.0"])
    assert [(one["name"], one["version"]) for one in build["lock"]] == [("shouting", "1.0")]
    assert "shouting==1.0" in shown.stdout
    assert "warning: The package `shouting==1.0` does not have an extra named `loud`" in shown.stdout
    assert valid.returncode == created.returncode == 0, valid.stdout + created.stderr
    assert "by-command@1" in of_grader.stdout
    assert json.loads(exported.stdout)["versions"][0]["environment"] == key
    assert imported.returncode == 0, imported.stderr
    assert "by-command@1" in own.run("graders", "show", key).stdout
    assert refused.returncode == 1
    assert nothing.returncode == 2


def test_a_grader_without_an_environment_is_imported_without_one(own: Service, tmp_path: Path) -> None:
    with own.client() as client:
        client.environments.create("left", ["shouting"])
        client.graders.create.function(key="leaves", fn=SOURCE, environment="left")
        client.graders.update("leaves", fn="async def grade(thread):\n    return 0.5\n", environment="")
        file = str(tmp_path / "graders.jsonl")
        assert own.run("graders", "export", "leaves", "--all-versions", "-o", file).returncode == 0
        assert own.run("graders", "import", file, "--replace").returncode == 0
        used = [version.environment and version.environment.key for version in client.graders.versions("leaves")]
        assert used == ["left", None, "left", None]


def test_only_keys_that_manage_make_them(own: Service, client: Client) -> None:
    secret = client.keys.create("scorer", role="score").secret
    assert secret is not None
    with Client(own.url, secret) as scorer:
        with pytest.raises(ApiError, match="manage"):
            scorer.environments.create("mine", ["shouting"])
        assert scorer.environments.list() != []
    with own.client("another") as other, pytest.raises(NotFound):
        other.environments.get("shouting")
    actions = [line.action for line in client.audit()]
    assert "environment.create" in actions
