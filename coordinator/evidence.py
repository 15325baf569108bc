"""Attribution of failures: what the coordinator received from every party, and which party it holds responsible."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from service.codes.coded_text import coded


@dataclass(frozen=True)
class Verdict:
    """The public account of a failure.

    Attributes:
        reason: one line.
        culprit: name of the party at fault; empty where nobody is.
        stage: where it happened; may be empty.
    """

    reason: str
    culprit: str = ""
    stage: str = ""


NO_FAULT = Verdict("")


@dataclass
class _Party:
    stage: str = ""
    received_at_s: float = 0.0
    waits_for: str = ""
    has_finished: bool = False
    own_failure: str | None = None
    broken: str | None = None
    silent: str | None = None
    blamed: "_Blame | None" = None

    @property
    def has_ended(self) -> bool:
        return self.has_finished or self.is_out

    @property
    def is_out(self) -> bool:
        return any(sign is not None for sign in (self.own_failure, self.broken, self.silent, self.blamed))


@dataclass(frozen=True)
class _Blame:
    culprit: str
    stage: str
    reason: str
    is_finding: bool


@dataclass
class Evidence:
    """What each party reported during one run, and which party is at fault if the run fails.

    When one party fails, the others fail as well. Each of them reports the party that it waited for, and some of them
    wait for one that itself waits for the failed one. So first-hand signs count before accusations (a broken connection
    first: it has no other cause), what a party was caught at counts before its absence (who aborts is missed by the
    others), and the remaining accusations are followed to their end. A party that is accused, accuses nobody, but has
    said that it waits for a third is a victim of that one: who is kept waiting by a slow party keeps others waiting.

    Args:
        names: names of the parties.
        now_s: the time at which all of them count as heard.
    """

    names: tuple[str, ...]
    now_s: float
    _parties: Mapping[str, _Party] = field(init=False)

    def __post_init__(self) -> None:
        self._parties = {name: _Party(received_at_s=self.now_s) for name in self.names}

    def reported(self, name: str, stage: str, now_s: float, waits_for: str = "") -> None:
        """The party reported progress, so it is alive. It may also report a party that it has waited for."""
        party = self._parties[name]
        party.stage = stage
        party.received_at_s = now_s
        party.waits_for = waits_for if waits_for in self._parties and waits_for != name else ""

    def finished(self, name: str, now_s: float) -> None:
        """The party did its part."""
        self._parties[name].has_finished = True
        self._parties[name].received_at_s = now_s

    def failed(self, name: str, stage: str, reason: str, culprit: str, *, is_finding: bool = False) -> None:
        """The party gave up by its own fault (no or unknown culprit) or because of another party, caught or missed.

        If a party accuses a member that is not a party of this job, it accuses the coordinator, which cannot judge
        itself: the accusation is published as it is, without a culprit. So is what a party has found that may be the
        doing of several others.
        """
        party = self._parties[name]
        party.stage = stage or party.stage
        if culprit in self._parties and culprit != name:
            party.blamed = _Blame(culprit, stage, reason, is_finding)
        elif is_finding and culprit != name:
            party.blamed = _Blame("", stage, reason, is_finding)
        else:
            party.own_failure = reason

    def broke(self, name: str, cause: str) -> None:
        """The connection over which the party reported its progress broke."""
        self._parties[name].broken = cause

    def fell_silent(self, name: str, deadline_s: float) -> None:
        """The party gave no sign of life for the deadline."""
        self._parties[name].silent = coded(f"no sign of life for {deadline_s:g} s", code="party-stalled")

    def silent_since(self, before_s: float) -> list[str]:
        """Return the parties that were last heard before a time and have not ended."""
        return [name for name, p in self._parties.items() if not p.has_ended and p.received_at_s < before_s]

    @property
    def running(self) -> list[str]:
        """The parties that have not ended."""
        return [name for name, party in self._parties.items() if not party.has_ended]

    def is_out(self, name: str) -> bool:
        """Whether the party failed in any way."""
        return self._parties[name].is_out

    def all_ended_before(self, before_s: float) -> bool:
        """Whether every party ended, the last one before a time."""
        return all(p.has_ended and p.received_at_s < before_s for p in self._parties.values())

    @property
    def is_first_hand(self) -> bool:
        """Whether a party is known to be at fault otherwise than by accusation."""
        return any(p.own_failure or p.broken or p.silent for p in self._parties.values())

    def verdict(self) -> Verdict | None:
        """Return who is at fault and why; None where nothing was heard of any fault."""
        for name, party in self._parties.items():
            if party.broken is not None:
                return Verdict(f"party {name} went away{_in(party.stage)}: {party.broken}", name, party.stage)
        for name, party in self._parties.items():
            if party.own_failure is not None:
                return Verdict(f"party {name} failed{_in(party.stage)}: {party.own_failure}", name, party.stage)
        for name, party in self._parties.items():
            if party.silent is not None:
                return Verdict(f"party {name} stalled{_in(party.stage)}: {party.silent}", name, party.stage)
        findings = {n: p.blamed for n, p in self._parties.items() if p.blamed is not None and p.blamed.is_finding}
        named = {blame.culprit for blame in findings.values()}
        # Whoever deals what is wrong finds that, too, and nobody to name; what others found of it comes first.
        if findings:
            name = min(findings, key=named.__contains__)
            blame = findings[name]
            return Verdict(f"party {name} reports: {blame.reason}", blame.culprit, blame.stage)
        accuser = next((name for name, party in self._parties.items() if party.blamed is not None), None)
        return None if accuser is None else self._last_accusation(accuser)

    def overtime(self, max_job_s: float) -> Verdict:
        """Attribute the failure of a job that ran too long, to the party that others wait for or that has not ended."""
        running = self.running
        culprit = self.slow_party() or (running[0] if len(running) == 1 else "")
        what = f"the job ran longer than this coordinator allows ({max_job_s:g} s, max_job_s)"
        whole = f"{what}; the others waited for party {culprit}" if culprit else what
        return Verdict(coded(whole, code="job-overtime"), culprit)

    def slow_party(self) -> str:
        """Return a party that another one waits for and that itself waits for nobody; empty if there is none."""
        waiting = next((name for name, party in self._parties.items() if party.waits_for), None)
        if waiting is None:
            return ""
        asked: set[str] = set()
        while (next_one := self._parties[waiting].waits_for) and waiting not in asked:
            asked.add(waiting)
            waiting = next_one
        return waiting

    def _last_accusation(self, accuser: str) -> Verdict:
        """Follow accusations from one party until somebody is accused who accuses nobody, or the circle closes."""
        asked: set[str] = set()
        verdict: Verdict | None = None
        while accuser not in asked:
            asked.add(accuser)
            party = self._parties[accuser]
            if party.blamed is not None:
                blame = party.blamed
                verdict = Verdict(f"party {accuser} reports: {blame.reason}", blame.culprit, blame.stage)
            elif party.waits_for:
                what = f"party {accuser} waits for {party.waits_for}{_in(party.stage)}, and others wait for {accuser}"
                verdict = Verdict(coded(what, code="party-slow"), party.waits_for, party.stage)
            else:
                break
            if verdict.culprit in asked:
                break
            accuser = verdict.culprit
        assert verdict is not None, "the first accuser accuses somebody"
        return verdict


async def fallen_silent(evidence: Evidence, deadline_s: float) -> AsyncIterator[str | None]:
    """Yield parties that give no sign of life for the job's deadline; never ends.

    A party repeats its progress while it works, so a long computation is no silence. Where all have finished and the
    result still waits for a message, that message will not come: yields None.
    """
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(min(1.0, deadline_s / 8))
        for name in evidence.silent_since(loop.time() - deadline_s):
            evidence.fell_silent(name, deadline_s)
            yield name
        if evidence.all_ended_before(loop.time() - deadline_s):
            yield None


def _in(stage: str) -> str:
    return f" in stage {stage}" if stage else ""
