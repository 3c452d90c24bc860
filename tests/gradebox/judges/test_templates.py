"""Tests of templates of prompts: the behaviour of Handlebars.js, `length` of lists, and bounds."""

from typing import Any

import pytest

from gradebox.judges.templates import RENDERED_CHARACTERS, TEMPLATE_CHARACTERS, Template, TemplateError

VALUES: dict[str, Any] = {
    "criteria": "Is <b> & 'polite'?",
    "examples": [{"output": "a", "tags": ["x", "y"]}, {"output": "b", "tags": []}],
    "empty": [],
    "none": None,
    "zero": 0,
    "metadata": {"answer": "4", "odd key": "k", "deep": {"list": [10, 20]}},
    "turns": ({"role": "user", "content": "{{criteria}}"},),
}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{{criteria}}}|{{criteria}}|{{&criteria}}", "|".join(["Is <b> & 'polite'?"] * 3)),
        ("{{examples.length}} {{empty.length}} {{metadata.deep.list.length}}", "2 0 2"),
        ("{{#if examples.length}}some{{else}}none{{/if}}", "some"),
        ("{{#if empty.length}}some{{else}}none{{/if}}", "none"),
        ("{{#if empty}}some{{else if zero}}zero{{else}}none{{/if}}", "none"),
        ("{{#if zero includeZero=true}}zero{{/if}}", "zero"),
        ("{{#unless none}}none{{/unless}}", "none"),
        ("{{#each examples}}{{@index}}{{output}}{{#if @last}}!{{/if}}{{/each}}", "0a1b!"),
        ("{{#each examples}}{{#each tags}}{{@../index}}{{this}}{{../output}}{{/each}}{{/each}}", "0xa0ya"),
        ("{{#each examples}}{{../metadata.answer}}{{/each}}", "44"),
        ("{{#each empty}}x{{else}}nothing{{/each}}", "nothing"),
        ("{{#each metadata.deep}}{{@key}}={{this}}{{/each}}", "list=10,20"),
        ("{{#each examples as |e i|}}{{i}}{{e.output}}{{/each}}", "0a1b"),
        ("{{#with metadata}}{{answer}}{{@root.zero}}{{/with}}", "40"),
        ("{{#examples}}{{output}}{{/examples}}{{^empty}}-{{/empty}}", "ab-"),
        ("{{metadata.[odd key]}} {{metadata/answer}} {{examples.[1].output}}", "k 4 b"),
        ("{{lookup metadata 'answer'}}{{lookup examples.[0].tags 1}}", "4y"),
        ("a {{~! a comment ~}} b", "ab"),
        ("{{#if zero}}\nx\n{{else}}\ny\n{{/if}}\n", "y\n"),
        ("\\{{criteria}} [{{none}}]", "{{criteria}} []"),
        ("{{#each turns}}{{content}}{{/each}}", "{{criteria}}"),
    ],
)
def test_it_renders_as_handlebars_does(text: str, rendered: str) -> None:
    assert Template(text).render(VALUES) == rendered


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{{completoin}}", "prints completoin, which is not there: there are criteria, empty"),
        ("{{metadata.question}}", "{{#if metadata.question}}"),
        ("Reference: {{metadata}}", "prints an object as [object Object]: print its members, as {{metadata.answer}}"),
        ("{{examples}}", "prints an object"),
        ("{{shout criteria}}", "cannot be filled in"),
        ("{{log criteria}}", "cannot be filled in"),
        ("{{> part}}", "part"),
        ("{{#*inline 'a'}}{{> a}}{{/inline}}{{> a}}", "nested too deep"),
        ("{{#each metadata.deep.list}}{{lookup (lookup " * 1000, "is no template"),
        ("{{#if zero}}", "is no template"),
        ("{{criteria", "is no template"),
        ("{{#if zero}}" * 200 + "{{/if}}" * 200, "nested too deep"),
        ("{{lookup " + "(lookup " * 3000 + "criteria" + " 1)" * 3000 + " 1}}", "nested too deep"),
        ("x" * (TEMPLATE_CHARACTERS + 1), "at most 65,536 characters"),
    ],
)
def test_what_cannot_be_rendered_is_an_error_with_a_reason(text: str, told: str) -> None:
    with pytest.raises(TemplateError) as raised:
        Template(text, "user_template").render(VALUES)
    assert told in str(raised.value)
    assert str(raised.value).startswith("user_template ")


def test_a_completion_may_speak_of_a_printed_object() -> None:
    assert Template("{{a}}!").render({"a": "[object Object]"}) == "[object Object]!"
    assert Template("No [object Object]: {{a}}").render({"a": 1}) == "No [object Object]: 1"


def test_what_comes_out_is_bounded() -> None:
    template = Template("{{#each turns}}{{content}}{{/each}}")
    turns = [{"content": "x" * 1024}] * (RENDERED_CHARACTERS // 1024)
    assert len(template.render({"turns": turns})) == RENDERED_CHARACTERS
    with pytest.raises(TemplateError, match="print less"):
        template.render({"turns": [*turns, {"content": "x"}]})


def test_values_are_neither_called_nor_looked_into() -> None:
    assert Template("{{a.length}}").render({"a": [1]}) == "1"
    for path in ("a.__class__", "a.append", "b.__globals__"):
        with pytest.raises(TemplateError):
            Template("{{" + path + "}}").render({"a": [1], "b": "text"})
    with pytest.raises(TemplateError, match="function"):
        Template("{{a}}").render({"a": print})
