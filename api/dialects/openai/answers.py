"""The answers of a run. They contain every key, as OpenAI's reference requires."""

import msgspec

from gradebox.outcome import OutcomeError


class Errors(msgspec.Struct):
    """The reasons why there is no reward."""

    formula_parse_error: bool = False
    sample_parse_error: bool = False
    truncated_observation_error: bool = False
    unresponsive_reward_error: bool = False
    invalid_variable_error: bool = False
    other_error: bool = False
    python_grader_server_error: bool = False
    python_grader_server_error_type: str | None = None
    python_grader_runtime_error: bool = False
    python_grader_runtime_error_details: str | None = None
    model_grader_server_error: bool = False
    model_grader_refusal_error: bool = False
    model_grader_parse_error: bool = False
    model_grader_server_error_details: str | None = None

    def add(self, error: OutcomeError, grader: str | None = None) -> None:
        """Records a grader's error. `grader` is its name in a multi, whose graders may have several errors."""
        if error.kind != "model":
            self.python_grader_runtime_error = True
            self.add_detail(f"{error.kind}: {error.message}", grader)
            return
        if error.cause == "refused":
            self.model_grader_refusal_error = True
        elif error.cause in ("cut_off", "invalid_reply"):
            self.model_grader_parse_error = True
        else:
            self.model_grader_server_error = True
        self.model_grader_server_error_details = _joined(
            self.model_grader_server_error_details, f"{error.cause}: {error.message}", grader
        )

    def add_detail(self, detail: str, grader: str | None = None) -> None:
        """Records why there is no reward in the member that has room for text."""
        self.python_grader_runtime_error_details = _joined(self.python_grader_runtime_error_details, detail, grader)


def _joined(details: str | None, detail: str, grader: str | None) -> str:
    """The details with another one after them, on a line of its own."""
    named = detail if grader is None else f"{grader}: {detail}"
    return named if details is None else f"{details}\n{named}"


class Metadata(msgspec.Struct):
    """The result of a run besides its reward. `execution_time` is in seconds."""

    name: str
    type: str
    execution_time: float
    scores: dict[str, float | None]
    errors: Errors
    sampled_model_name: str | None = None
    token_usage: int | None = None


class RunAnswer(msgspec.Struct):
    """A run. If one of `errors` is set, the reward is None. OpenAI returns 0.0 then, which looks like a score."""

    reward: float | None
    metadata: Metadata
    sub_rewards: dict[str, float | None]
    model_grader_token_usage_per_model: dict[str, int] = {}
