"""The progress of a job as others hear of it: in quarters, as an exact fraction would reveal the number of rows."""

from collections.abc import Iterator

_QUARTER = 25


class Quarters:
    """Which quarters of its stages one member has reported.

    Every quarter that a stage passes is reported, one by one: if only the latest one were reported after each block,
    the missing quarters would reveal the number of blocks of rows.
    """

    def __init__(self) -> None:
        self._reported: tuple[str, int] = ("", 0)

    def passed(self, stage: str, done: int, total: int) -> Iterator[int]:
        """Yield the quarters that a stage has passed since the last call, in percent, and take them for reported.

        Args:
            stage: its name.
            done: how much of it is done, of `total`. Both may be private.
            total: positive.
        """
        before = self._reported[1] if self._reported[0] == stage else -_QUARTER
        for percent in range(before + _QUARTER, done * 4 // total * _QUARTER + 1, _QUARTER):
            self._reported = (stage, percent)
            yield percent
