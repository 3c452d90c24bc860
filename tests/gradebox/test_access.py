from pathlib import Path

import pytest

from gradebox.access import Note, find_key, is_local, service_url, write_note

URL = "http://127.0.0.1:8123"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GRADEBOX_URL", "GRADEBOX_API_KEY", "GRADEBOX_DATA_DIR", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def keep_key(folder: Path, key: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "api-key").write_text(f"{key}\n")
    return folder


def test_the_url_is_what_was_given_then_the_environment_then_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert service_url(None) == "http://127.0.0.1:8000"
    monkeypatch.setenv("GRADEBOX_URL", "https://graders.example/")
    assert service_url(None) == "https://graders.example"
    assert service_url("http://other:1") == "http://other:1"


def test_without_a_service_there_is_no_key() -> None:
    assert find_key(URL) is None


def test_the_environment_names_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADEBOX_API_KEY", "from-environment")
    assert find_key(URL) == "from-environment"


def test_the_key_lies_in_the_usual_data_folder(home: Path) -> None:
    keep_key(home / ".local/share/gradebox", "usual")
    assert find_key(URL) == "usual"


def test_of_two_services_each_has_its_own_key(home: Path) -> None:
    keep_key(home / ".local/share/gradebox", "usual")
    write_note(8123, Note(URL, keep_key(home / "second", "second")))

    assert find_key(URL) == "second"
    assert find_key("http://localhost:8123") == "second"
    assert find_key("http://127.0.0.1:8000") == "usual"


def test_a_data_folder_that_was_named_goes_before_what_was_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_note(8123, Note(URL, keep_key(home / "second", "second")))
    monkeypatch.setenv("GRADEBOX_DATA_DIR", str(keep_key(home / "named", "named")))
    assert find_key(URL) == "named"


def test_a_key_that_was_found_is_never_sent_to_another_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_key(home / ".local/share/gradebox", "usual")
    monkeypatch.setenv("GRADEBOX_DATA_DIR", str(keep_key(home / "named", "named")))
    write_note(8123, Note(URL, home / "named"))

    assert find_key("http://graders.example:8123") is None


def test_a_note_that_was_cut_off_is_no_note(home: Path) -> None:
    write_note(8123, Note(URL, home)).write_text('{"url": "http')
    assert find_key(URL) is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:8000", "http://localhost"])
def test_loopback_is_this_machine(url: str) -> None:
    assert is_local(url)


@pytest.mark.parametrize("url", ["http://10.0.0.1", "https://localhost.example", "http://127.0.0.1.example"])
def test_other_hosts_are_not(url: str) -> None:
    assert not is_local(url)
