from redis.exceptions import RedisError

from runtime.periodic_thread import PeriodicThread


def test_no_exception_ends_the_thread_and_its_end_does() -> None:
    def work() -> None:
        calls.append(len(calls))
        if errors:
            raise errors.pop()
        thread.end()

    calls: list[int] = []
    errors = [KeyError("a defect"), OSError("no space"), RedisError("away")]
    thread = PeriodicThread("test", work, 0.0)
    thread.start()
    thread.join(10)
    assert not thread.is_alive() and calls == [0, 1, 2, 3]
