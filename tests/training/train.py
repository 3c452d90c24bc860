"""Trains a tiny random model with TRL's GRPOTrainer for a few steps, with rewards of a service.

Runs in an environment that has trl and the light client; GRADEBOX_URL and GRADEBOX_API_KEY configure the service.
Prints the results as one line of JSON. Exits with 1 if they contradict docs/rl.md.
"""

import json
import math
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

import gradebox

WORDS = ["<pad>", "<bos>", "<eos>", "<unk>", *map(str, range(12))]
STEPS, GROUP, LENGTH = 3, 8, 6
LEAVES_OUT = tuple(map(int, version("trl").split(".")[:2])) >= (1, 6)

COUNTS = """
from gradebox import Score, StringThread

async def grade(thread: StringThread) -> float:
    words = thread.completion().split()
    share = words.count(thread.metadata["answer"]) / 6
    return Score(share, reason=f"{len(words)} words", values={"words": len(words)})
"""
PICKY = """
from gradebox import StringThread

async def grade(thread: StringThread) -> float:
    words = thread.completion().split()
    if len(words) % 2:
        raise ValueError("an odd number of words")
    return len(words) / 10
"""
NEVER = """
from gradebox import StringThread

async def grade(thread: StringThread) -> float:
    return float(thread.metadata["solution"])
"""


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token for each word."""
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=["input_ids", "attention_mask"], **special)


def train(*reward_funcs: Callable[..., Any]) -> list[dict[str, Any]]:
    """Trains, and returns the trainer's log entry of each step."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), num_key_value_heads=2, pad_token_id=0, **sizes))
    rows = [{"prompt": f"{number % 10} {number % 7}", "answer": str(number % 10)} for number in range(64)]
    with tempfile.TemporaryDirectory() as folder:
        options = GRPOConfig(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=GROUP,
            num_generations=4,
            max_completion_length=LENGTH,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            seed=7,
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=list(reward_funcs),
            args=options,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer(),
        )
        trainer.train()
    return [entry for entry in trainer.state.log_history if "reward" in entry]


class Kept:
    """A reward function that records the rewards it returns."""

    def __init__(self, reward: Callable[..., list[float | None]]) -> None:
        self.__name__ = reward.__name__
        self.given: list[list[float | None]] = []
        self._reward = reward

    def __call__(self, **arguments: Any) -> list[float | None]:
        self.given.append(self._reward(**arguments))
        return self.given[-1]

    def means(self) -> list[float]:
        """The mean reward of each step, without missing rewards."""
        scored = [[reward for reward in step if reward is not None] for step in self.given]
        return [sum(step) / len(step) for step in scored]


class Faults(list[str]):
    """The expectations that did not hold."""

    def expect(self, holds: bool, what: str) -> None:
        """Adds `what` if it does not hold."""
        if not holds:
            self.append(what)


def agrees(logged: list[dict[str, Any]], kept: Kept) -> bool:
    """Whether the trainer logged the means of the recorded rewards."""
    pairs = zip([entry["reward"] for entry in logged], kept.means(), strict=True)
    return all(math.isclose(float(one), other, abs_tol=1e-3) for one, other in pairs)


def raises(*reward_funcs: Callable[..., Any]) -> bool:
    """Whether the training ends with ScoreMissing."""
    try:
        train(*reward_funcs)
    except gradebox.ScoreMissing:
        return True
    return False


def main() -> int:
    faults = Faults()
    client = gradebox.Client()
    threads = [{"completion": "1 2", "metadata": {"answer": "1", "solution": "1"}}]
    counts = client.graders.put("counts", fn=COUNTS, threads=threads)
    picky = client.graders.put("picky", fn=PICKY, threads=threads)
    never = client.graders.put("never", fn=NEVER, threads=threads)

    kept = Kept(counts.as_trl_reward())
    logged = train(kept)
    faults.expect(len(logged) == STEPS and agrees(logged, kept), "rewards of one grader are those that it gave")
    metrics = sorted({name for entry in logged for name in entry if name.startswith("counts/")})

    by_workers = Kept(counts.as_trl_reward(by_workers=True))
    faults.expect(agrees(train(by_workers), by_workers), "rewards by workers are those that were given")
    made = sum(line.action == "batch.create" for line in client.audit(limit=2 * STEPS))
    faults.expect(made == STEPS, "each step by workers is a batch")

    both = Kept(client.reward({"counts": 0.75, "picky@1": 0.25}).as_trl_reward(missing=-1.0))
    combined = train(both)
    faults.expect(agrees(combined, both), "rewards of two graders are those that were given")
    faults.expect(any(-1.0 in step for step in both.given), "a missing part is a missing reward")

    some = Kept(picky.as_trl_reward())
    if LEAVES_OUT:
        faults.expect(agrees(train(some), some), "completions without a reward are left out")
        faults.expect(any(None in step for step in some.given), "some completions had no reward")
    else:
        faults.expect(raises(some), "before trl 1.6 a missing reward ends the step")
    faults.expect(
        raises(picky.as_trl_reward(), counts.as_trl_reward()), "beside another, a missing reward ends the step"
    )
    faults.expect(raises(never.as_trl_reward(missing="none")), "a step without any reward is an error")

    told = {
        "trl": version("trl"),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "rewards": [float(entry["reward"]) for entry in logged],
        "combined": [float(entry["reward"]) for entry in combined],
        "metrics": metrics,
        "faults": faults,
    }
    print(json.dumps(told))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
