"""The client: `Client` for code that blocks, `AsyncClient` for code that awaits.

`_async/` is written by hand; scripts/unasync generates `_sync/` from it.
"""

from gradebox.client._async.batch_handle import AsyncBatchHandle as AsyncBatchHandle
from gradebox.client._async.client import AsyncClient as AsyncClient
from gradebox.client._async.handles import AsyncGraderHandle as AsyncGraderHandle
from gradebox.client._sync.batch_handle import BatchHandle as BatchHandle
from gradebox.client._sync.client import Client as Client
from gradebox.client._sync.handles import GraderHandle as GraderHandle
from gradebox.client.combined_reward import AsyncReward as AsyncReward
from gradebox.client.combined_reward import Reward as Reward
