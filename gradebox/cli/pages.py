"""`gradebox pages`"""

from gradebox.cli.command import Invocation


def pages(invocation: Invocation) -> None:
    """Prints a link that opens the service's pages in a browser, signed in. It works once, within a day."""
    link = invocation.client.sign_in_link()
    return invocation.say({"url": link}, link)
