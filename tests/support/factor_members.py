"""Members of a series over devices that are started, stopped, lost, or lied to by their coordinator."""

import asyncio
from dataclasses import replace

from factor_devices import with_ratings

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
