"""Measures the similarity of two texts in a separate process: some measures take cubic time, hold the interpreter
meanwhile, and can only be stopped by killing the process.
"""

import json
import signal
import subprocess
import sys
from math import inf

from api.access.callers import Caller
from api.dialects.openai import similarity_measures
from api.dialects.openai.graders import Metric
from api.dialects.openai.problems import OpenAIProblem
from sandbox.errors import InfrastructureError
from sandbox.pool.fair_shares import Shares

CPU_S = 10
_TIME_S = 4.0 * CPU_S  # the machine may be busy
_AT_ONCE = Shares(3, "text similarities")  # a project alone may measure two at once
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}  # each NumPy thread reserves its share of memory, used or not


def similarity(caller: Caller, metric: Metric, text: str, reference: str, param: str) -> float:
    """Returns the similarity, from 0 to 1. Projects take turns.

    Raises:
        Stopped, ProblemError: the client disconnected, or its call took too long, before it was this one's turn.
        OpenAIProblem: it takes more than ten seconds of CPU time, or more than a GiB of memory.
        InfrastructureError: the process failed, or this machine was too busy for it.
    """
    job = json.dumps([metric, text, reference]).encode()
    command = [sys.executable, "-P", similarity_measures.__file__, str(CPU_S)]  # -P: do not import modules beside it

    def look() -> None:
        if caller.should_stop():
            raise caller.why(f"{metric} was not measured")

    _AT_ONCE.enter(caller.project, inf, look)
    try:
        done = subprocess.run(command, input=job, capture_output=True, timeout=_TIME_S, env=_ENVIRONMENT, check=False)
    except subprocess.TimeoutExpired as error:
        raise InfrastructureError(f"a process that measures {metric} did not end within {_TIME_S:g} s") from error
    finally:
        _AT_ONCE.leave(caller.project)
    if done.returncode == -signal.SIGXCPU:
        raise OpenAIProblem(f"{metric} of these texts takes more than {CPU_S} s: compare shorter ones", param)
    if done.returncode == similarity_measures.OUT_OF_MEMORY:
        raise OpenAIProblem(f"{metric} of these texts takes more than 1 GiB of memory: compare shorter ones", param)
    if done.returncode != 0:
        raise InfrastructureError(f"a process that measures {metric} ended with {done.returncode}: {done.stderr!r}")
    return float(done.stdout)
