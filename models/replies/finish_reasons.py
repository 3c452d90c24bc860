"""The reasons for which servers end a reply. Each server has its own, and gateways pass on those of others."""

from typing import Literal

Ending = Literal["whole", "cut_off", "refused", "broken_off", "unknown"]

_REASONS: dict[Ending, str] = {
    "whole": "stop stop_sequence eos eos_token end_turn complete completed tool_call tool_calls tool_use function_call",
    "cut_off": "length max_tokens model_length model_context_window_exceeded",
    "refused": (
        "content_filter content_filtered safety refusal sensitive recitation blocklist prohibited_content spii "
        "guardrail_intervened"
    ),
    "broken_off": ("abort aborted cancel canceled cancelled error insufficient_system_resource network_error timeout"),
}
_ENDINGS = {reason: ending for ending, reasons in _REASONS.items() for reason in reasons.split()}


def ending(reason: str | None) -> Ending:
    """Return how a reply with this `finish_reason` ended. One without is whole."""
    return _ENDINGS.get(reason.casefold().replace("-", "_"), "unknown") if reason else "whole"
