"""An analyst who searches for what a device keeps, over real services: by questions that only some records would fit.

A question is refused by its declaration, in the same way for every record, or it is answered and charged.
"""

import asyncio
import os
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest
from deadlines import SKIPPED_S
from sum_federation import answer_of, sum_federation

from analyses.sums.records import DeclaredRecord, Record
from coordinator.sums import answering as sums
from coordinator.sums import rounds
from device.records import KeptRecord, largest_file_bytes, read_record
from device.report import kept_rounds, read_sum_report
from mpc.secagg.messages import SealedShares, ShareDelivery
from transport import aggregation
from transport.happenings import Failed, Result
from transport.sum_codec import encode_from_member

TARGET = "walker-1"
PRIVATE = {"privacy": {"epsilon": 0.5, "delta": 1e-6}, "colluding": 1}


async def start(federation, read, declared, **fields):
    """Run all members, the target with a record of its own; return the target."""
    federation.declared = declared
    for name, record in federation.records.items():
        federation.records[name] = Record(np.ones(declared.length or 3), record.weight)
    await federation.start_all(without=(TARGET,))
    device = await federation.device(TARGET, records={"steps": KeptRecord(declared, read)}, **fields)
    federation.start(device)
    return device


def charges(device):
    """What a device has paid and what it holds: (noisy sums answered, epsilon spent, reserved)."""
    standing = device.budget.standing()
    return standing["committed_jobs"], standing["spent_epsilon"], standing["reserved_jobs"]


async def settled(device, n_reserved=0):
    """Wait until the device has given back what a round that it left has held."""
    async with asyncio.timeout(120):
        while charges(device)[2] > n_reserved:  # noqa: ASYNC110 -- a file says it
            await asyncio.sleep(0.02)
    return charges(device)


async def bisect(ask, low, high):
    """The smallest number in low .. high for which the target takes part, as an analyst finds it; and all asked."""
    asked = []
    while low < high:
        middle = (low + high) // 2
        asked.append(middle)
        low, high = (low, middle) if await ask(middle) else (middle + 1, high)
    return low, asked


@pytest.mark.parametrize(("weight", "n_bits"), [(73_519, 17), (4, 17), (1_173, 8)])
async def test_bisection_over_the_largest_weight_pays_for_every_question_and_finds_nothing(tmp_path, weight, n_bits):
    """A weight of 73,519 was found exactly in as many questions: those that told, by its absence, cost nothing."""
    async with sum_federation(tmp_path, 4) as federation:
        record = Record(np.ones(1), weight)
        device = await start(federation, lambda: record, DeclaredRecord(length=1, largest_weight=1000))

        async def takes_part(largest_weight):
            happening, _ = await federation.ask(
                analysis="secure-mean", length=1, largest=1, largest_weight=largest_weight, **PRIVATE
            )
            return isinstance(happening, Result) and TARGET in answer_of(happening)["survivors"]

        found, asked = await bisect(takes_part, 1000, 1000 + (1 << n_bits))
        assert (found, len(asked)) == (1000, n_bits + 1)  # always "it takes part", whatever it keeps
        n_answered, spent, _ = await settled(device)
        assert n_answered == len(asked)
        assert spent > 1.0


@pytest.mark.parametrize("record", [Record(np.ones(3)), Record(np.ones(2)), Record(np.array([np.nan] * 4))])
async def test_a_search_by_length_weight_and_name_finds_the_declaration_whatever_the_record_is(tmp_path, record):
    async with sum_federation(tmp_path, 4) as federation:
        device = await start(federation, lambda: record, DeclaredRecord(length=3, largest_weight=10))
        told, paid = {}, {}
        for words, changes in {
            "shorter": {"length": 2, "stage_s": SKIPPED_S},
            "longer": {"length": 4, "stage_s": SKIPPED_S},
            "as declared": {"length": 3},
            "another name": {"record": "sleep", "stage_s": SKIPPED_S},
            "smaller weight": {"analysis": "secure-mean", "largest_weight": 9, "stage_s": SKIPPED_S},
            "larger weight": {"analysis": "secure-mean", "largest_weight": 11},
        }.items():
            before = charges(device)[0]
            happening, reports = await federation.ask(**PRIVATE, **changes)
            told[words] = [
                (report.stage, report.missing, report.refused) for report in reports if report.missing or report.refused
            ]
            assert isinstance(happening, Failed if told[words] else Result)
            paid[words] = (await settled(device))[0] - before
    nobody = [("advertise keys", (), (("question", 4),))]
    refused = ("shorter", "longer", "another name", "smaller weight")
    assert told == {words: nobody if words in refused else [] for words in told}
    assert paid == {words: int(words not in refused) for words in told}


# -- what the coordinator sees of records that cannot be used ----------------------------------------------------------


