from pathlib import Path

from gradebox.service.tail import Tail

MOST = 1024 * 1024


def append(path: Path, text: str) -> None:
    with path.open("a") as log:
        log.write(text)


def test_whole_lines_come_once(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    append(log, "before\n")
    follows = Tail(log, MOST)
    assert follows.read() == []
    append(log, "one\ntw")
    assert follows.read() == ["one"]
    append(log, "o\n")
    assert follows.read() == ["two"]
    assert follows.read() == []


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    follows = Tail(tmp_path / "api.log", MOST)
    assert follows.read() == []
    append(tmp_path / "api.log", "one\n")
    assert follows.read() == ["one"]


def test_a_log_that_somebody_empties_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    follows = Tail(log, MOST)
    append(log, "one\nhal")
    assert follows.read() == ["one"]
    log.write_text("")
    append(log, "2\n")
    assert follows.read() == ["2"]


def test_a_log_that_grows_large_is_put_aside_while_it_is_written(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    follows = Tail(log, 100)
    with log.open("ab", buffering=0) as process:  # as in a child process
        seen = []
        for number in range(30):
            process.write(b"line %02d\n" % number)
            seen += follows.read()
    assert seen == [f"line {number:02}" for number in range(30)]
    assert log.stat().st_size <= 100
    assert log.with_suffix(".log.1").read_text().startswith("line")


def test_a_log_that_grows_faster_than_it_is_read_has_a_bound_too(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    follows = Tail(log, MOST)
    with log.open("ab", buffering=0) as process:
        for number in range(8):
            process.write((b"%d" % number) * (MOST - 1) + b"\nhal")
            lines = follows.read()
            assert log.stat().st_size <= MOST
        process.write(b"whole\n")
    assert log.with_suffix(".log.1").stat().st_size <= 2 * MOST
    assert not any(len(set(line)) > 1 for line in lines)
    assert follows.read() == ["whole"]
