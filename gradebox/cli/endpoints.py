"""`gradebox endpoints`"""

from typing import TYPE_CHECKING, Annotated

import typer

from gradebox.cli.command import Invocation, Yes, client_command, confirm_deletion
from gradebox.cli.output import as_json, say
from gradebox.cli.registered_servers import Concurrency, HeaderEnv, KeyEnv, Requests, Timeout, headers, secret

if TYPE_CHECKING:
    from gradebox.schemas import ProjectEndpoint

app = typer.Typer(help="Manages endpoints: reward servers.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The endpoint's key.")]


@client_command(app)
def create(
    invocation: Invocation,
    key: Key,
    endpoint_url: Annotated[str, typer.Option(help="URL of a reward server, which answers POST ENDPOINT_URL/score.")],
    key_env: KeyEnv = None,
    header_env: HeaderEnv = None,
    timeout_s: Timeout = None,
    max_concurrency: Concurrency = None,
    requests_per_minute: Requests = None,
) -> None:
    """Registers an endpoint. Test it afterwards."""
    created = invocation.client.endpoints.create(
        key,
        url=endpoint_url,
        api_key=secret(key_env),
        headers=headers(header_env),
        timeout_s=timeout_s,
        max_concurrency=max_concurrency,
        requests_per_minute=requests_per_minute,
    )
    invocation.say(created, f"{key} is saved: test it with gradebox endpoints test {key}")


@client_command(app)
def update(
    invocation: Invocation,
    key: Key,
    endpoint_url: Annotated[str | None, typer.Option(help="A new URL; it needs --key-env, --header-env again.")] = None,
    key_env: KeyEnv = None,
    header_env: HeaderEnv = None,
    timeout_s: Timeout = None,
    max_concurrency: Concurrency = None,
    requests_per_minute: Requests = None,
) -> None:
    """Changes the given settings."""
    changed = invocation.client.endpoints.update(
        key,
        url=endpoint_url,
        api_key=secret(key_env),
        headers=headers(header_env),
        timeout_s=timeout_s,
        max_concurrency=max_concurrency,
        requests_per_minute=requests_per_minute,
    )
    invocation.say(changed, f"{key} is changed: test it with gradebox endpoints test {key}")


@client_command(app)
def test(invocation: Invocation, key: Key) -> None:
    """Tests an endpoint with one small thread. Exits 1 when it gives no reward."""
    trial = invocation.client.endpoints.test(key)
    if invocation.json:
        as_json(trial)
    elif trial.error is not None:
        say(f"{key} gave no reward ({trial.error.kind}): {trial.error.message}")
    else:
        say(f"{key} answers ({trial.duration_ms:.0f} ms): its reward is {trial.reward}")
    if not trial.passed:
        raise typer.Exit(1)


@client_command(app, "list")
def list_endpoints(invocation: Invocation) -> None:
    """The endpoints of the project."""
    endpoints = invocation.client.endpoints.list()
    invocation.show(endpoints, ["key", "URL", "API key", "headers", "tested (UTC)"], map(_row, endpoints))


@client_command(app)
def show(invocation: Invocation, key: Key) -> None:
    """One endpoint. Its API key and the values of its headers are never shown."""
    as_json(invocation.client.endpoints.get(key))


@client_command(app)
def delete(invocation: Invocation, key: Key, yes: Yes = False) -> None:
    """Deletes an endpoint with its API key."""
    confirm_deletion(f"{key} with its API key", yes)
    invocation.client.endpoints.delete(key)
    invocation.say({"deleted": key}, f"deleted {key}")


def _row(endpoint: "ProjectEndpoint") -> tuple[object, ...]:
    tested = f"{endpoint.tested_at:%F %T}" if endpoint.tested_at else "no"
    has_key = "yes" if endpoint.has_api_key else "no"
    return endpoint.key, endpoint.url, has_key, ", ".join(endpoint.header_names) or "none", tested
