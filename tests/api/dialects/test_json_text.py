import json

import pytest

from api.dialects.json_text import is_text, text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('{"a": "\\u00fc", "b": "\\ud83d\\ude00"}', '{"a": "ü", "b": "😀"}'),
        ('{"a":"ü"}', '{"a":"ü"}'),
        ('["\\\\u00fc", "\\\\\\u00fc"]', '["\\\\u00fc", "\\\\ü"]'),  # a preceding backslash is another escape
        ('["\\n", "\\u000a", "\\u0022", "\\u0041", "\\u0085"]', '["\\n", "\\u000a", "\\u0022", "\\u0041", "\\u0085"]'),
        ('["\\ud800", "\\udc00\\ud800"]', '["\\ud800", "\\udc00\\ud800"]'),
        ("[1e400, -0.0, 1.10, " + "1" * 5000 + "]", "[1e400, -0.0, 1.10, " + "1" * 5000 + "]"),
        ("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
        ("true", "true"),
    ],
)
def test_the_text_of_a_value_is_its_json_with_letters_for_escapes(value: str, text: str) -> None:
    assert json.loads(text_of(value.encode())) == text
    if len(value) < 1000:
        assert json.loads(text) == json.loads(value)


def test_a_string_stays_as_it_was_sent() -> None:
    for sent in (b'"\\u00fc"', b'"\\ud800"', b'""'):
        assert is_text(sent) and text_of(sent) is sent


def test_what_is_not_utf_8_is_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        text_of(b'{"a": "\xff"}')
