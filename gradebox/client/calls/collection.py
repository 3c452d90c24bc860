"""The requests that graders, environments, models and endpoints have in common."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter

from gradebox.client.calls.call import Call, encode, nothing
from gradebox.client.calls.paths import path_of
from gradebox.schemas import Environment, GraderRecord, ProjectEndpoint, ProjectModel

T = TypeVar("T", bound=BaseModel)


class Collection(Generic[T]):
    """The requests that graders, environments, models and endpoints have in common.

    Graders are created and listed by functions of their own.
    """

    def __init__(self, name: str, kind: type[T]) -> None:
        self._name = name
        self._read = kind.model_validate_json
        self._read_list = TypeAdapter(list[kind]).validate_json  # type: ignore[valid-type]  # known at run time

    def create(self, project: str, fields: Mapping[str, Any]) -> Call[T]:
        """Creates one."""
        return Call("POST", path_of(project, self._name), self._read, body=encode(fields), idempotent=False)

    def put(self, project: str, key: str, fields: Mapping[str, Any]) -> Call[T]:
        """Changes fields of one, or creates it."""
        return Call("PUT", path_of(project, self._name, key), self._read, body=encode(fields))

    def patch(self, project: str, key: str, fields: Mapping[str, Any]) -> Call[T]:
        """Changes fields of one."""
        return Call("PATCH", path_of(project, self._name, key), self._read, body=encode(fields))

    def list(self, project: str) -> "Call[list[T]]":
        """Requests all of the project."""
        return Call("GET", path_of(project, self._name), self._read_list)

    def get(self, project: str, key: str) -> Call[T]:
        """Requests one."""
        return Call("GET", path_of(project, self._name, key), self._read)

    def delete(self, project: str, key: str) -> Call[None]:
        """Deletes one, with what belongs to it, such as the versions of a grader or the API key of a model."""
        return Call("DELETE", path_of(project, self._name, key), nothing, idempotent=False)


graders = Collection("graders", GraderRecord)
environments = Collection("environments", Environment)
models = Collection("models", ProjectModel)
endpoints = Collection("endpoints", ProjectEndpoint)
