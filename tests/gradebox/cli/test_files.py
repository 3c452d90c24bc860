"""Tests of the files that commands read."""

from pathlib import Path

import pytest
import typer

from gradebox.cli.environments import packages_of
from gradebox.cli.files import read_threads
from gradebox.cli.kind_settings import settings_given
from gradebox.limits import REQUEST_THREADS


def test_no_more_of_a_file_is_parsed_than_the_test_run_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "threads.jsonl"
    enough = '{"completion": "a"}\n' * REQUEST_THREADS
    for text, told in ((f"{enough} \n", ""), (f"{enough}no thread\n", "the test run takes the first 1,000 threads in")):
        path.write_text(text)
        found = read_threads(path)
        assert found is not None and len(found) == REQUEST_THREADS
        assert capsys.readouterr().err.startswith(told)
    path.write_text('{"completion": "a"}\n{"com\n')
    with pytest.raises(typer.BadParameter, match=r"line 2 of .* no JSON: Unterminated string starting at position 1"):
        read_threads(path)


def test_a_file_of_another_kind_is_told_with_its_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "threads.json"
    path.write_text('[{"completion": "a"}]')
    with pytest.raises(SystemExit, match="2"):
        read_threads(path)
    assert f"{path}: the file of threads is one JSON array: write JSON" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_requirements_and_settings_may_begin_with_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text('{"endpoint": "rewards"}', encoding)
    assert settings_given(path, None, None, None) == {"endpoint": "rewards"}
    path.write_text("sympy==1.14\r\n", encoding)
    assert packages_of(None, path) == ["sympy==1.14"]
    path.write_bytes(b"# caf\xe9\n")
    with pytest.raises(typer.BadParameter, match="is not UTF-8: save it as UTF-8"):
        packages_of(None, path)
