import ast

import pytest

from gradebox.source import imports


@pytest.mark.parametrize(
    "call",
    [
        "numpy.random.seed(1)",
        "torch.manual_seed(1)",
        "torch.cuda.manual_seed_all(1)",
        "lightning.seed_everything(1)",
        "spacy.util.fix_random_seed(1)",
        "transformers.set_seed(1)",
    ],
)
def test_seeding_a_package_sets_it_up(call: str) -> None:
    package = call.partition(".")[0]
    found = imports.sets_up(ast.parse(call).body[0], {package: package})
    assert found == call.partition("(")[0]


@pytest.mark.parametrize("call", ["flask.seed_database(1)", "numpy.random.default_rng(seed=1)", "numpy.seeds(1)"])
def test_other_calls_with_seeds_set_nothing_up(call: str) -> None:
    package = call.partition(".")[0]
    assert imports.sets_up(ast.parse(call).body[0], {package: package}) is None
