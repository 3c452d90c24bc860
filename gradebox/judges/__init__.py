"""Kinds of graders: classes that make one from a few settings.

    binary_judge.py       `BinaryJudge`: a model says whether a completion meets a criterion
    external_endpoint.py  `ExternalEndpoint`: a reward server scores
    prompts.py            what judges say to models
    templates.py          prompts in Handlebars
    source.py             the source of a grader of a kind

Graders see these modules inside the sandbox, so they import nothing but the standard library and the template engine.
"""

from gradebox.judges.binary_judge import BinaryJudge, Example, ExampleTurn
from gradebox.judges.external_endpoint import ExternalEndpoint

__all__ = ["BinaryJudge", "Example", "ExampleTurn", "ExternalEndpoint"]
