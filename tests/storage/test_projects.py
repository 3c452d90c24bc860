from storage.store import Store


def test_a_project_is_called_by_its_key_unless_it_has_a_name(store: Store) -> None:
    assert store.projects.create("math").name == "math"
    named = store.projects.create("code", "Code tasks", "those of the autumn")
    assert (named.name, named.description) == ("Code tasks", "those of the autumn")
