"""The records of a device: what their owner declares of them, and how their files are read and used.

No other participant can observe that reading or using a record failed. A file that is missing, is no record, or makes
anything fail that is computed of it counts as zeros (`zeros_if_raised`), and the reason is for the device's private
report alone.
"""

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from analyses.sums.records import Contribution, DeclaredRecord, Record, contribution, no_contribution
from analyses.sums.secure_sum import SumParams
from entropy import Entropy
from mpc.secagg.vector.encoding import EncodedVector

BYTES_PER_VALUE = 64
"""Bytes that one number in a file may take, including its separator; more than any precision needs."""

BYTES_BESIDE = 1 << 16
"""Bytes that everything else in a file may take."""

MAX_VALUES = 1 << 20
"""Largest number of values that are read of a record whose length is not declared."""

NOT_A_RECORD = 'not of the form {"values": [numbers], "weight": 1}, with a whole number as weight'


R = TypeVar("R")


class UnusableRecordError(Exception):
    """A record that cannot be used. The text is private, though it shows no value: it is for the owner's report."""

    code: str = "record-unusable"


def why_not_read(error: Exception) -> str:
    """Return why a record cannot be used that led to an error: of errors of others only the class. Private."""
    return str(error) if isinstance(error, UnusableRecordError) else f"reading it failed: {type(error).__name__}"


def zeros_if_raised(of_record: Callable[[], R], zeros: Callable[[str], R]) -> R:
    """Return what is computed of a record, or what stands for none where that raises anything.

    All that a device computes of its records goes through here. Every error is caught, also one of memory or of
    recursion: one that left here would take the device out of the round, and that would tell others about the record.

    Args:
        of_record: reads the record and computes.
        zeros: returns the same for a record that cannot be used, of the same size, given the reason for the owner.
    """
    try:
        return of_record()
    except Exception as error:
        return zeros(why_not_read(error))


@dataclass(frozen=True)
class KeptRecord:
    """A record that a device keeps.

    Attributes:
        declared: what its owner says of it; all that decides whether a question is answered.
        read: returns it, anew each time; raises `UnusableRecordError`, or anything else, where it cannot be used.
    """

    declared: DeclaredRecord
    read: Callable[[], Record] = field(repr=False)

    def contribute(self, params: SumParams) -> Contribution:
        """Read the record and return what it contributes, zeros where it cannot be used; whatever the file holds.

        Raises:
            JobError: the declaration does not fit the question. Nothing was read.
        """
        self.declared.check(params)
        return zeros_if_raised(
            lambda: contribution(params, self.declared, self.read()), lambda why: no_contribution(params, why)
        )

    def encoded(self, params: SumParams, entropy: Entropy) -> tuple[Contribution, EncodedVector]:
        """Return what the record contributes and the integers that it becomes, zeros where anything of it raises."""
        encoding = params.encoding

        def of_record() -> tuple[Contribution, EncodedVector]:
            contributed = self.contribute(params)
            made = encoding.encode(contributed.vector, entropy, contributed.weight)
            encoding.check_values(made.values)
            return contributed, made

        def zeros(why: str) -> tuple[Contribution, EncodedVector]:
            integers = np.zeros(encoding.n_elements, dtype=np.int64)
            return no_contribution(params, why), EncodedVector(integers, 0.0, norm_was_clipped=False)

        return zeros_if_raised(of_record, zeros)

    def why_unusable(self) -> str:
        """Return why the record would count as zeros now, or an empty text. Private to the owner."""
        return zeros_if_raised(lambda: self.declared.why_unusable(self.read()), str)


def largest_file_bytes(declared: DeclaredRecord) -> int:
    """Return the size of the largest file that is read: by its declaration, so that none costs more memory or time."""
    return BYTES_BESIDE + BYTES_PER_VALUE * (MAX_VALUES if declared.length is None else declared.length)


def read_record(path: Path, declared: DeclaredRecord) -> Record:
    """Read a record from a JSON file.

    Args:
        path: path of the file.
        declared: bounds how much of it is read.

    Raises:
        UnusableRecordError: the file cannot be used. The text shows nothing of what it holds.
    """
    tree = read_tree(path, largest_file_bytes(declared), NOT_A_RECORD)
    try:
        values, weight = tree["values"], tree.get("weight", 1)
        if type(values) is not list or not {type(value) for value in values} <= {int, float} or type(weight) is not int:
            raise UnusableRecordError(f"{path}: {NOT_A_RECORD}")
        return Record(np.array(values, dtype=np.float64), weight)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise UnusableRecordError(f"{path}: {NOT_A_RECORD}") from None


def read_tree(path: Path, most_bytes: int, otherwise: str) -> Any:
    """Return what a JSON file holds.

    Only a regular file is read: opening a pipe, for instance, would wait for whoever writes to it.

    Args:
        path: path of the file.
        most_bytes: a longer one is not read.
        otherwise: what to say of a file that holds no JSON.

    Raises:
        UnusableRecordError: the file cannot be used. The text shows nothing of what it holds.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UnusableRecordError(f"{path}: this is not a regular file")
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise UnusableRecordError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > most_bytes:
        raise UnusableRecordError(f"{path}: the file is longer than {most_bytes} bytes")
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise UnusableRecordError(f"{path}: {otherwise}") from None
