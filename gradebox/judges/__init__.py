"""Kinds of graders: classes that make a grader from a few settings.

    binary_judge.py       `BinaryJudge`: a model decides whether a completion meets a criterion
    direct_judge.py       `DirectJudge`: a model chooses one of the options of a criterion
    multi_criteria.py     `MultiCriteria`: the weighted sum of several criteria
    pairwise_judge.py     `PairwiseJudge`: a model compares several responses
    faithfulness.py       `Faithfulness`: the share of a completion's claims that its context supports
    relevancy.py          `ContextRelevancy`, `AnswerRelevancy`: the share of helpful documents, or statements
    combine.py            `Combine`: one score from the scores of several graders
    combined_part.py      one part of a combination, and how its score counts
    external_endpoint.py  `ExternalEndpoint`: a reward server scores
    formula.py            arithmetic on scores
    feedback.py           proposed changes to a completion, or to its judge: for batches of feedback
    means.py              means and thresholds without rounding errors
    criterion.py          `Criterion` and `Option`, and their parsing
    criteria.py           the predefined criteria
    fields.py             the fields of a thread that a judge is shown
    fence.py              marks around the judged text
    documents.py          the documents of a thread
    together.py           asks that are sent in one round
    bounded_details.py    details cut to fit into an outcome
    setting_checks.py     checks of settings that several judges have
    *_prompts.py          the judges' prompts
    failures.py           the error of a judge that asks others
    templates.py          prompts in Handlebars
    kind_source.py        the source of a grader of a kind

Graders import these modules inside the sandbox, so they import only the standard library and the template engine.
Each name is imported on first use, so that a grader loads only what it uses.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradebox.judges.binary_judge import BinaryJudge as BinaryJudge
    from gradebox.judges.binary_judge import Example as Example
    from gradebox.judges.binary_judge import ExampleTurn as ExampleTurn
    from gradebox.judges.combine import Combine as Combine
    from gradebox.judges.criterion import Criterion as Criterion
    from gradebox.judges.criterion import Option as Option
    from gradebox.judges.direct_judge import DecidedCase as DecidedCase
    from gradebox.judges.direct_judge import DirectJudge as DirectJudge
    from gradebox.judges.direct_judge import PositionalBias as PositionalBias
    from gradebox.judges.external_endpoint import ExternalEndpoint as ExternalEndpoint
    from gradebox.judges.faithfulness import Faithfulness as Faithfulness
    from gradebox.judges.multi_criteria import CriterionItem as CriterionItem
    from gradebox.judges.multi_criteria import MultiCriteria as MultiCriteria
    from gradebox.judges.pairwise_judge import PairwiseJudge as PairwiseJudge
    from gradebox.judges.relevancy import AnswerRelevancy as AnswerRelevancy
    from gradebox.judges.relevancy import ContextRelevancy as ContextRelevancy
else:
    # The names of each module.
    _NAMES = {
        "binary_judge": "BinaryJudge Example ExampleTurn",
        "combine": "Combine",
        "criterion": "Criterion Option",
        "direct_judge": "DecidedCase DirectJudge PositionalBias",
        "external_endpoint": "ExternalEndpoint",
        "faithfulness": "Faithfulness",
        "multi_criteria": "CriterionItem MultiCriteria",
        "pairwise_judge": "PairwiseJudge",
        "relevancy": "AnswerRelevancy ContextRelevancy",
    }
    _MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
    __all__ = sorted(_MODULE_OF)

    def __getattr__(name):
        from importlib import import_module

        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        return value
