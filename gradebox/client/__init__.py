"""The client: `Client` for code that blocks, `AsyncClient` for code that awaits.

`_async/` is written by hand; scripts/unasync generates `_sync/` from it.
"""

from gradebox.client._async.batches import AsyncBatchHandle
from gradebox.client._async.client import AsyncClient
from gradebox.client._async.handles import AsyncGraderHandle
from gradebox.client._sync.batches import BatchHandle
from gradebox.client._sync.client import Client
from gradebox.client._sync.handles import GraderHandle
from gradebox.client.combined import AsyncReward, Reward

__all__ = [
    "AsyncBatchHandle",
    "AsyncClient",
    "AsyncGraderHandle",
    "AsyncReward",
    "BatchHandle",
    "Client",
    "GraderHandle",
    "Reward",
]
