"""Tests that every document of the SDK for graders, projects and metrics is valid here."""

import importlib
import inspect
import re

import pytest
from graphql import build_schema, parse, validate

from api.dialects.adaptive.bounds import Bounds
from api.dialects.adaptive.schema import SCHEMA

OPERATIONS = {
    "CreateGrader", "UpdateGrader", "DeleteGrader", "LockGrader", "GetGrader", "ListGraders", "ValidateFunctionGrader",
    "TestRemoteEnv", "AddRemoteEnv", "RemoveRemoteEnv", "ListRemoteEnvs",
    "CreateProject", "ShareProject", "DescribeProject", "ListProjects", "Me",
    "CreateMetric", "ListMetrics", "DescribeMetric", "DescribeMetricAdmin",
}  # fmt: skip


@pytest.mark.parametrize("name", ["client", "async_client"])
def test_each_document_of_the_sdk_is_valid(name: str) -> None:
    source = inspect.getsource(importlib.import_module(f"adaptive_sdk.graphql_client.{name}"))
    schema, valid = build_schema(SCHEMA.as_str()), []
    for text in re.findall(r'gql\(\s*"""(.*?)"""', source, re.DOTALL):
        operation = re.search(r"(?:query|mutation) (\w+)", text)
        assert operation is not None
        if operation[1] in OPERATIONS:
            document = parse(text, max_tokens=500)
            assert validate(schema, document) == [], operation[1]
            assert validate(schema, document, [Bounds]) == [], operation[1]
            valid.append(operation[1])
    assert sorted(valid) == sorted(OPERATIONS)
