"""`gradebox models`"""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gradebox.cli.command import Invocation, client_command
from gradebox.cli.output import as_json, say, table

if TYPE_CHECKING:
    from gradebox.schemas import ModelDefaults, ProjectModel

app = typer.Typer(help="Manages models: servers of chat completions.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The model's key.")]
BaseUrl = Annotated[str, typer.Option(help="Of any OpenAI-compatible server, such as https://api.openai.com/v1.")]
Name = Annotated[str, typer.Option("--model", help="Its name there.")]
KeyEnv = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The environment variable with the API key to send; empty removes the key."),
]
Temperature = Annotated[float | None, typer.Option(min=0, max=2, help="Sent with each request.")]
TopP = Annotated[float | None, typer.Option(min=0, max=1, help="Sent with each request.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Sent with each request.")]
Seed = Annotated[int | None, typer.Option(help="Sent with each request.")]
Timeout = Annotated[float | None, typer.Option(min=1, max=600, help="Seconds for one whole reply; 120 by default.")]


@client_command(app)
def create(
    invocation: Invocation,
    key: Key,
    base_url: BaseUrl,
    model: Name,
    key_env: KeyEnv = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    timeout_s: Timeout = None,
) -> None:
    """Keeps a model. Test it then."""
    created = invocation.client.models.create(
        key,
        base_url=base_url,
        model=model,
        api_key=_secret(key_env),
        defaults=_defaults(temperature, top_p, max_tokens, seed),
        timeout_s=timeout_s,
    )
    as_json(created) if invocation.json else say(f"{key} is kept: test it with gradebox models test {key}")


@client_command(app)
def update(
    invocation: Invocation,
    key: Key,
    base_url: Annotated[str | None, typer.Option(help="Another one; it needs --key-env again.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Its name there.")] = None,
    key_env: KeyEnv = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    timeout_s: Timeout = None,
) -> None:
    """Changes what is given; of what is sent with each request, all together."""
    changed = invocation.client.models.update(
        key,
        base_url=base_url,
        model=model,
        api_key=_secret(key_env),
        defaults=_defaults(temperature, top_p, max_tokens, seed),
        timeout_s=timeout_s,
    )
    as_json(changed) if invocation.json else say(f"{key} is changed: test it with gradebox models test {key}")


@client_command(app)
def test(invocation: Invocation, key: Key) -> None:
    """Asks a model whether it answers, and what its server can do. Exits 1 when it does not answer."""
    trial = invocation.client.models.test(key)
    if invocation.json:
        as_json(trial)
    elif trial.error is not None:
        say(f"{key} gave no reply ({trial.error.kind}): {trial.error.message}")
    else:
        say(f"{key} answers ({trial.duration_ms:.0f} ms for three replies): {trial.reply}")
        say(f"structured output: {_known(trial.structured_output)}, log probabilities: {_known(trial.logprobs)}")
    if not trial.passed:
        raise typer.Exit(1)


@client_command(app, "list")
def list_models(invocation: Invocation) -> None:
    """The models of the project."""
    models = invocation.client.models.list()
    if invocation.json:
        return as_json(models)
    return table(["key", "model", "base URL", "API key", "structured output", "tested (UTC)"], map(_row, models))


@client_command(app)
def show(invocation: Invocation, key: Key) -> None:
    """One model. Its API key is never shown."""
    as_json(invocation.client.models.get(key))


@client_command(app)
def delete(
    invocation: Invocation,
    key: Key,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
) -> None:
    """Deletes a model with its API key."""
    if not yes and sys.stdin.isatty():
        typer.confirm(f"delete {key} with its API key?", abort=True, err=True)
    invocation.client.models.delete(key)
    as_json({"deleted": key}) if invocation.json else say(f"deleted {key}")


def _secret(variable: str | None) -> str | None:
    """The API key. It is never an argument: every user of a machine sees those."""
    if not variable:
        return variable
    value = os.environ.get(variable)
    if not value:
        raise typer.BadParameter(f"the environment variable {variable} is not set", param_hint="--key-env")
    return value


def _defaults(
    temperature: float | None, top_p: float | None, max_tokens: int | None, seed: int | None
) -> "ModelDefaults | None":
    from gradebox.schemas import ModelDefaults

    given = ModelDefaults(temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed)
    return given if given != ModelDefaults() else None


def _row(model: "ProjectModel") -> tuple[object, ...]:
    has_key = "yes" if model.has_api_key else "no"
    tested = f"{model.tested_at:%F %T}" if model.tested_at else "no"
    return model.key, model.model, model.base_url, has_key, _known(model.structured_output), tested


def _known(ability: bool | None) -> str:
    return {True: "yes", False: "no", None: "not tested"}[ability]
