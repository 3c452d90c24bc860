"""A judge that asks a model which answers after 200 ms, against the best possible rate of so many parallel asks."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import processes, threads, timing
from benchmarks.results import MILLIS, TIMES, Results
from benchmarks.scale import Scale
from benchmarks.service import Service, running

ASKING = "a judge"
LATENCY_S = 0.2
AT_ONCE = 64
_IDEAL = AT_ONCE / LATENCY_S
_PROMPT_BYTES = 8 << 10
_WARM = 128
_BARE = """
import asyncio, json, resource, sys, time
from openai import AsyncOpenAI

async def main(url, path, at_once):
    client, slots = AsyncOpenAI(api_key="-", base_url=url), asyncio.Semaphore(at_once)
    ask = {ask}
    async def one(line):
        async with slots:
            return await ask(json.loads(line)["completion"])
    lines = open(path).read().splitlines()
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    await asyncio.gather(*map(one, lines))
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({{"seconds": seconds, "cpu": used}}))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""
_GATHER = """lambda text: client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Is this answer polite?\\n\\n" + text}])"""
_AUTOEVALS = """__import__("autoevals").LLMClassifier(
        "polite", "Is this answer polite?\\n\\n{{output}}", {"yes": 1, "no": 0}, model="m", client=client,
        use_responses_api=False).eval_async"""


def measure(results: Results, scale: Scale) -> None:
    """Measures one worker on one core (`_beside`: on two); the model's server is on another."""
    if len(os.sched_getaffinity(0)) < 2:
        results.skipped.append("a judge: there is one core, and its model's server needs another")
        return
    with _server() as url, timing.pinned(1):
        _bare(results, scale, url)
        with _judging(url) as service:
            service.score("judge", _prompts(_WARM, 500, "warm"), _WARM)
            _rate(results, scale, service)
            _memory(results, scale, service)
    with _server() as url, timing.pinned(2), _judging(url) as service:
        _beside(results, scale, service)


@contextmanager
def _judging(url: str) -> Iterator[Service]:
    """A service with the judge, which asks the model at this URL, and a grader that does not ask."""
    with running(graders=["regex"]) as service:
        service.client.models.create("small-judge", base_url=url, model="m", max_concurrency=AT_ONCE)
        service.client.graders.create.function(key="judge", fn=threads.source("judge"))
        yield service


def _rate(results: Results, scale: Scale, service: Service) -> None:
    count = scale.judged
    before = processes.cpu_seconds(service.pid)
    seconds = service.score("judge", _prompts(count, 500, "rate"), count)
    used = (processes.cpu_seconds(service.pid) - before) / count
    note = f"{count:,} completions, {AT_ONCE} at once, {LATENCY_S * 1000:g} ms each: at best {_IDEAL:g}/s"
    results.add(ASKING, "rate, of the best there can be", count / seconds / _IDEAL, TIMES, target=0.9, note=note)
    results.add(ASKING, "CPU an ask, all processes", used * 1000, MILLIS, target=3.0, at_most=True, note=note)


def _bare(results: Results, scale: Scale, url: str) -> None:
    """The same asks without gradebox: no sandbox, and nothing stored, counted or limited across processes."""
    for name, ask in (("asyncio.gather over AsyncOpenAI", _GATHER), ("autoevals' LLMClassifier", _AUTOEVALS)):
        path = _prompts(scale.judged, 500, "bare")
        command = [sys.executable, "-c", _BARE.format(ask=ask), url, str(path), str(AT_ONCE)]
        said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        rate = scale.judged / said["seconds"] / _IDEAL
        results.add(ASKING, f"{name}: rate, of the best there can be", rate, TIMES)
        results.add(ASKING, f"{name}: CPU an ask", said["cpu"] / scale.judged * 1000, MILLIS)


def _memory(results: Results, scale: Scale, service: Service) -> None:
    """Compares the peak memory of API and workers for few asks and for 100 times as many (10 in a quick run)."""
    few, many = scale.judged_memory
    roles = [pid for pid in processes.family(service.pid) if _is_python(pid)]
    peaks = []
    for count in (few, many):
        for pid in roles:
            processes.forget_peak(pid)
        service.score("judge", _prompts(count, _PROMPT_BYTES, f"memory-{count}"), count)
        peaks.append(sum(processes.peak_rss(pid) for pid in roles))
    note = f"API and workers, prompts of {_PROMPT_BYTES >> 10} KiB"
    name = f"memory, {many:,} asked over {few:,}"
    results.add(ASKING, name, peaks[1] / peaks[0], TIMES, target=1.1, at_most=True, note=note)


def _is_python(pid: int) -> bool:
    return any(f"-m {role}" in processes.command(pid) for role in ("api", "worker"))


def _beside(results: Results, scale: Scale, service: Service) -> None:
    """Times a batch of a grader that does not ask, without and during a judged batch."""
    count = scale.threads
    path = threads.file(count)
    service.score("regex", path, count)
    alone = [service.score("regex", path, count) for _ in range(3)]
    judged = service.client.batches.create("judge", _prompts(scale.judged * 4, 500, "beside"))
    while not service.client.batches.get(judged.id).status.done:
        time.sleep(0.05)
    beside = [service.score("regex", path, count) for _ in range(3)]
    judged.cancel()
    note = f"{count:,} threads, regex, two cores; over the same alone"
    found = timing.ratio(beside, alone)
    results.add(ASKING, "a plain batch beside a judged one", found, TIMES, target=1.3, at_most=True, note=note)


def _prompts(count: int, size: int, name: str) -> Path:
    """A file of threads. No two are equal, so that no kept reply is reused."""
    path = threads.folder() / f"prompts-{name}-{count}.jsonl"
    with path.open("w") as lines:
        for number in range(count):
            text = f"{name} {number}: " + "You are quite right, and thank you for asking. " * (size // 47)
            lines.write(json.dumps({"id": f"{name}-{number}", "prompt": "May I?", "completion": text}) + "\n")
    return path


@contextmanager
def _server() -> Iterator[str]:
    """Starts `examples.model_server` on the first core. The last cores are measured."""
    command = [sys.executable, "-m", "examples.model_server", "--port", "0", "--latency-s", str(LATENCY_S)]
    first = sorted(os.sched_getaffinity(0))[0]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, [first])
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()
