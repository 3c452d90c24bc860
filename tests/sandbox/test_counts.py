from sandbox.counts import Counts


def test_what_is_taken_begins_anew_and_can_be_put_back() -> None:
    counts = Counts()
    counts.add("a")
    counts.add("a", 2)
    taken = counts.take()
    assert taken == {"a": 3}
    assert counts.take() == {}
    counts.add("a")
    counts.put_back(taken)
    assert counts.take() == {"a": 4}


def test_a_duration_falls_into_one_bucket() -> None:
    counts = Counts()
    for seconds in (0.0, 0.01, 0.02, 1e6, -1.0):
        counts.observe("wait", seconds)
    assert counts.take() == {"wait:sum": 1000000.03, "wait:0.01": 3, "wait:0.05": 1, "wait:more": 1}
