"""Tests of managers of `multiprocessing` that connect by pairs of sockets, in a process without other sockets."""

import subprocess
import sys

import pytest

_START = """
import os, signal, socket, time
from sandbox.guest.template.managers import connect_by_pairs
from sandbox.guest.template.start_methods import fork_always

connect_by_pairs()
fork_always()

def refused(*_):
    raise PermissionError("no socket with an address")

import multiprocessing
from multiprocessing import connection, managers
connection.SocketListener = connection.SocketClient = refused

def put(shared, key):
    shared[key] = os.getpid()

def put_in_process(shared, key):
    process = multiprocessing.get_context("fork").Process(target=put, args=(shared, key))
    process.start()
    process.join()
"""


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", _START + code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_many_managers_leave_no_descriptor() -> None:
    code = """
def one(end):
    manager = multiprocessing.Manager()
    shared = manager.dict()
    put_in_process(shared, 1)
    assert shared[1] != os.getpid()
    if end:
        manager.shutdown()

one(True)
before = len(os.listdir("/proc/self/fd"))
for number in range(20):
    one(number % 2)
print(len(os.listdir("/proc/self/fd")) - before)
"""
    assert _run(code) == "0"


def test_a_manager_with_own_types_and_an_address() -> None:
    code = """
class Counter:
    def __init__(self):
        self.number = 0
    def add(self, number):
        self.number += number
        return self.number

class Counters(managers.BaseManager):
    pass

Counters.register("Counter", Counter)
with Counters(address=("127.0.0.1", 5000), authkey=b"secret") as counters:
    counter = counters.Counter()
    counter.add(2)
    other = Counters(address=("127.0.0.1", 5000), authkey=b"secret")
    other.connect()
    print(counter.add(3), other.Counter().add(7))
    wrong = Counters(address=("127.0.0.1", 5000), authkey=b"wrong")
    try:
        wrong.connect()
    except multiprocessing.AuthenticationError:
        print("refused")
"""
    assert _run(code) == "5 7\nrefused"


def test_a_manager_that_is_started_twice_still_serves() -> None:
    code = """
with managers.SyncManager(address=("127.0.0.1", 0)) as one, managers.SyncManager(address=("127.0.0.1", 0)) as other:
    shared = one.list(), other.list()
    try:
        one.start()
    except multiprocessing.ProcessError as error:
        print(error)
    shared[0].append(1)
    print(len(one.list(shared[0])), len(shared[1]), one.address != other.address)
    try:
        managers.SyncManager(address=one.address).start()
    except OSError as error:
        print("in use")
"""
    assert _run(code) == "Already started server\n1 0 True\nin use"


@pytest.mark.parametrize(
    "how", ["manager.shutdown()", "os.kill(manager._process.pid, signal.SIGKILL); time.sleep(0.2)"]
)
def test_a_manager_that_has_ended_refuses(how: str) -> None:
    code = f"""
manager = multiprocessing.Manager()
address, authkey = manager.address, manager._authkey
{how}
try:
    managers.listener_client["pickle"][1](address, authkey=authkey)
except (OSError, RuntimeError) as error:
    print("refused")
"""
    assert _run(code) == "refused"


def test_a_process_that_was_there_before_the_manager_says_so() -> None:
    code = """
import sys
sys.stderr = sys.stdout
queue = multiprocessing.SimpleQueue()
def get():
    queue.get()
process = multiprocessing.get_context("fork").Process(target=get)
process.start()
with multiprocessing.Manager() as manager:
    queue.put(manager.dict())
    process.join()
"""
    assert "start the manager before the processes or the pool" in _run(code)
