"""Members of a series over devices that are started, stopped, lost, or lied to by their coordinator."""

import asyncio
from dataclasses import replace

from factor_devices import ask_factors, made_up_records, with_ratings
from sum_federation import answer_of

from device.journal import SqliteSampleJournal
from mpc.secagg.messages import MaskedInput
from mpc.transcript import RoundId
from transport.aggregation import RoundStep
from transport.sum_codec import Invitation

NO_ROUND = RoundId("", 0, 0)


async def start_all(federation, records, without=(), **changes):
    federation.silent |= set(without)
    for name in federation.names:
        if name not in without:
            federation.start(await answering(federation, name, records[name], **changes))


async def answering(federation, name, record, **changes):
    device = await federation.device(name, **changes)
    samples = SqliteSampleJournal(federation.folder / name / "samples.sqlite")
    federation.stack.callback(samples.close)
    return with_ratings(device, record, federation.folder / name, samples=samples)


async def standings_before_messages(federation, question):
    """What walker-1 has paid and holds before each message of a series that ends well: kind, committed and reserved."""
    records = made_up_records(federation.names)
    await start_all(federation, records, without=("walker-1",))
    device = await answering(federation, "walker-1", records["walker-1"])
    seen, answer = [], device.client.answer

    async def note(message):
        standing = device.budget.standing()
        seen.append((type(message).__name__, standing["committed_jobs"], standing["reserved_jobs"]))
        await answer(message)

    device.client.answer = note
    federation.start(device)
    answer_of((await ask_factors(federation, question))[-1])
    return [one for one in seen if one[0] in ("Advertisement", "MaskedInput")]


class StoppedBefore:
    """Calls of a member that is stopped when its masked vector of a round is due, and then started again."""

    def __init__(self, federation, name, client, number, start_again):
        self.fetch, self._client = client.fetch, client
        self._federation, self._name, self._number, self._start_again = federation, name, number, start_again
        self._restarts = []

    async def answer(self, message):
        if isinstance(message, MaskedInput) and message.round_id.number == self._number:
            self._federation.left.add((self._name, message.round_id))
            self._restarts.append(asyncio.create_task(self._start_again()))
            await asyncio.Event().wait()
        await self._client.answer(message)


class GoneAfter:
    """Calls of a member that hangs for good after a round."""

    def __init__(self, federation, name, client, number):
        self.answer, self._client = client.answer, client
        self._federation, self._name, self._number = federation, name, number

    async def fetch(self, step, last=NO_ROUND):
        if step is RoundStep.INVITATION and last.session and last.number == self._number:
            self._federation.silent.add(self._name)
            await asyncio.Event().wait()
        return await self._client.fetch(step, last)


class Deceived:
    """Calls of a member to whom the coordinator sends another public input from some round on."""

    def __init__(self, client, change, number):
        self.answer, self._client, self._change, self._number = client.answer, client, change, number
        self.inputs = {}

    async def fetch(self, step, *args):
        message = await self._client.fetch(step, *args)
        if step is RoundStep.INVITATION and isinstance(message, Invitation):
            number = message.round_id.number
            self.inputs[number] = message.public_input
            if number == self._number:
                return replace(message, public_input=self._change(self.inputs))
        return message


def other_value(inputs):
    """One lattice point more or less."""
    return inputs[1][:-4] + bytes([inputs[1][-4] ^ 1]) + inputs[1][-3:]
