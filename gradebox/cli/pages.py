"""`gradebox pages`"""

from gradebox.cli.command import Invocation
from gradebox.cli.output import as_json, say


def pages(invocation: Invocation) -> None:
    """Prints a link that opens the service's pages in a browser, signed in. It works once, within a day."""
    link = invocation.client.sign_in_link()
    return as_json({"url": link}) if invocation.json else say(link)