@dataclass
class View:
    """All that the coordinator and the analyst see of a member in one round.

    Attributes:
        messages: kind and bytes on the wire, in their order.
        told: what the analyst hears of who took part.
    """

    messages: list = field(default_factory=list)
    told: dict = field(default_factory=dict)


@pytest.fixture
def seen(monkeypatch):
    """The messages of the target as they come to the coordinator, over all rounds."""
    messages = []

    class RecordingRound(rounds.HostedRound):
        async def receive(self, name, message):
            if name == TARGET:
                messages.append((type(message).__name__, encode_from_member(message).ByteSize()))
            await super().receive(name, message)

    monkeypatch.setattr(sums, "HostedRound", RecordingRound)
    return messages


GOOD = '{"values": [0.25, -0.5, 3], "weight": 2}'
"""For bins at -1, 0 and 5, one value in the first and two in the second."""

FILES = {
    "empty": "",
    "no JSON": "values: 1, 2, 3",
    "not UTF-8": b"\xff\xfe{}",
    "nested": "[" * 60_000,
    "a list": "[1, 2, 3]",
    "no values": '{"weight": 2}',
    "values are no list": '{"values": 7}',
    "strings": '{"values": ["1", "2", "3"]}',
    "bools": '{"values": [true, false, 1]}',
    "null": '{"values": [1, null, 2]}',
    "lists": '{"values": [[1], [2], [3]]}',
    "not a number": '{"values": [1, NaN, 2]}',
    "infinite": '{"values": [1, -Infinity, 2]}',
    "beyond doubles": '{"values": [1, 1e999, 2]}',
    "400 digits": f'{{"values": [1, 1{"0" * 400}, 2]}}',
    "5000 digits": f'{{"values": [1, 1{"0" * 5000}, 2]}}',
    "too short": '{"values": [1, 2]}',
    "too many bytes": GOOD + " " * largest_file_bytes(DeclaredRecord(length=3)),
    "too long": '{"values": [1, 2, 3, 4]}',
    "nothing": '{"values": []}',
    "a weight of text": '{"values": [1, 2, 3], "weight": "2"}',
    "a weight of 1.5": '{"values": [1, 2, 3], "weight": 1.5}',
    "a weight that is no number": '{"values": [1, 2, 3], "weight": NaN}',
    "a weight that is true": '{"values": [1, 2, 3], "weight": true}',
}
"""Records that cannot be used: they count as zeros."""

CLIPPED = {
    "large values": '{"values": [1e300, -1e300, 0.7], "weight": 2}',
    "negative weight": '{"values": [1, 2, 3], "weight": -7}',
    "weight 0": '{"values": [1, 2, 3], "weight": 0}',
    "heavy": '{"values": [1, 2, 3], "weight": 73519}',
    "of 400 digits": f'{{"values": [1, 2, 3], "weight": 1{"0" * 400}}}',
}
"""Records that are used, within public bounds."""


def write(path, content):
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content)


def out_of_memory():
    raise MemoryError


QUESTIONS = {
    "sum": {"largest": 0.7, "units": 10},  # in floating point 0.7 times 10 is 7; the largest integer is 6
    "mean": {"analysis": "secure-mean", "largest_weight": 12, "largest": 1, "units": 100},
    "histogram": {"analysis": "secure-histogram", "length": 1, "largest": 2, "edges": (-1.0, 0.0, 5.0)},
}


