from worker.pace import _SLICE_S, Pace


def test_a_fast_grader_soon_gets_whole_chunks() -> None:
    pace = Pace()
    given = []
    for _ in range(4):
        given.append(pace.lines)
        pace.took(pace.lines, 1e-5 * pace.lines)
    assert given[0] < 100
    assert given[-1] >= 1000


def test_a_slow_grader_gets_what_takes_half_a_second() -> None:
    pace = Pace()
    pace.took(pace.lines, 0.05 * pace.lines)
    assert pace.lines == _SLICE_S / 0.05


def test_the_slowest_grader_gets_a_line_at_a_time_until_it_is_faster() -> None:
    pace = Pace()
    pace.took(pace.lines, 5.0 * pace.lines)
    assert pace.lines == 1
    pace.took(1, 0.0)
    assert 1 < pace.lines < 10
