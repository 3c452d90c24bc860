"""Tests that the source of a kind contains its settings, and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebox import judges
from gradebox.judges import kind_source

FULL: dict[str, Any] = {
    "criteria": "The answer is polite",
    "model": "small-judge",
    "examples": [{"input": [{"role": "user", "content": "Why?"}], "output": "Go away.", "passes": False}],
    "user_template": "# Answer\n{{{completion}}}\n",
    "template_variables": {"tone": "warm", "most": 3, "parts": [1.5, None, True]},
    "temperature": None,
    "seed": 7,
}


def settings_in(text: str) -> dict[str, Any]:
    """The settings that a source passes to its class."""
    given: dict[str, Any] = {}
    lines = text.replace("from gradebox", "# from gradebox")
    names = dict.fromkeys([*vars(judges)["__all__"], "Checks"], given.update)
    exec(compile(lines, "grader", "exec"), names | {"Score": float, "StringThread": object})
    return given


def test_it_is_a_few_lines_that_can_be_read() -> None:
    config = {"criteria": "The answer is polite", "model": "small-judge", "user_template": "{{{completion}}}\nPolite?"}
    assert kind_source.source_of("binary_judge", config) == (
        "from gradebox import StringThread\n"
        "from gradebox.judges import BinaryJudge\n"
        "\n"
        "judge = BinaryJudge(\n"
        '    criteria="The answer is polite",\n'
        '    model="small-judge",\n'
        '    user_template="""\\\n'
        '{{{completion}}}\nPolite?""",\n'
        ")\n"
        "\n"
        "\n"
        "async def grade(thread: StringThread) -> float:\n"
        "    return await judge(thread)\n"
    )
    external = kind_source.source_of("external", {"endpoint": "my-reward"})
    assert 'ExternalEndpoint(\n    endpoint="my-reward",\n)' in external


def test_checks_come_from_a_room_of_their_own() -> None:
    config = {"checks": [{"check": "contains", "text": "x"}, {"check": "equals", "value": None}]}
    written = kind_source.source_of("checks", config)
    assert "from gradebox.checks import Checks\n" in written
    assert settings_in(written) == config


def test_a_combination_is_written_with_its_parts() -> None:
    config = {"parts": {"a": {"grader": "one@3", "required": True}, "b": "two"}, "formula": "a + b"}
    written = kind_source.source_of("combine", config)
    assert settings_in(written) == config
    assert "combined = Combine(\n" in written
    with pytest.raises(ValueError, match=r"config\.parts is missing"):
        kind_source.source_of("combine", {"parts": []})


def test_a_judge_of_groups_takes_and_gives_lists() -> None:
    config = {"criterion": "funny_joke", "model": "m", "contests": "at_once", "allow_ties": True}
    written = kind_source.source_of("pairwise_judge", config)
    assert settings_in(written) == config
    assert "from gradebox import Score, StringThread\n" in written
    assert written.endswith(
        "async def grade(threads: list[StringThread]) -> list[Score | Exception]:\n    return await judge(threads)\n"
    )


def test_it_holds_every_setting() -> None:
    criterion = {"description": "d", "options": [{"name": "a", "score": 1.0}, {"name": "b", "score": 0}]}
    judge = {"criterion": criterion, "model": "m", "steps": 2, "check_positional_bias": False, "context_fields": []}
    documents: dict[str, Any] = {"model": "m", "documents": "x"}
    for kind, config in (
        ("judge", judge | {"self_consistency": True}),
        ("faithfulness", documents),
        ("context_relevancy", documents),
        ("binary_judge", FULL),
    ):
        assert settings_in(kind_source.source_of(kind, config)) == config
    assert settings_in(kind_source.source_of("answer_relevancy", {"judge_model": "m"})) == {"model": "m"}
    defaults = FULL | {"examples": None, "user_template": None}
    kept = {name: value for name, value in FULL.items() if name not in ("examples", "user_template", "model")}
    assert kind_source.settled("binary_judge", defaults) == kept | {"judge_model": "small-judge"}


@given(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_no_text_gets_out_of_its_quotes(text: str, value: object) -> None:
    config = {"criteria": f"x{text}", "model": "m", "system_template": text, "template_variables": {text: [value]}}
    assert settings_in(kind_source.source_of("binary_judge", config)) == config


@pytest.mark.parametrize(
    "text",
    ['"""', 'a\n"""\nimport os', "a\nb\\", 'a\nb"', "a\r\nb", "a\n\x00", "a\n\u2028b", "'\n\"", "\n", "a\n\ud800"],
)
def test_what_looks_like_code_stays_a_text(text: str) -> None:
    config = {"criteria": f"x{text}", "model": "m", "system_template": text}
    assert settings_in(kind_source.source_of("binary_judge", config)) == config


@pytest.mark.parametrize(
    ("kind", "config", "told"),
    [
        ("jury", {}, "no kind 'jury': there are binary_judge, judge, multi_criteria, faithfulness"),
        ("binary_judge", {"criteria": "c"}, "config.judge_model is missing"),
        ("binary_judge", {"criteria": "", "model": "m"}, "config.criteria is missing"),
        ("binary_judge", {"criteria": ["c"], "model": "m"}, "config.criteria is a text"),
        ("binary_judge", {"criteria": "c", "model": "m", "seed": True}, "config.seed is an integer"),
        ("binary_judge", {"criteria": "c", "model": "m", "judge": 1}, "the member 'judge'"),
        ("judge", {"criterion": "c", "model": "m", "steps": True}, "config.steps is 1 or 2"),
        ("judge", {"criterion": "c", "model": "m", "persona": 1}, "config.persona is true or false"),
        ("external", {"url": "http://x"}, "the member 'url'"),
        ("external", {}, "config.endpoint is missing"),
        ("checks", {"checks": []}, "config.checks is missing"),
        ("checks", {"checks": "contains"}, "config.checks is a list of checks"),
    ],
)
def test_settings_that_are_not_its_own_are_named(kind: str, config: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        kind_source.source_of(kind, config)


def test_depth_is_bounded() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested more than 20"):
        kind_source.source_of("binary_judge", {"criteria": "c", "model": "m", "template_variables": {"x": deep}})
