"""The answer to a batch: the parties' shares of the sum, added up, decoded and told."""

from collections.abc import Sequence
from typing import Any

from analyses.sums.secure_sum import answered_values
from mpc.secagg.vector.group import Elements
from questions.shares import BatchQuestion


def open_sum(question: BatchQuestion, shares: Sequence[bytes]) -> Elements:
    """Return the sum with its noise as integers, shape (n_elements,).

    Args:
        question: what was asked.
        shares: shares of the sum, one from each party that opens, packed, with its share of the noise.

    Raises:
        ProtocolError: one is not a packed vector of this question.
    """
    group, length = question.group, question.n_elements
    total = group.zeros(length)
    for share in shares:
        group.accumulate(total, group.unpack(share, length))
    return group.decode(total)


def answer_of(
    question: BatchQuestion,
    integers: Elements,
    n_devices: int,
    left_out: Sequence[str],
    rejected: Sequence[str] | None = None,
    openers: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the answer as JSON data.

    Args:
        question: what was asked.
        integers: what `open_sum` returned.
        n_devices: in the sum.
        left_out: names of devices whose answers not every party could open.
        rejected: names of devices whose proofs the parties rejected; None where devices prove nothing.
        openers: numbers of the parties that opened, 1 and up; none: all.
    """
    noise, opened_by = question.noise, question.openers_of(openers)
    variance = 0.0 if noise is None else float(noise.variance(len(opened_by)))
    return answered_values(question.sum, integers, variance) | {
        "channel": question.channel,
        "parties": list(question.parties),
        **({"opened_by": [question.parties[one - 1] for one in opened_by]} if question.may_miss else {}),
        "devices": n_devices,
        "left_out": list(left_out),
        **({} if rejected is None else {"rejected": list(rejected), "proofs": question.proofs_report()}),
        "privacy": question.privacy_report(),
    }
