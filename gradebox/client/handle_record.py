"""What the handles of graders of both clients have in common."""

from gradebox.client.reward_functions import NamedReward
from gradebox.schemas import GraderRecord


class HandleRecord(GraderRecord, NamedReward):
    """A grader as the service described it."""

    def __hash__(self) -> int:
        return hash((self.project, self.key, self.version))

    def _reward_name(self) -> str:
        return self.key

    def _takes_groups(self) -> bool:
        return self.groups
