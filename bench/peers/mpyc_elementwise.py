"""Element-wise operations on secret arrays with MPyC: `bench/protocols` runs them beside ours, with `--peer mpyc`.

It runs in an environment of its own (`bench/peers/mpyc_environment.py`), so it imports nothing of this repository.
Parties 0 and 1 bring `block_0.npy` and `block_1.npy`, whole numbers of one shape; the clock runs from when both are
shared until every party has its share of the answers.

    python bench/peers/mpyc_elementwise.py FOLDER multiply -M3

Each party leaves `party_<j>.json` there: `seconds`, `processor_s` and `sent_bytes` while the clock ran, and
`peak_resident_bytes`; party 0 also `result.npy`.
"""

import argparse
import json
import operator
import time
from pathlib import Path

import numpy as np
from mpyc.runtime import mpc  # type: ignore[import-not-found]  # lives in an environment of its own

OPERATIONS = {
    "multiply": (operator.mul, lambda: mpc.SecFld(2**61 - 1)),
    "less": (operator.lt, lambda: mpc.SecInt(21)),  # sign included: of whole numbers from 0 to 2^20 - 1
    "sort": (lambda x, y: mpc.np_sort(x), lambda: mpc.SecInt(21)),
}


def peak_resident_bytes() -> int:
    """Return VmHWM: unlike getrusage, it leaves out what the parent process had before it started this one."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def sent_bytes() -> int:
    return sum(p.protocol.nbytes_sent for p in mpc.parties if p.pid != mpc.pid)


async def main(folder: Path, operation: str) -> None:
    """Share the arrays, compute, open, and write what it took."""
    compute, kind = OPERATIONS[operation]
    secure = kind()
    shape = np.load(folder / "block_0.npy", mmap_mode="r").shape
    own = np.load(folder / f"block_{mpc.pid}.npy") if mpc.pid < 2 else None
    async with mpc:
        arrays = []
        for party in (0, 1):
            values = secure.array(own) if party == mpc.pid else secure.array(None, shape)
            arrays.append(mpc.input(values, senders=party))
        await mpc.gather(arrays)
        await mpc.barrier()
        sent_before, started_s, worked_s = sent_bytes(), time.perf_counter(), time.process_time()
        answers = compute(*arrays)
        await mpc.gather(answers)
        seconds = time.perf_counter() - started_s
        report = {
            "seconds": seconds,
            "processor_s": time.process_time() - worked_s,
            "sent_bytes": sent_bytes() - sent_before,
            "peak_resident_bytes": peak_resident_bytes(),
        }
        opened = await mpc.output(answers)
        # Written before the parties part: the one that was started by hand ends when all have come so far.
        (folder / f"party_{mpc.pid}.json").write_text(json.dumps(report))
        if mpc.pid == 0:
            np.save(folder / "result.npy", np.array(getattr(opened, "value", opened), dtype=np.int64))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("operation", choices=OPERATIONS)
    options = parser.parse_args()
    mpc.run(main(options.folder, options.operation))
