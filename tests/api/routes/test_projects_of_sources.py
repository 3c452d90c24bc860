"""Tests that each loaded source names its project, because a sandbox that has loaded a grader serves only one."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sandbox.grader_source import GraderSource
from sandbox.grading.grading import Grading
from sandbox.pool.pool import Pool
from storage.batch_plan import Wanted
from storage.queue.leases import Lease
from storage.store import Store
from tests.api.conftest import GOOD, Service
from tests.storage.making import accept, proved
from worker.loaded_grader import GraderCache

ROOT = Path(__file__).parents[3]
THREAD = {"messages": [{"role": "assistant", "content": "4"}], "metadata": {}}
OPENAI = {"type": "python", "name": "g", "source": "def grade(sample, item):\n    return 1.0\n"}


@pytest.fixture
def loaded(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[GraderSource]:
    """The sources that were requested from the pool."""
    asked: list[GraderSource] = []
    pool = service.services.pool
    grading = pool.grading

    @contextmanager
    def noting(source: GraderSource) -> Iterator[Grading]:
        asked.append(source)
        with grading(source) as found:
            yield found

    monkeypatch.setattr(pool, "grading", noting)
    return asked


@pytest.mark.sandbox
def test_every_route_says_whose_the_source_is(client: httpx.Client, loaded: list[GraderSource]) -> None:
    for project in ("one", "two"):
        assert client.post("/v1/projects", json={"key": project}).status_code == 201
        path = f"/v1/projects/{project}"
        adaptive = 'mutation { validateFunctionGrader(project: "%s", code: "%s") { valid } }'
        query = adaptive % (project, GOOD.replace("\n", "\\n"))
        answers = [
            client.post(f"{path}/graders", json={"key": "g", "source": GOOD}),
            client.put(f"{path}/graders/g", json={"source": f"{GOOD}\n# changed\n"}),
            client.post(f"{path}/validate", json={"source": GOOD}),
            client.post(f"{path}/graders/g/score", json={"threads": [THREAD]}),
            client.post(f"/reward/{project}/g/score", json={"turns": [{"role": "assistant", "content": "4"}]}),
            client.post("/api/graphql", json={"query": query}),
            *(
                client.post(
                    f"/openai/v1/fine_tuning/alpha/graders/{way}", json=body, headers={"openai-project": project}
                )
                for way, body in (
                    ("validate", {"grader": OPENAI}),
                    ("run", {"grader": OPENAI, "model_sample": "4", "item": {}}),
                )
            ),
        ]
        assert [answer.status_code for answer in answers if answer.is_error or "errors" in answer.json()] == []
        assert len(loaded) == len(answers)
        assert {source.project for source in loaded} == {project}
        loaded.clear()


@pytest.mark.sandbox
def test_a_worker_loads_one_source_anew_for_another_project(store: Store, pool: Pool) -> None:
    for project in ("one", "two"):
        store.projects.create(project, project, "")
        store.graders.create(project, "g", "g", "", proved(GOOD))
    with GraderCache(store, pool) as bench:
        for project in ("one", "two"):
            batch = accept(store, 1, Wanted("g", store.graders.version(project, "g")), project=project)
            plan = store.batches.plan(batch)
            assert plan is not None
            loaded = bench.load(Lease(batch, 0, 1), plan.scorers[0])
            assert loaded is not None and isinstance(loaded.grading, Grading)
            assert loaded.grading.session.source is not None and loaded.grading.session.source.project == project


def test_nothing_loads_a_source_without_a_project() -> None:
    """Checks the service. Tools without projects are in other folders."""
    calls = [
        (path, node)
        for room in ("api", "worker")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == GraderSource.__name__
    ]
    assert calls
    assert [
        f"{path}:{node.lineno}" for path, node in calls if "project" not in {word.arg for word in node.keywords}
    ] == []
