import time

import pytest

from api.dialects.openai import templates
from api.dialects.openai.problems import OpenAIProblem

NAMES = {"item": {"a": "42", "n": {"b": [1]}}, "sample": {"output_text": "x"}}


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("{{a}}", "{{a}}"),
        ("{{ item }}", "{{ item }}"),
        ("{{ item.a | upper }}", "{{ item.a | upper }}"),
        ("is {{{item.a}}}!", "{{{item.a}}}"),
        ("{{{item.a}}", "{{{item.a}}"),
        ("{{{{item.a}}}}", "{{{{item.a}}}}"),
        ("{{item.a}} {{item.b", "{{item.b"),
        ("{{ item.a }", "{{ item.a }"),
        ("{{ item.a {{ item.a }}", "{{ item.a {{ item.a }}"),
        ("{{" + " x" * 500, "{{" + " x" * 39 + "…"),
        ("a {%- if item.a %}b{% endif %}", "{%- if item.a %}"),
        ("{# why #}", "{# why #}"),
        ("{{# why }}", "{{# why }}"),
        (r"\frac{{a}}{b}", "{{a}}"),
        ("{sample.output_text}", "{sample.output_text}"),
        ("{ sample.output_json.a[0] }", "{ sample.output_json.a[0] }"),
    ],
)
def test_what_would_stay_as_text_is_refused(template: str, found: str) -> None:
    with pytest.raises(OpenAIProblem) as refused:
        templates.check(template, "grader.input")
    assert refused.value.param == "grader.input"
    assert refused.value.detail.startswith(f"grader.input has {found}, which is no placeholder: write {{{{ item.NAME")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{item.a}}|{{ sample.output_text }}", "42|x"),
        ("{{\n item.n.b[0] \n}}", "1"),
        ('{"a": {{item.a}}}', '{"a": 42}'),
        ('{"a": {"b": {"c": 1}}}', '{"a": {"b": {"c": 1}}}'),
        (r"\frac{{item.a}}{2} \boxed{ {{item.a}} }", r"\frac42{2} \boxed{ 42 }"),
        ("}}%}#} { { } }", "}}%}#} { { } }"),
        ("\\newcommand{\\f}[1]{%\n  \\emph{#1}%\n} a{%} b{%}", "\\newcommand{\\f}[1]{%\n  \\emph{#1}%\n} a{%} b{%}"),
        ("`${sample.output_text}` {item.a} {sample}", "`${sample.output_text}` {item.a} {sample}"),
    ],
)
def test_other_braces_are_text(template: str, text: str) -> None:
    templates.check(template, "grader.input")
    assert templates.render(template, NAMES, "grader.input") == text


@pytest.mark.parametrize("value", ["{{item.b}}", "{{{item.a}}}", "{% if x %}", "{# x #}", "{{", "{sample.output_text}"])
def test_values_are_inserted_unchanged(value: str) -> None:
    names = {"item": {"a": value, "b": "not this"}, "sample": {"output_text": value}}
    template = "{{item.a}}{{sample.output_text}}"
    templates.check(template, "grader.input")
    assert templates.render(template, names, "grader.input") == value * 2


@pytest.mark.parametrize(
    "part", ["{{item.a}}", "{%", "{#", "{% a", "{ sample.output_text", "{{" + " " * 1000, "{sample"]
)
def test_a_long_template_is_checked_in_time(part: str) -> None:
    started = time.monotonic()
    try:
        templates.check(part * (1_000_000 // len(part)), "grader.input")
    except OpenAIProblem:
        assert part.startswith("{{ ")
    assert time.monotonic() - started < 2