@pytest.mark.parametrize("kind", QUESTIONS)
async def test_no_record_changes_what_the_coordinator_sees_or_what_a_device_pays(tmp_path, capsys, seen, kind):
    """Message sequence, sizes, who took part, who dropped out, what is charged: for every record as for a good one."""
    folder = tmp_path / TARGET / "records"
    folder.mkdir(parents=True)
    (folder / "directory").mkdir()
    os.mkfifo(folder / "pipe")
    declared = DeclaredRecord(length=3, largest_weight=10)
    reads = {"missing": partial(read_record, folder / "absent", declared), "out of memory": out_of_memory}
    reads |= {name: partial(read_record, folder / name, declared) for name in ("directory", "pipe")}
    texts = {"good": GOOD, **FILES, **CLIPPED}
    for number, (name, text) in enumerate(texts.items()):
        write(folder / f"{number}.json", text)
        reads[name] = partial(read_record, folder / f"{number}.json", declared)
    used = {"good", *CLIPPED}
    names, when_read = iter(["good", *(name for name in reads if name != "good")]), []

    def read():
        when_read.append(charges(device)[0])
        return reads[case]()

    views, reports = {}, {}
    async with sum_federation(tmp_path, 4) as federation:
        device = await start(federation, read, declared, data_dir=tmp_path / TARGET)
        for n_before, case in enumerate(names):
            seen.clear()
            happening, stages = await federation.ask(
                **QUESTIONS[kind], privacy={"epsilon": 0.1, "delta": 1e-6}, colluding=1
            )
            result = answer_of(happening)
            told = {key: result[key] for key in ("survivors", "vanished", "silent_after", "attempt", "privacy")}
            views[case] = View(list(seen), told | {"stages": [(s.stage, s.n_answers, s.missing) for s in stages]})
            n_answered, _, n_reserved = await settled(device)
            assert (n_answered, n_reserved) == (n_before + 1, 0), case
            assert when_read == [*range(1, n_before + 2)], case  # each time after the commit of that very round
            reports[case] = read_sum_report(tmp_path / TARGET, kept_rounds(tmp_path / TARGET)[-1])
    assert len(views) == len(reads)
    good = views["good"]
    assert [name for name, _ in good.messages] == [
        "Advertisement", "SealedShares", "MaskedInput", "SurvivorSignature", "UnmaskingShares",
    ]  # fmt: skip
    assert good.told["survivors"] == list(federation.names)
    assert {case: view for case, view in views.items() if view != good} == {}
    assert {case for case, report in reports.items() if report["record_was_used"]} == used
    shown = capsys.readouterr()
    for report in reports.values():  # the reason is the owner's alone
        why = report["not_used_because"]
        assert why is None or why not in shown.out + shown.err
    assert not any(words in shown.out + shown.err for words in ("Error", "left the round"))


async def test_values_and_weights_count_within_the_public_bounds(tmp_path):
    """Exact sums, to see what each record comes to; where it cannot be used, nothing."""
    path = tmp_path / "record.json"
    async with sum_federation(tmp_path, 4) as federation:
        declared = DeclaredRecord(length=3, largest_weight=10)
        await start(federation, partial(read_record, path, declared), declared)
        others = sum(federation.records[name].weight for name in federation.names[1:])
        for text, expected in (
            ("", [0, 0, 0, 0]),
            (FILES["not a number"], [0, 0, 0, 0]),
            (FILES["too long"], [0, 0, 0, 0]),
            (FILES["a weight that is true"], [0, 0, 0, 0]),
            (CLIPPED["large values"], [2, -2, 0, 2]),  # 0.7 of one unit is none
            (CLIPPED["negative weight"], [0, 0, 0, 0]),
            (CLIPPED["heavy"], [10, 10, 10, 10]),
            (CLIPPED["of 400 digits"], [10, 10, 10, 10]),
        ):
            path.write_text(text)
            for largest_weight in (10, 1 << 40):
                happening, _ = await federation.ask(analysis="secure-mean", largest=1, largest_weight=largest_weight)
                result = answer_of(happening)
                weight = result["total_weight"] - others
                values = np.rint(np.array(result["mean"]) * result["total_weight"]) - others
                assert [*values, weight] == expected, text


async def test_a_round_that_a_device_leaves_before_it_has_paid_reads_no_record(tmp_path):
    """Three of four members never share their keys: the round ends, nothing is charged, no record was opened."""
    n_read = 0

    def read():
        nonlocal n_read
        n_read += 1
        return Record(np.ones(3))

    class Silent:
        def __init__(self, name, client):
            self.fetch, self._name, self._client = client.fetch, name, client

        async def answer(self, message):
            if isinstance(message, SealedShares):
                federation.silent.add(self._name)
                await asyncio.Event().wait()
            await self._client.answer(message)

    async with sum_federation(tmp_path, 4) as federation:
        device = await federation.device(TARGET, records={"steps": KeptRecord(federation.declared, read)})
        federation.start(device)
        for name in federation.names[1:]:
            federation.start(await federation.device(name, client=Silent(name, await federation.client(name))))
        happening, _ = await federation.ask(stage_s=SKIPPED_S, **PRIVATE)
        assert isinstance(happening, Failed)
        assert (await settled(device))[0] == n_read == 0


async def test_shares_that_do_not_open_cost_nothing_and_read_no_record(tmp_path, monkeypatch):
    """The coordinator alters what was sealed: every device notices before it pays."""
    encode = aggregation.encode_to_member

    def altered(message):
        if isinstance(message, ShareDelivery):
            message = replace(message, sealed={j: bytes(len(sealed)) for j, sealed in message.sealed.items()})
        return encode(message)

    monkeypatch.setattr(aggregation, "encode_to_member", altered)
    n_read = 0

    def read():
        nonlocal n_read
        n_read += 1
        return Record(np.ones(3))

    async with sum_federation(tmp_path, 4) as federation:
        device = await start(federation, read, federation.declared)
        happening, _ = await federation.ask(stage_s=SKIPPED_S, **PRIVATE)
        assert isinstance(happening, Failed)
        assert (await settled(device))[0] == n_read == 0
