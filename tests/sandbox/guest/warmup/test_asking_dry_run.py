import pytest

from gradebox.asks import asking
from sandbox.guest.child.asking_run import AskingRun, Record
from sandbox.guest.child.read_thread import ThreadReader
from sandbox.guest.protocol.frames import ASKED, SCORED, GraderLimits
from sandbox.guest.warmup.asking_dry_run import rehearse_asking

LIMITS = GraderLimits(*[8192] * len(GraderLimits._fields))
READER = ThreadReader(1 << 20, 50)


@pytest.mark.parametrize("asks", [("model:small-judge",), ("endpoint:reward", "grader:other@3")])
def test_a_rehearsal_asks_and_is_answered_and_leaves_nothing(
    asks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_named", set(asks))
    monkeypatch.setattr(asking, "_is_settled", True)
    kinds: list[int] = []
    run = AskingRun.grade

    def grade(self: AskingRun, line: bytes) -> Record:
        record = run(self, line)
        kinds.append(record[0])
        return record

    monkeypatch.setattr(AskingRun, "grade", grade)
    rehearse_asking(asks, LIMITS, READER)
    assert kinds[:2] == [ASKED, SCORED]
    assert set(kinds) == {ASKED, SCORED}
    assert asking.asker_of() is None
    assert asking.settle() == asks
