"""The tool that delays tasks changes their order, and nothing else."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import shaken_tasks

PROGRAM = """
import asyncio, json, threading
import shaken_tasks

async def steps(number, order):
    for step in range(200):
        assert await asyncio.sleep(0, step) == step
    order.append(number)
    return number

async def cancelled():
    try:
        for _ in range(10**9):
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        return "told"

async def fails():
    await asyncio.sleep(0)
    raise ValueError("mine")

async def main():
    order = []
    numbers = await asyncio.gather(*(steps(number, order) for number in range(20)))
    one = asyncio.create_task(cancelled())
    await asyncio.sleep(0.05)
    one.cancel()
    told = await one
    failures = await asyncio.gather(*(fails() for _ in range(20)), return_exceptions=True)
    threads = await asyncio.gather(*(asyncio.to_thread(int, number) for number in range(20)))
    print(json.dumps([numbers, order, told, [str(failure) for failure in failures], threads]))

asyncio.run(main())
"""


def ran(**environment):
    path = os.pathsep.join([str(Path(shaken_tasks.__file__).parent), *sys.path])
    left = {name: value for name, value in os.environ.items() if name != shaken_tasks.SETTING}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=left | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_shaken_tasks_come_to_the_same_in_another_order():
    still, shaken = ran(), ran(**{shaken_tasks.SETTING: "1"})
    assert still == [list(range(20)), list(range(20)), "told", ["mine"] * 20, list(range(20))]
    assert shaken[1] != still[1]
    assert sorted(shaken[1]) == still[1]
    assert shaken[:1] + shaken[2:] == still[:1] + still[2:]


def test_a_run_of_tests_that_does_not_ask_is_not_shaken():
    if shaken_tasks.SETTING not in os.environ:
        assert asyncio.BaseEventLoop.run_in_executor.__name__ == "run_in_executor"
