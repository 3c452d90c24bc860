"""What a grader may ask, through the host: the models and endpoints of its project, and its other graders.

    model.py         `Model`: chat, and a choice between options
    endpoint.py      `Endpoint`: a reward server
    other_grader.py  `Grader`: another grader of the project
    once.py          `once`: what is to be done in one run alone
    errors.py        `ModelError`
    asking.py        who answers: a sandbox's replay, or what `gradebox.testing` scripts
    reading.py       JSON out of a reply
    schema.py        whether JSON fits a schema

Graders see these modules inside the sandbox, so they import nothing but the standard library.
"""

from gradebox.asks.endpoint import Endpoint
from gradebox.asks.errors import ModelError
from gradebox.asks.model import Model, Reply, Verdict
from gradebox.asks.once import once
from gradebox.asks.other_grader import Grader

__all__ = ["Endpoint", "Grader", "Model", "ModelError", "Reply", "Verdict", "once"]
