import pytest

from storage.errors import Conflict, NotFound
from storage.store import Store


def test_projects_are_listed_by_key(store: Store) -> None:
    store.projects.create("alpha")
    store.projects.check("alpha")
    assert [project.key for project in store.projects.all()] == ["alpha", "default"]


def test_a_key_is_taken_once(store: Store) -> None:
    with pytest.raises(Conflict, match="'default' already"):
        store.projects.create("default")


def test_an_unknown_project_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="'nowhere'"):
        store.projects.check("nowhere")


def test_a_project_is_called_by_its_key_unless_it_has_a_name(store: Store) -> None:
    assert store.projects.create("math").name == "math"
    named = store.projects.create("code", "Code tasks", "those of the autumn")
    assert (named.name, named.description) == ("Code tasks", "those of the autumn")
