import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import CutOff, NotFound, OutcomesLost
from storage.outcomes import outcome_files
from storage.outcomes.outcome_files import OutcomeFiles
from storage.spool import lost_files
from storage.store import Store
from tests.storage.making import accept, claim, finish, plan_of


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is over has been so for long enough."""
    monkeypatch.setattr(lost_files, "SETTLED_S", 0.0)


def scored(store: Store) -> tuple[str, OutcomeFiles, Path]:
    """A finished batch of two chunks, its files, and the path of the second."""
    batch = accept(store, 1500)
    for _ in range(2):
        assert finish(store, claim(store))
    plan = plan_of(store, batch)
    path = Path(store.spool._outcomes(batch, 1, 1))
    return batch, OutcomeFiles(store.batches, batch, plan), path


def test_a_file_with_much_text_is_whole_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _, files, path = scored(store)
    whole = path.read_bytes()
    for at_once in (len(whole) - 1, len(whole), len(whole) + 1, 10):
        monkeypatch.setattr(outcome_files, "_AT_ONCE_BYTES", at_once)
        with files.open(1, 1) as file:
            assert file.read() == whole
        path.write_bytes(whole[:-5])
        with pytest.raises(CutOff, match="has 499 outcomes of 500"):
            files.open(1, 1)
        path.write_bytes(whole)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "gone from the spool: score"),
        (lambda path: path.write_bytes(path.read_bytes()[:-5]), "cut off in the spool"),
        (lambda path: path.write_bytes(path.read_bytes().rpartition(b"\n{")[0] + b"\n"), "cut off in the spool"),
    ],
    ids=["gone", "cut off in a line", "cut off between lines"],
)
def test_a_file_that_is_gone_or_cut_off_is_lost(store: Store, damage: Callable[[Path], object], said: str) -> None:
    batch, files, path = scored(store)
    damage(path)
    for is_frozen in (False, True):
        if is_frozen:
            store.freezer.freeze(batch)
        with pytest.raises(OutcomesLost, match=f"threads 1000 to 1499 of .* by exact@1 are {said}"):
            files.open(1, 1)
        files.open(0, 1).close()


def test_a_file_of_a_batch_that_has_just_ended_may_not_be_visible_yet(store: Store) -> None:
    _, files, path = scored(store)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.raises(CutOff, match="has 499 outcomes of 500"):
        files.open(1, 1)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        files.open(1, 1)


@pytest.mark.usefixtures("settled")
def test_a_file_that_counts_no_more_is_not_lost(store: Store) -> None:
    _, files, _ = scored(store)
    with pytest.raises(FileNotFoundError):
        files.open(1, 2)


def test_the_files_of_a_deleted_batch_are_not_found(store: Store) -> None:
    batch, files, _ = scored(store)
    store.batches.delete("default", batch)
    store.spool.remove(batch)
    with pytest.raises(NotFound, match="was deleted"):
        files.open(1, 1)


def test_no_file_of_a_batch_that_runs_is_lost(store: Store) -> None:
    assert not store.batches.is_lost(store.batches.get("default", accept(store, 10)))


@pytest.mark.usefixtures("settled")
def test_nothing_is_lost_while_the_spool_is_not_mounted(store: Store) -> None:
    _, files, path = scored(store)
    shutil.rmtree(path.parents[2])
    path.parents[2].mkdir()
    with pytest.raises(FileNotFoundError):
        files.open(1, 1)
    store.spool.write_mark("mark")
    with pytest.raises(OutcomesLost, match="are gone from the spool"):
        files.open(1, 1)
