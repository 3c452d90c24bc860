"""`gradebox models`"""

from typing import TYPE_CHECKING, Annotated

import typer

from gradebox.cli.command import Invocation, Yes, client_command, confirm_deletion
from gradebox.cli.output import as_json, say
from gradebox.cli.registered_servers import Concurrency, KeyEnv, Requests, Timeout, secret

if TYPE_CHECKING:
    from gradebox.schemas import ModelDefaults, ProjectModel

app = typer.Typer(help="Manages models: servers of chat completions.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The model's key.")]
BaseUrl = Annotated[
    str, typer.Option(help="Base URL of any OpenAI-compatible server, such as https://api.openai.com/v1.")
]
Name = Annotated[str, typer.Option("--model", help="Name of the model at the server.")]
Temperature = Annotated[float | None, typer.Option(min=0, max=2, help="Sent with each request.")]
TopP = Annotated[float | None, typer.Option(min=0, max=1, help="Sent with each request.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Sent with each request.")]
Seed = Annotated[int | None, typer.Option(help="Sent with each request.")]
Tokens = Annotated[int | None, typer.Option(min=0, help="Maximum number of tokens a minute; 0 removes the limit.")]
InputPrice = Annotated[float | None, typer.Option(min=0, help="US dollars for a million input tokens.")]
OutputPrice = Annotated[float | None, typer.Option(min=0, help="US dollars for a million output tokens.")]
KeepReplies = Annotated[
    bool | None,
    typer.Option(
        "--keep-replies/--no-keep-replies", help="Whether replies are kept and reused for equal asks; kept by default."
    ),
]


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
    max_concurrency: Concurrency = None,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    input_price: InputPrice = None,
    output_price: OutputPrice = None,
    keep_replies: KeepReplies = None,
) -> None:
    """Registers a model. Test it afterwards."""
    created = invocation.client.models.create(
        key,
        base_url=base_url,
        model=model,
        api_key=secret(key_env),
        defaults=_defaults(temperature, top_p, max_tokens, seed),
        timeout_s=timeout_s,
        max_concurrency=max_concurrency,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        input_price=input_price,
        output_price=output_price,
        keep_replies=keep_replies,
    )
    invocation.say(created, f"{key} is saved: test it with gradebox models test {key}")


@client_command(app)
def update(
    invocation: Invocation,
    key: Key,
    base_url: Annotated[str | None, typer.Option(help="A new base URL; it needs --key-env again.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Name of the model at the server.")] = None,
    key_env: KeyEnv = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    timeout_s: Timeout = None,
    max_concurrency: Concurrency = None,
    requests_per_minute: Requests = None,
    tokens_per_minute: Tokens = None,
    input_price: InputPrice = None,
    output_price: OutputPrice = None,
    keep_replies: KeepReplies = None,
) -> None:
    """Changes the given settings; the parameters that are sent with each request are replaced together."""
    changed = invocation.client.models.update(
        key,
        base_url=base_url,
        model=model,
        api_key=secret(key_env),
        defaults=_defaults(temperature, top_p, max_tokens, seed),
        timeout_s=timeout_s,
        max_concurrency=max_concurrency,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        input_price=input_price,
        output_price=output_price,
        keep_replies=keep_replies,
    )
    invocation.say(changed, f"{key} is changed: test it with gradebox models test {key}")


@client_command(app)
def test(invocation: Invocation, key: Key) -> None:
    """Tests whether a model answers, and what its server supports. Exits 1 when it does not answer."""
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
    columns = ["key", "model", "base URL", "API key", "structured output", "tested (UTC)"]
    invocation.show(models, columns, map(_row, models))


@client_command(app)
def show(invocation: Invocation, key: Key) -> None:
    """One model. Its API key is never shown."""
    as_json(invocation.client.models.get(key))


@client_command(app)
def delete(invocation: Invocation, key: Key, yes: Yes = False) -> None:
    """Deletes a model with its API key."""
    confirm_deletion(f"{key} with its API key", yes)
    invocation.client.models.delete(key)
    invocation.say({"deleted": key}, f"deleted {key}")


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
