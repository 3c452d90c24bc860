from gradebox.snapshot.function_code import code_text


def test_code_below_its_import_is_no_other_code() -> None:
    def code(text: str) -> str:
        names: dict[str, object] = {}
        exec(text, names)
        return code_text(names["f"].__code__)  # type: ignore[attr-defined]

    body = "def f(t):\n  return [re.sub('a', t, x) for x in t if x] and {}"
    first = code(body.format("re.I"))
    assert code("import re\n" + body.format("re.I")) == first
    assert code(body.format("re.M")) != first
    assert code(body.format("re.I").replace("if x", "if not x")) != first
    assert code(body.format("re.I").replace("and", "or")) != first
