"""Tunes a judge by labels: a model suggests a change for scores that differ, and the change stays if it helps.

    python -m examples.tune_judge polite BATCH metadata.gold --model small-judge

BATCH is a batch that the judge, a grader of kind `judge` or `binary_judge`, has scored. Both versions are compared on
its threads; use other threads to measure the new version.
"""

import argparse
from typing import Any, NamedTuple

from gradebox import Client


class Tuned(NamedTuple):
    """The result: the share of scores that equal their labels, before and after, and the new criterion.

    `after` and `criterion` are None if no score differs from its label. `is_kept`: whether the judge now has it.
    """

    before: float | None
    after: float | None
    criterion: str | None
    is_kept: bool


def tune(client: Client, judge: str, batch_id: str, labels: str, model: str) -> Tuned:
    """Gives the judge a new version, and then its former settings unless that agrees more with the labels."""
    batch = client.batches.get(batch_id)
    before = client.agreement(batch, judge, labels).accuracy
    found = client.graders.suggest(judge, batch=batch, labels=labels, model=model)
    if found.proposal is None:
        return Tuned(before, None, None, False)
    newest = client.graders.versions(judge)[-1]
    if newest.config is None or newest.kind not in ("judge", "binary_judge"):
        raise ValueError(f"{judge} is of kind {newest.kind}: change its source by hand, as this says: {found.proposal}")
    client.graders.update(judge, kind=newest.kind, config=with_criterion(newest.config, found.proposal))
    again = client.batches.create(judge, threads_of=batch)
    again.wait(progress=False)
    after = client.agreement(again, judge, labels).accuracy
    is_kept = after is not None and (before is None or after > before)
    if not is_kept:
        client.graders.update(judge, kind=newest.kind, config=newest.config)
    return Tuned(before, after, found.proposal, is_kept)


def with_criterion(config: dict[str, Any], text: str) -> dict[str, Any]:
    """The settings of a judge with another criterion and the same options."""
    if "criteria" in config:
        return config | {"criteria": text}
    criterion = config["criterion"]
    return config | {"criterion": criterion | {"description": text} if isinstance(criterion, dict) else text}


def main() -> None:
    """Tunes the named judge and prints the result."""
    parser = argparse.ArgumentParser(description="Tunes a judge by labels.")
    parser.add_argument("judge", help="its key")
    parser.add_argument("batch", help="the id of a batch that it has scored")
    parser.add_argument("labels", help="a field such as metadata.gold, or another grader of the batch")
    parser.add_argument("--model", required=True, help="the key of the model that is asked what to change")
    given = parser.parse_args()
    with Client() as client:
        tuned = tune(client, given.judge, given.batch, given.labels, given.model)
    print(f"as labelled before: {tuned.before}")
    if tuned.criterion is None:
        print("no score differs from its label: nothing is changed")
    else:
        print(f"as labelled after:  {tuned.after}\n{'kept' if tuned.is_kept else 'not kept'}: {tuned.criterion}")


if __name__ == "__main__":
    main()
