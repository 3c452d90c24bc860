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

    def add(self, error: OutcomeError) -> None:
        """Records a grader's error."""
        if error.kind != "model":
            self.python_grader_runtime_error = True
            self.python_grader_runtime_error_details = f"{error.kind}: {error.message}"
            return
        if error.cause == "refused":
            self.model_grader_refusal_error = True
        elif error.cause in ("cut_off", "invalid_reply"):
            self.model_grader_parse_error = True
        else:
            self.model_grader_server_error = True
        self.model_grader_server_error_details = f"{error.cause}: {error.message}"


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
