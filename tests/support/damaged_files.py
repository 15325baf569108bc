"""Files with a few changed bytes, cut, or with parts doubled, moved or left out."""

import gzip
import io
from collections.abc import Iterator

import numpy as np
import polars as pl

ROWS = 40
FRAME = pl.DataFrame(
    {
        "a": [float(row % 7) for row in range(ROWS)],
        "name": [f'{row}, "the {row}th"' if row % 5 else None for row in range(ROWS)],
        "n": list(range(ROWS)),
    }
)
MARKS = b'",;\n\r\0\x1a\xef\xbb\xbf\xff \t'
"""Bytes that mean something to readers of text."""


def whole(kind: str) -> bytes:
    """Return a file that can be read, of a kind: the end of its name."""
    target = io.BytesIO()
    if kind == "parquet":
        FRAME.write_parquet(target)
    elif kind == "arrow":
        FRAME.write_ipc(target)
    else:
        FRAME.write_csv(target)
    return gzip.compress(target.getvalue(), mtime=0) if kind == "csv.gz" else target.getvalue()


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file damaged in one to three ways."""
    for _ in range(rng.integers(1, 4)):
        place, other = (int(one) for one in rng.integers(0, max(1, len(content)), 2))
        byte = bytes([rng.choice(list(MARKS)) if rng.random() < 0.5 else int(rng.integers(256))])
        n = int(rng.integers(1, 30))
        content = [
            content[:place] + byte + content[place + 1 :],
            content[:place] + byte + content[place:],
            content[:place],
            content[:place] + content[place + n :],
            content[:place] + content[other : other + n] + content[place:],
            content[:place] + bytes(n) + content[place + n :],
            content + content[other : other + n],
        ][rng.integers(7)]
    return content


def many(kind: str, n: int, seed: int) -> Iterator[bytes]:
    """Yield damaged files of a kind."""
    rng, content = np.random.default_rng(seed), whole(kind)
    for _ in range(n):
        yield damaged(content, rng)
