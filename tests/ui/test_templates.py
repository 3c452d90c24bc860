"""Tests of the display of values, and of where pages are rendered."""

import asyncio
from typing import Any

import httpx
import pytest

from gradebox.schemas import ProjectBudget, Spending
from ui import templates
from ui.templates import MOST_SHOWN, _environment, _number, as_json


@pytest.mark.parametrize(("value", "shown"), [(None, "–"), (1 / 3, "0.3333"), (12346.7, "12,346.7")])
def test_numbers_are_as_on_the_command_line(value: float | None, shown: str) -> None:
    assert _number(value) == shown


def test_costs_have_no_exponent() -> None:
    total = Spending(asks=1, kept=0, input_tokens=1, output_tokens=0, usd=1.5e-05)
    budget = ProjectBudget(usd=2e-05, spent_usd=1.5e-05, spent_tokens=1, is_spent=False)
    main = _environment.get_template("models.html").blocks["main"]
    context = _environment.get_template("models.html").new_context(
        {"total": total, "budget": budget, "models": [], "endpoints": [], "visit": {"project": "p"}}
    )
    shown = "".join(main(context))
    assert "1 ask, 0 answered with kept replies, 0.000015 USD" in shown
    assert "Budget: 0.00002 USD in all; 0.000015 USD and 1 token is spent." in shown


def test_what_is_nested_deeply_is_shown_in_part() -> None:
    deep: list[object] = []
    for _ in range(2000):
        deep = [deep]
    assert len(as_json(deep)) == MOST_SHOWN + 1
    wide: list[object] = [1] * 100_000
    for _ in range(200):
        wide = [wide]
    assert len(as_json(wide)) == MOST_SHOWN + 1
    assert as_json({"ü": "<b>"}) == '{\n  "ü": "<b>"\n}'


def test_tenants_text_is_rendered_beside_the_event_loop(
    browse: httpx.Client, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some megabytes of it take seconds, and other requests would wait."""
    client.post("/v1/projects/default/graders", json={"key": "human", "kind": "custom"}).raise_for_status()
    rendered, inside = templates.rendered, set[str]()

    def noting(template: str, **values: Any) -> bytes:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return rendered(template, **values)
        inside.add(template)
        return rendered(template, **values)

    monkeypatch.setattr(templates, "rendered", noting)
    for path in ("graders", "graders/human", "graders/human/diff?old=1&new=1", "batches", "models", "audit", "new"):
        assert browse.get(f"/ui/projects/default/{path}").status_code == 200, path
    assert not inside
