"""The Gram matrix of secret columns with MPyC: the program that `bench/jobs/gram.py --peer mpyc` runs beside ours.

It runs in an environment of its own (`bench/peers/mpyc_environment.py`), so it imports nothing of this repository.
Party j brings the columns of `block_j.npy`; all learn X^T X, without noise. The clock runs from before the inputs until
the result is there; start, connections and reading of the files are not counted.

    python bench/peers/mpyc_gram.py FOLDER -M3

FOLDER holds `block_0.npy` ... `block_<M-1>.npy`, whole numbers, shape (rows, columns of party j). Each party leaves
`party_<j>.json` there: `seconds`, `processor_s`, `sent_bytes`, `peak_resident_bytes`; party 0 also `result.npy`.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from mpyc.runtime import mpc  # type: ignore[import-not-found]  # lives in an environment of its own

FIELD_ORDER = 2**61 - 1


def peak_resident_bytes() -> int:
    """Return VmHWM: unlike getrusage, it leaves out what the parent process had before it started this one."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


async def main(folder: Path) -> None:
    """Share the blocks, multiply, open, and write what it took."""
    secure_field = mpc.SecFld(FIELD_ORDER)
    n_parties = len(mpc.parties)
    shapes = [np.load(folder / f"block_{j}.npy", mmap_mode="r").shape for j in range(n_parties)]
    own = np.load(folder / f"block_{mpc.pid}.npy")
    async with mpc:
        await mpc.barrier()
        started_s, worked_s = time.perf_counter(), time.process_time()
        blocks = []
        for party, shape in enumerate(shapes):
            values = secure_field.array(own) if party == mpc.pid else secure_field.array(None, shape)
            blocks.append(mpc.input(values, senders=party))
        rows = np.concatenate(blocks, axis=1)
        gram = await mpc.output(rows.T @ rows)
        seconds = time.perf_counter() - started_s
        report = {
            "seconds": seconds,
            "processor_s": time.process_time() - worked_s,
            "sent_bytes": sum(p.protocol.nbytes_sent for p in mpc.parties if p.pid != mpc.pid),
            "peak_resident_bytes": peak_resident_bytes(),
        }
        # Written before the parties part: the one that was started by hand ends when all have come so far.
        (folder / f"party_{mpc.pid}.json").write_text(json.dumps(report))
        if mpc.pid == 0:
            np.save(folder / "result.npy", gram.value.astype(np.int64))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    mpc.run(main(parser.parse_args().folder))
