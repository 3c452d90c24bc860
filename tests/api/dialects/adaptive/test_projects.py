"""Tests of projects, users and refusals through unmodified adaptive-sdk."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from adaptive_sdk.error_handling import AdaptiveEntityNotFoundError
from adaptive_sdk.graphql_client.exceptions import GraphQLClientGraphQLMultiError

from tests.api.dialects.adaptive.conftest import Sdk
from tests.gradebox.conftest import Service

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

SOURCE = "async def grade(thread):\n    return 1.0\n"
SdkOf = Callable[[str], Sdk]


def test_a_project_is_created_found_and_listed(sdk: Sdk) -> None:
    key = f"p-{uuid4().hex[:8]}"
    made = sdk(lambda c: c.projects.create(key, name="Sums", description="of the autumn"))

    assert (made.key, made.name, made.description) == (key, "Sums", "of the autumn")
    assert (made.metrics, made.model_services, made.shares) == ([], [], [])
    assert made.permissions == ["read", "score", "manage"]
    for ref in (key, made.id):
        assert sdk(lambda c: c.projects.get(ref)).model_dump() == made.model_dump()  # noqa: B023  # called at once
    assert made.id in [one.id for one in sdk(lambda c: c.projects.list())]
    assert sdk(lambda c: c.projects.create(f"{key}-2")).name == f"{key}-2"
    with pytest.raises(GraphQLClientGraphQLMultiError, match=r"there is a project .* already"):
        sdk(lambda c: c.projects.create(key))
    with pytest.raises(GraphQLClientGraphQLMultiError, match=r"\$\.key"):
        sdk(lambda c: c.projects.create("No Key"))


def test_a_graders_metric_is_of_its_project(sdk: Sdk, project: str) -> None:
    grader = sdk(lambda c: c.graders.create.function(key="one", fn=SOURCE))
    described = sdk(lambda c: c.projects.get())
    assert [(one.id, one.key) for one in described.metrics] == [(grader.metric.id, "one")]
    assert described.metrics[0].created_at.startswith("20")
    keys = [one.key for one in sdk(lambda c: c.feedback.list_keys())]
    assert "one" in keys
    assert sdk(lambda c: c.feedback.get_key(project, "one")).id == grader.metric.id


def test_a_project_that_is_not_there_is_none_or_named_as_the_sdk_does(sdk: Sdk) -> None:
    assert sdk(lambda c: c.projects.get("nowhere")) is None
    calls: list[Callable[[Any], Any]] = [
        lambda graders: graders.list(project="nowhere"),
        lambda graders: graders.get(grader_key="x", project="nowhere"),
        lambda graders: graders.create.function(key="x", fn=SOURCE, project="nowhere"),
        lambda graders: graders.create.custom(key="x", project="nowhere"),
    ]
    for call in calls:
        with pytest.raises(AdaptiveEntityNotFoundError, match=r"create it with `client.projects.create`"):
            sdk.graders(call)


def test_there_are_no_teams_to_share_with(sdk: Sdk, project: str) -> None:
    with pytest.raises(GraphQLClientGraphQLMultiError, match="gradebox keys create NAME --covers"):
        sdk(lambda c: c.projects.share(project, team="t", role="admin"))
    assert sdk(lambda c: c.projects.unshare(project, team="t")).shares == []
    with pytest.raises(GraphQLClientGraphQLMultiError, match="has no teams"):
        sdk(lambda c: c.projects.create("x", team="t"))


def test_me_is_the_api_key(sdk: Sdk) -> None:
    me = sdk(lambda c: c.users.me())
    assert (me.name, me.teams) == ("first", [])


def test_a_wrong_key_is_told_in_words(sdk_of: SdkOf, service: Service) -> None:
    for key in ("wrong", service.key[:-1]):
        with pytest.raises(GraphQLClientGraphQLMultiError, match="the API key is unknown or revoked"):
            sdk_of(key)(lambda c: c.projects.list())


def test_a_key_sees_its_own_projects(sdk_of: SdkOf, service: Service, project: str) -> None:
    key = service.client().keys.create("one", [project], role="manage").secret
    assert key is not None
    own = sdk_of(key)

    assert [one.key for one in own(lambda c: c.projects.list())] == [project]
    assert own(lambda c: c.projects.get("default")) is None
    with pytest.raises(AdaptiveEntityNotFoundError):
        own(lambda c: c.graders.list(project="default"))
    with pytest.raises(GraphQLClientGraphQLMultiError, match="'manage' for every project"):
        own(lambda c: c.projects.create("mine"))
    assert own(lambda c: c.graders.create.custom(key="own", project=project)).key == "own"


@pytest.mark.parametrize("role", ["read", "score"])
def test_a_role_does_what_it_may(sdk_of: SdkOf, service: Service, project: str, role: Any) -> None:
    key = service.client().keys.create(role, [project], role=role).secret
    assert key is not None
    own = sdk_of(key)

    assert own(lambda c: c.graders.list(project=project)) == []
    needed = "score" if role == "read" else "manage"
    with pytest.raises(GraphQLClientGraphQLMultiError, match=f"an API key with role '{needed}'"):
        own(lambda c: c.graders.create.function(key="x", fn=SOURCE, project=project))
    with pytest.raises(GraphQLClientGraphQLMultiError, match="an API key with role 'manage'"):
        own(lambda c: c.graders.create.custom(key="x", project=project))


def test_what_is_not_here_says_so(sdk: Sdk) -> None:
    with pytest.raises(GraphQLClientGraphQLMultiError, match="Cannot query field 'datasets'"):
        sdk(lambda c: c.datasets.list())
    with pytest.raises(GraphQLClientGraphQLMultiError, match="create a grader of that key"):
        sdk(lambda c: c.feedback.register_key("default", "x", kind="scalar"))
