"""Asks: a grader's calls, through the host, to models and endpoints of its project, and to its other graders.

    model.py         `Model`: chat, and a choice between options
    endpoint.py      `Endpoint`: a reward server
    other_grader.py  `Grader`: another grader of the project
    once.py          `once`: a computation that is done in one run only
    errors.py        `ModelError`
    asking.py        the interface that answers asks: a sandbox's replay, or a script of `gradebox.testing`
    read_reply.py    parsing of JSON in a reply
    schema.py        validation of JSON against a schema

Graders import these modules inside the sandbox, so they import only the standard library.
"""

from gradebox.asks.endpoint import Endpoint
from gradebox.asks.errors import ModelError
from gradebox.asks.model import Model, Reply, Verdict
from gradebox.asks.once import once
from gradebox.asks.other_grader import Grader

__all__ = ["Endpoint", "Grader", "Model", "ModelError", "Reply", "Verdict", "once"]
