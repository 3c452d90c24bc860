"""Tests that every document of the SDK for graders, projects and metrics is valid here."""

import inspect
import re

import pytest
from adaptive_sdk.graphql_client import async_client, client
from graphql import build_schema, parse, validate

from api.dialects.adaptive.bounds import Bounds
from api.dialects.adaptive.schema import SCHEMA

OPERATIONS = {
    "CreateGrader", "UpdateGrader", "DeleteGrader", "LockGrader", "GetGrader", "ListGraders", "ValidateFunctionGrader",
    "TestRemoteEnv", "AddRemoteEnv", "RemoveRemoteEnv", "ListRemoteEnvs",
    "CreateProject", "ShareProject", "DescribeProject", "ListProjects", "Me",
    "CreateMetric", "ListMetrics", "DescribeMetric", "DescribeMetricAdmin",
}  # fmt: skip
SOURCES = [inspect.getsource(module) for module in (client, async_client)]
DOCUMENTS = [
    (name, text)
    for source in SOURCES
    for text in re.findall(r'gql\(\s*"""(.*?)"""', source, re.DOTALL)
    if (name := re.search(r"(?:query|mutation) (\w+)", text)[1]) in OPERATIONS  # type: ignore[index]  # each has a name
]


def test_each_client_has_each_of_these_operations() -> None:
    assert sorted(name for name, _ in DOCUMENTS) == sorted([*OPERATIONS, *OPERATIONS])


@pytest.mark.parametrize(("name", "text"), DOCUMENTS, ids=[name for name, _ in DOCUMENTS])
def test_a_document_of_the_sdk_is_valid(name: str, text: str) -> None:
    document = parse(text, max_tokens=500)
    schema = build_schema(SCHEMA.as_str())
    assert validate(schema, document) == []
    assert validate(schema, document, [Bounds]) == []
