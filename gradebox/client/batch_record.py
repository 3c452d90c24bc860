"""What the handles of batches of both clients have in common."""

from typing import Any

from gradebox.schemas import Batch, BatchState, Summary


class BatchRecord:
    """A batch as it was in the last answer of the service, which is its `status`."""

    status: Batch

    @property
    def id(self) -> str:
        """The batch's id, unique in its project."""
        return self.status.id

    @property
    def state(self) -> BatchState:
        """`queued`, `running`, `finished`, `cancelled` or `failed`, as of the last answer."""
        return self.status.state

    @property
    def summary(self) -> list[Summary]:
        """One summary for each grader, over the outcomes so far, as of the last answer."""
        return self.status.summary

    def __getattr__(self, name: str) -> Any:
        """The other attributes of `status`, such as `batch.done` and `batch.created_at`."""
        if name.startswith("_") or name == "status":
            raise AttributeError(name)
        return getattr(self.status, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status.one_line}>"

    def _repr_html_(self) -> str:
        return self.status._repr_html_()
