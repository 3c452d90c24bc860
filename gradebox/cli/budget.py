"""`gradebox budget`"""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gradebox.cli.command import Invocation, client_command
from gradebox.cli.output import as_json, note, say
from gradebox.number_text import money_text

if TYPE_CHECKING:
    from gradebox.schemas import ProjectBudget

app = typer.Typer(help="Limits what the project spends on asks of models.", no_args_is_help=True)


@client_command(app)
def show(invocation: Invocation) -> None:
    """The budget, and the amount spent."""
    _show_budget(invocation, invocation.client.budget.get())


@client_command(app, "set")
def set_budget(
    invocation: Invocation,
    usd: Annotated[float | None, typer.Option(min=0, help="US dollars, by the models' prices.")] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="Tokens, input and output together.")] = None,
    period: Annotated[
        Literal["day", "month", "total"] | None, typer.Option(help="Period in UTC; a month by default.")
    ] = None,
) -> None:
    """Sets the budget and replaces the current one."""
    if usd is None and tokens is None:
        raise typer.BadParameter("a budget is --usd, --tokens or both")
    _show_budget(invocation, invocation.client.budget.set(usd=usd, tokens=tokens, period=period))


@client_command(app)
def delete(invocation: Invocation) -> None:
    """Removes the budget."""
    invocation.client.budget.delete()
    invocation.say({"deleted": "budget"}, "the budget was removed")


def _show_budget(invocation: Invocation, budget: "ProjectBudget") -> None:
    if invocation.json:
        return as_json(budget)
    if budget.not_limited:
        note(
            f"the budget in USD does not limit models without a price: {', '.join(budget.not_limited)} "
            "(gradebox models update KEY --input-price … --output-price …; 0 if it costs nothing)"
        )
    spent = f"{money_text(budget.spent_usd)} USD and {budget.spent_tokens:,} tokens"
    if budget.usd is None and budget.tokens is None:
        return say(f"there is no budget; {spent} are spent in all")
    bounds = [f"{money_text(budget.usd)} USD"] if budget.usd is not None else []
    bounds += [f"{budget.tokens:,} tokens"] if budget.tokens is not None else []
    each = "in all" if budget.period == "total" else f"each {budget.period}"
    say(f"{' and '.join(bounds)} {each}; {spent} are spent")
    if budget.is_spent:
        say("the budget is used up: raise it, or wait for the next period")
    return None
