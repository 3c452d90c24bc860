import gc
import os

from sandbox.guest.kernel.open_fds import close_all_but, opened, renew


def test_a_child_keeps_what_is_named_and_the_standard_ones() -> None:
    reading, writing = os.pipe()
    left = os.dup(reading)
    pid = os.fork()
    if pid == 0:
        close_all_but({writing})
        found = [number for number in range(writing + 256) if _is_open(number)]
        os.write(writing, repr(found).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    assert os.read(reading, 4096).decode() == repr([0, 1, 2, writing])
    os.close(reading)
    os.close(left)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_standard_input_is_opened_anew() -> None:
    gc.collect()  # else the child's collector might close files left by earlier tests
    reading, writing = os.pipe()
    null = os.open("/dev/null", os.O_RDWR)
    pid = os.fork()
    if pid == 0:
        os.dup2(null, 0)
        before = opened()
        renew(0)
        os.set_blocking(0, False)
        told = (os.get_blocking(null), os.get_inheritable(0), opened() == before, os.read(0, 1))
        os.write(writing, repr(told).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 4096).decode() == repr((True, True, True, b""))
    for descriptor in (reading, writing, null):
        os.close(descriptor)
