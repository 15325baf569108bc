"""All questions of a coordinator: which kind is hosted by what, and who may see and call off which."""

from collections.abc import AsyncGenerator, Callable, Sequence

from coordinator.questions.answered_host import AnsweredHost
from coordinator.questions.batches import Batches
from coordinator.questions.host import Host
from service.errors import InvalidRequestError, NotAllowedError, NotFoundError
from service.identity import Identity, PeerCertificate, Role
from transport.batch_codec import AnswerPart, OfferedQuestion
from transport.happenings import Happening
from transport.questions import OpenQuestion
from transport.refusal import WhyRefused


class Hosts:
    """Implements `transport.questions.Questions`.

    Args:
        own: the coordinator's identity: who has its certificate sees all.
        check_analyst: refuses analysts that are not in the list.
        hosts: hosts of all kinds; no two of one kind.
    """

    def __init__(self, own: Identity, check_analyst: Callable[[Identity], None], hosts: Sequence[Host]) -> None:
        self._own = own
        self._check_analyst = check_analyst
        self._hosts = {host.kind: host for host in hosts}

    def __getitem__(self, kind: str) -> Host:
        return self._hosts[kind]

    async def start(self) -> None:
        """Go on with what an earlier process left open."""
        for host in self._hosts.values():
            await host.start()

    def leave(self) -> None:
        """Wake all followers: the coordinator stops."""
        for host in self._hosts.values():
            host.leave()

    async def stop(self) -> None:
        """Stop; open questions stay open for the next process."""
        for host in self._hosts.values():
            await host.stop()

    def check_caller(self, caller: Identity) -> None:
        """Refuse whoever may not list questions and call them off.

        Raises:
            NotAllowedError: another coordinator, or an analyst that is not in the list.
        """
        if caller.role is Role.ANALYST:
            self._check_analyst(caller)
        elif caller != self._own:
            raise NotAllowedError(f"{caller} may not see the questions of {self._own}")

    def check_kind(self, kind: str) -> None:
        """See `transport.questions.Questions`."""
        self._answered(kind)

    def longest_answer_bytes(self) -> int:
        """See `transport.questions.Questions`."""
        return max(host.longest_answer_bytes() for host in self._hosts.values() if isinstance(host, AnsweredHost))

    async def fetch(self, caller: Identity, kind: str, after: int, patience_s: float) -> OfferedQuestion | None:
        """See `transport.questions.Questions`."""
        return await self._answered(kind).fetch(caller, after, patience_s)

    async def answer(self, caller: PeerCertificate, kind: str, question_id: bytes, body: bytes) -> None:
        """See `transport.questions.Questions`."""
        await self._answered(kind).answer(caller, question_id, body)

    async def refuse(self, caller: Identity, kind: str, question_id: bytes, why: WhyRefused) -> None:
        """See `transport.questions.Questions`."""
        await self._answered(kind).refuse(caller, question_id, why)

    def shares(self, caller: Identity, question_id: bytes, only: bytes) -> AsyncGenerator[AnswerPart, None]:
        """See `transport.questions.Questions`."""
        host = self._hosts.get(Batches.kind)
        if not isinstance(host, Batches):
            raise NotFoundError("no batch is asked for here")
        return host.shares(caller, question_id, only)

    def ask(self, analyst: str, kind: str, text: str) -> AsyncGenerator[Happening, None]:
        """See `transport.questions.Questions`."""
        return self._host(kind).ask(analyst, text)

    async def follow(self, analyst: str, question_id: bytes) -> AsyncGenerator[Happening, None]:
        """See `transport.questions.Questions`."""
        for host in self._hosts.values():
            stored = await host.find(question_id)
            if stored is not None and stored.analyst == analyst:
                async for happening in host.follow(question_id):
                    yield happening
                return
        raise NotFoundError(f"{analyst} has asked no question with this identifier here")

    def open_questions(self, caller: Identity) -> list[OpenQuestion]:
        """See `transport.questions.Questions`."""
        every = [one for host in self._hosts.values() for one in host.open_questions()]
        return [one for one in every if caller == self._own or one.analyst == caller.name]

    async def call_off(self, caller: Identity, question_id: bytes) -> None:
        """See `transport.questions.Questions`."""
        who = caller.name if caller.role is Role.ANALYST else f"the operator of {caller.name}"
        found = [one.kind for one in self.open_questions(caller) if one.question_id == question_id]
        if not found:
            raise NotFoundError(f"no question of {caller.name} with this identifier is open here")
        await self._hosts[found[0]].call_off(question_id, who)

    def _host(self, kind: str) -> Host:
        if kind not in self._hosts:
            raise InvalidRequestError("this coordinator asks no questions of this kind")
        return self._hosts[kind]

    def _answered(self, kind: str) -> AnsweredHost:
        host = self._host(kind)
        if not isinstance(host, AnsweredHost):
            raise InvalidRequestError(f"devices do not answer a {kind} by one message")
        return host
