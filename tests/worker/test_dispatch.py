import pytest
from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from storage.batch_plan import UploadedBatch
from storage.processes import ProcessRecord
from storage.store import Store
from storage.uploads import Upload
from tests.storage.making import wanted
from worker import context, jobs
from worker.dispatch import QUEUES, Dispatch


def accept(store: Store, dispatch: Dispatch) -> None:
    upload = Upload(store)
    upload.write(b"{}\n" * 600)
    dispatch.accept(UploadedBatch(upload.id, "default", [wanted(store, "exact")], upload.finish()))


def queue(redis: Redis) -> Queue:
    return Queue(QUEUES[""], connection=redis, serializer=JSONSerializer)


def test_a_batch_and_its_job_come_together(store: Store, redis: Redis) -> None:
    accept(store, Dispatch(store))
    (job,) = queue(redis).jobs
    assert (job.func_name, job.args, job.kwargs, job.timeout) == ("worker.jobs.drain", [], {}, -1)


def test_a_batch_calls_as_many_workers_as_there_are_and_it_has_units_for(store: Store, redis: Redis) -> None:
    for number in range(5):
        store.processes.report(ProcessRecord("worker", f"host:{number}"))
    store.processes.report(ProcessRecord("api", "host:5"))
    accept(store, Dispatch(store))
    assert len(queue(redis)) == 3


def test_a_worker_is_called_once_and_a_call_that_is_answered_leaves_nothing(store: Store, redis: Redis) -> None:
    dispatch = Dispatch(store)
    assert dispatch.answer(0.01) is None
    dispatch.call()
    dispatch.call()
    assert len(queue(redis)) == 1
    job = dispatch.answer(0.01)
    assert job is not None and int(redis.ttl(f"rq:job:{job}")) > 0  # the job expires if its worker is killed
    dispatch.forget(job)
    assert not redis.keys("rq:job:*")
    assert not len(queue(redis))


def test_a_worker_of_rqs_own_is_told_what_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_current", [])
    with pytest.raises(RuntimeError, match="gradebox worker"):
        jobs.drain()
