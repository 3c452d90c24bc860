"""Tests of projects, users and refusals through unmodified adaptive-sdk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.api.dialects.adaptive.conftest import refused
from tests.gradebox.conftest import Service

if TYPE_CHECKING:
    from adaptive_sdk import Adaptive

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

SOURCE = "async def grade(thread):\n    return 1.0\n"


def client_of(service: Service, key: str) -> Adaptive:
    from adaptive_sdk import Adaptive

    return Adaptive(base_url=service.url, api_key=key)


def test_a_project_is_created_found_and_listed(sdk: Adaptive) -> None:
    key = f"p-{uuid4().hex[:8]}"
    made = sdk.projects.create(key, name="Sums", description="of the autumn")

    assert (made.key, made.name, made.description) == (key, "Sums", "of the autumn")
    assert (made.metrics, made.model_services, made.shares) == ([], [], [])
    assert made.permissions == ["read", "score", "manage"]
    for ref in (key, made.id):
        assert sdk.projects.get(ref).model_dump() == made.model_dump()
    assert made.id in [one.id for one in sdk.projects.list()]
    assert sdk.projects.create(f"{key}-2").name == f"{key}-2"
    with refused(r"there is a project .* already"):
        sdk.projects.create(key)
    with refused(r"\$\.key"):
        sdk.projects.create("No Key")


def test_a_graders_metric_is_of_its_project(sdk: Adaptive, project: str) -> None:
    grader = sdk.graders.create.function(key="one", fn=SOURCE)
    described = sdk.projects.get()
    assert [(one.id, one.key) for one in described.metrics] == [(grader.metric.id, "one")]
    assert described.metrics[0].created_at.startswith("20")
    keys = [one.key for one in sdk.feedback.list_keys()]
    assert "one" in keys
    assert sdk.feedback.get_key(project, "one").id == grader.metric.id


def test_a_project_that_is_not_there_is_none_or_named_as_the_sdk_does(sdk: Adaptive) -> None:
    from adaptive_sdk.error_handling import AdaptiveEntityNotFoundError

    assert sdk.projects.get("nowhere") is None
    graders = sdk.graders
    create = partial(graders.create.function, key="x", fn=SOURCE)
    for call in (graders.list, partial(graders.get, grader_key="x"), create, partial(graders.create.custom, key="x")):
        with pytest.raises(AdaptiveEntityNotFoundError, match=r"create it with `client.projects.create`"):
            call(project="nowhere")


def test_there_are_no_teams_to_share_with(sdk: Adaptive, project: str) -> None:
    with refused("gradebox keys create NAME --covers"):
        sdk.projects.share(project, team="t", role="admin")
    assert sdk.projects.unshare(project, team="t").shares == []
    with refused("has no teams"):
        sdk.projects.create("x", team="t")


def test_me_is_the_api_key(sdk: Adaptive) -> None:
    me = sdk.users.me()
    assert (me.name, me.teams) == ("first", [])


def test_a_wrong_key_is_told_in_words(service: Service) -> None:
    for key in ("wrong", service.key[:-1]):
        with refused("the API key is unknown or revoked"):
            client_of(service, key).projects.list()


def test_a_key_sees_its_own_projects(service: Service, project: str) -> None:
    from adaptive_sdk.error_handling import AdaptiveEntityNotFoundError

    key = service.client().keys.create("one", [project], role="manage").secret
    assert key is not None
    own = client_of(service, key)

    assert [one.key for one in own.projects.list()] == [project]
    assert own.projects.get("default") is None
    with pytest.raises(AdaptiveEntityNotFoundError):
        own.graders.list(project="default")
    with refused("'manage' for every project"):
        own.projects.create("mine")
    assert own.graders.create.custom(key="own", project=project).key == "own"


@pytest.mark.parametrize("role", ["read", "score"])
def test_a_role_does_what_it_may(service: Service, project: str, role: Any) -> None:
    key = service.client().keys.create(role, [project], role=role).secret
    assert key is not None
    own = client_of(service, key)

    assert own.graders.list(project=project) == []
    needed = "score" if role == "read" else "manage"
    with refused(f"an API key with role '{needed}'"):
        own.graders.create.function(key="x", fn=SOURCE, project=project)
    with refused("an API key with role 'manage'"):
        own.graders.create.custom(key="x", project=project)


def test_what_is_not_here_says_so(sdk: Adaptive) -> None:
    with refused("Cannot query field 'datasets'"):
        sdk.datasets.list()
    with refused("create a grader of that key"):
        sdk.feedback.register_key("default", "x", kind="scalar")
