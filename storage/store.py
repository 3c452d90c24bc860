"""All stored data of the service, opened once per process."""

from contextlib import suppress
from pathlib import Path

from redis import Redis

from runtime.errors import CannotStartYet
from storage import redis_keys
from storage.access.api_keys import ApiKeys
from storage.access.audit import LINES, Audit
from storage.access.projects import DEFAULT, Projects
from storage.access.quotas import GIB, Quotas
from storage.access.sessions import Sessions
from storage.batches.acceptance import Acceptance
from storage.batches.batch_end_events import BatchEndEvents
from storage.batches.batches import Batches
from storage.batches.freezer import Freezer
from storage.batches.recorded_scores import RecordedScores
from storage.connection import FORMAT, check_format, connect, load_scripts, text
from storage.environments.environment_archives import Archives
from storage.environments.environment_builds import EnvironmentBuilds
from storage.environments.environment_data import EnvironmentDataStore
from storage.environments.environments import Environments
from storage.graders.graders import Graders
from storage.models.endpoints import Endpoints
from storage.models.model_limits import ModelLimits
from storage.models.models import Models
from storage.models.secret_key import SecretKey
from storage.models.spending import SpendingStore
from storage.outcomes.retries import Retries
from storage.processes import Processes
from storage.queue.backlog import MOST_WAITING, Backlog, Waiting
from storage.queue.leases import ATTEMPTS, Leases
from storage.queue.queue_depth import Queue
from storage.settings import StorageSettings
from storage.spool import spool_mark
from storage.spool.file_store import MIB
from storage.spool.orphan_files import OrphanFiles
from storage.spool.spool import Spool
from storage.statistics.kept_results import KeptResults


class Store:
    """The parts of the store. Thread-safe."""

    def __init__(
        self,
        redis: Redis,
        spool: Spool,
        most_waiting: Waiting = MOST_WAITING,
        audit_lines: int = LINES,
        attempts: int = ATTEMPTS,
        quotas: Quotas | None = None,
        secret_key: Path | None = None,
    ) -> None:
        quotas = quotas or Quotas()
        self.redis = redis
        self.spool = spool
        self.audit = Audit(redis, audit_lines)
        self.sessions = Sessions(redis)
        self.projects = Projects(redis, self.audit, quotas)
        self.api_keys = ApiKeys(redis, self.audit)
        self.environments = Environments(redis, self.audit, quotas)
        self.builds = EnvironmentBuilds(redis, quotas)
        self.environment_data = EnvironmentDataStore(redis, spool, quotas)
        self.model_limits = ModelLimits(redis)
        self.spending = SpendingStore(redis, self.audit)
        sealing = SecretKey(secret_key or StorageSettings().secret_key)
        self.models = Models(redis, self.audit, quotas, sealing)
        self.endpoints = Endpoints(redis, self.audit, quotas, sealing)
        self.graders = Graders(redis, self.audit, quotas)
        self.archives = Archives(redis, spool)
        self.backlog = Backlog(redis, most_waiting, quotas)
        self.orphan_files = OrphanFiles(redis)
        self.processes = Processes(redis)
        self.recorded = RecordedScores(redis, spool, self.audit, quotas)
        self.acceptance = Acceptance(redis, self.backlog, self.orphan_files, self.audit)
        self.batches = Batches(redis, spool, self.audit, self.model_limits, self.processes, self.recorded)
        self.freezer = Freezer(redis, self.batches)
        self.retries = Retries(redis, self.batches, self.graders, self.backlog, self.freezer, self.audit)
        self.leases = Leases(redis, attempts)
        self.intervals = KeptResults(redis, redis_keys.intervals)
        self.combined = KeptResults(redis, redis_keys.combined)
        self.endings = BatchEndEvents(redis)
        self.queue = Queue(redis)


def open_store(settings: StorageSettings) -> Store:
    """Opens the store of these settings, and converts data of an earlier format.

    Raises:
        CannotStartYet: processes of an earlier gradebox work with data that is to be converted.
        UnknownFormat: a newer gradebox wrote the data.
        redis.exceptions.ConnectionError: Redis cannot be reached.
    """
    redis = connect(settings.redis_url)
    _check_unused_by_earlier(redis)
    check_format(redis)
    load_scripts(redis)
    most = Waiting(settings.waiting_completions, settings.waiting_batches)
    spool = Spool(settings.spool, settings.reserve_mb * MIB)
    with suppress(OSError):  # `/readyz` reports a spool that is away; the janitor marks it later
        spool_mark.match(redis, spool)
    quotas = Quotas(
        projects=settings.projects,
        graders=settings.project_graders,
        versions=settings.grader_versions,
        version_bytes=settings.project_sources_mb * MIB,
        builds=settings.environment_builds,
        models=settings.project_models,
        endpoints=settings.project_endpoints,
        batches=settings.project_batches,
        spool_bytes=settings.project_spool_gb * GIB or spool.files.half_of_disk() or Quotas().spool_bytes,
    )
    return Store(redis, spool, most, settings.audit_lines, settings.attempts, quotas, settings.secret_key)


def _check_unused_by_earlier(redis: Redis) -> None:
    """Raises CannotStartYet while a process of an earlier gradebox works with data that is to be converted. It checked
    the format at its own start alone, and cannot use the new one: at a budget, for one, its chunks of graders that ask
    never end.
    """
    if int(text(redis.get(redis_keys.FORMAT) or b"%d" % FORMAT)) < FORMAT and (there := Processes(redis).there()):
        names = ", ".join(sorted(record.name for record in there))
        raise CannotStartYet(f"processes of an earlier gradebox still work with data that is to be converted: {names}")


def first_start(store: Store, settings: StorageSettings) -> None:
    """Creates the default project, and the first API key in the file `api-key` of the data folder."""
    store.projects.ensure(DEFAULT)
    store.api_keys.ensure_first(settings.data_dir / "api-key")
