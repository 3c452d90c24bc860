"""Tests of outcomes as frames and in notebooks."""

from datetime import UTC, datetime

from gradebox.frame import SHOWN, Listing, Outcomes
from gradebox.outcome import Outcome, OutcomeError, Spent
from gradebox.schemas import BATCH_COLUMNS, Batch, BatchGrader, Check, GraderRecord, Report
from storage.statistics.outcome_tally import tally
from storage.statistics.summary import summarise

EVIL = "<script>alert(1)</script>"
OUTCOMES = Outcomes(
    [
        Outcome(0, "g@1", 0.25, 1.0, "a", "short", values={"length": 2.0}),
        Outcome(1, "g@1", None, 1.0, error=OutcomeError("exception", EVIL), stdout=EVIL),
    ]
)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BATCH = Batch(
    id="b", project="default", state="finished", graders=[BatchGrader(key="g", version=2)], threads=2, total=2,
    done=2, scored=1, errors={"exception": 1}, created_at=NOW,
)  # fmt: skip


def test_a_frame_has_a_row_for_each_and_a_column_for_each_value() -> None:
    frame = OUTCOMES.to_pandas(threads=[{"completion": "4"}, "no thread"])
    assert list(frame["score"].notna()) == [True, False]
    assert frame["score"][0] == 0.25
    assert list(frame["error"])[1] == "exception"
    assert list(frame["message"])[1] == EVIL
    assert frame["values.length"][0] == 2.0
    assert list(frame["thread"]) == [{"completion": "4"}, "no thread"]
    assert list(Outcomes().to_pandas().columns)[:6] == ["index", "id", "grader", "score", "error", "message"]


def test_ids_stay_whole_numbers_beside_a_line_without_one() -> None:
    first, second = 1234567890123456788, 1234567890123456789
    broken = Outcome(2, "g@1", None, 1.0, error=OutcomeError("bad_input", "no thread"))
    frame = Outcomes([Outcome(0, "g@1", 1.0, 1.0, first), Outcome(1, "g@1", 1.0, 1.0, second), broken]).to_pandas()
    assert list(frame["id"]) == [first, second, None]
    assert list(frame["id"] == second) == [False, True, False]


def test_a_frame_says_what_is_not_applicable_and_what_asks_came_to() -> None:
    away = OutcomeError("model", "the server is away", True, "unreachable")
    asked = Outcomes(
        [
            Outcome(0, "g@1", 0.5, 1.0, details={"votes": [1, 0]}, spent=Spent(2, 1, 30, 3, 0.5)),
            Outcome(1, "g@1", None, 1.0, not_applicable=EVIL),
            Outcome(2, "g@1", None, 1.0, error=away, spent=Spent(1)),
        ]
    )
    frame = asked.to_pandas()
    assert list(frame["not_applicable"].fillna("")) == ["", EVIL, ""]
    assert frame["details"][0] == {"votes": [1, 0]}
    assert list(frame["cause"].fillna("")) == ["", "", "unreachable"]
    assert [frame[f"spent.{name}"][0] for name in ("asks", "kept", "usd")] == [2, 1, 0.5]
    assert frame["spent.asks"].isna()[1]
    assert not {"cause", "spent.asks"} & set(OUTCOMES.to_pandas().columns)
    told = asked._repr_html_()
    assert "<script>" not in told
    assert "<th>not_applicable</th>" in told


def test_a_table_of_outcomes_is_escaped_and_short() -> None:
    told = OUTCOMES._repr_html_()
    assert "<script>" not in told
    assert told.count("&lt;script&gt;") == 2
    assert "<td>0.25</td>" in told
    many = Outcomes(OUTCOMES[:1] * (SHOWN + 5))._repr_html_()
    assert many.count("<tr>") == SHOWN + 1
    assert "5 more" in many


def test_what_a_report_says_of_its_test_run_are_outcomes() -> None:
    check = Check(name="syntax", passed=True, message="compiles", duration_ms=1)
    sent = Report(valid=True, checks=[check], outcomes=OUTCOMES).model_dump_json()
    read = Report.model_validate_json(sent)
    assert read.outcomes == OUTCOMES
    assert read.outcomes.to_pandas()["score"][0] == 0.25
    assert "<td>0.25</td>" in read._repr_html_()
    assert Report.model_validate_json('{"valid":false,"checks":[]}').outcomes == []


def test_a_list_is_a_frame_and_a_table() -> None:
    listed = Listing([BATCH], BATCH_COLUMNS)
    for shown in ("<th>created (UTC)</th>", "<td>2026-01-02 03:04:05</td>", "<td>g@2</td>", "<td>1 exception</td>"):
        assert shown in listed._repr_html_()
    frame = listed.to_pandas()
    assert list(frame.columns) == list(BATCH_COLUMNS)
    assert list(frame["done"]) == [2]
    assert list(Listing[Batch]((), BATCH_COLUMNS).to_pandas().columns) == list(BATCH_COLUMNS)


def test_graders_reports_and_batches_are_escaped_tables() -> None:
    grader = GraderRecord(
        project="default", key="g", name="g", description=EVIL, locked=False, version=1, sha256="", isolation="batch",
        timeout_s=5, memory_mb=256, created_at=NOW, updated_at=NOW,
    )  # fmt: skip
    check = Check(name="syntax", passed=False, message=EVIL, line=3, duration_ms=1)
    report = Report(valid=False, checks=[check], warnings=[EVIL])
    batch = BATCH.model_copy(update={"summary": [summarise(EVIL, 1.0, tally(OUTCOMES))]})
    for shown in (grader._repr_html_(), report._repr_html_(), batch._repr_html_()):
        assert "<script>" not in shown
        assert "&lt;script&gt;" in shown
    assert "1 exception" in batch._repr_html_()
    assert "<th>asks</th>" not in batch._repr_html_()
    spent = Outcome(0, "g@1", 0.5, 1.0, spent=Spent(7, 3, 30, 3, 0.5))
    outcomes = [spent, Outcome(1, "g@1", None, 1.0, not_applicable="")]
    asked = batch.model_copy(update={"summary": [summarise("g@1", 1.0, tally(outcomes))]})._repr_html_()
    assert "<th>asks</th>" in asked
    assert "<td>g@1</td><td>7</td><td>3</td><td>30</td><td>3</td><td>0.5</td>" in asked
    assert "<th>not applicable</th>" in asked
    assert "<td>1</td><td></td></tr>" in asked
    assert "✗" in report._repr_html_()
