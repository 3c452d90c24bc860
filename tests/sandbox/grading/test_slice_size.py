from sandbox.grading.slice_size import _SLICE_S, SliceSize


def test_a_fast_grader_soon_gets_whole_chunks() -> None:
    size = SliceSize()
    given = []
    for _ in range(4):
        given.append(size.lines)
        size.took(size.lines, 1e-5 * size.lines)
    assert given[0] < 100
    assert given[-1] >= 1000


def test_a_slow_grader_gets_what_takes_half_a_second() -> None:
    size = SliceSize()
    size.took(size.lines, 0.05 * size.lines)
    assert size.lines == _SLICE_S / 0.05


def test_the_slowest_grader_gets_a_line_at_a_time_until_it_is_faster() -> None:
    size = SliceSize()
    size.took(size.lines, 5.0 * size.lines)
    assert size.lines == 1
    size.took(1, 0.0)
    assert 1 < size.lines < 10
