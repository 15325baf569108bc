"""A question to devices that compute parties answer together: what it asks, its noise, its group, its digest.

Each device sends one message, at any time while the batch is open: a share of its vector for each party, sealed
(`mpc.secagg.secret.party_shares`). The parties add up, each adds a share of the noise, the coordinator opens the sum.

Privacy: with N parties of which t may collude with the coordinator and with any number of devices, shares of an honest
device are uniform to all of them, so that they learn the opened sum and nothing else. In it are the noise shares of at
least N - t parties that do not collude. `noise` is sized for just that: levels (N,), n_corrupt = t, so that those of
N - t parties are, by themselves, the noise that the target asks for in the coalition's view (`SumNoise`). Devices add
none, so nothing depends on how many answer.
"""

import tomllib
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from analyses.job.job import JobError, Name, PrivacyTarget
from analyses.sums.least_variance import least_variance
from analyses.sums.noise import SumNoise
from analyses.sums.round import TREE, ring_for
from analyses.sums.secure_sum import SumParams, check_delta
from dp.cost.accounting import CalibrationError
from dp.cost.report import no_guarantee_report
from mpc.errors import ProtocolError
from mpc.secagg.vector.group import RingGroup
from questions.question import Asked, Question

MAX_DEVICES = 1 << 20
"""Largest number of devices in a batch."""

MAX_PARTIES = 16

_OF_MASKED_SUMS = ("members", "colluding", "vanishing", "stage_s", "grace_s", "attempts")


class BatchQuestion(Question):
    """What an analyst asks of devices, to be answered by shares to compute parties.

    Attributes:
        channel: "parties".
        sum: what is summed, with the noise that the answer must have; see `SumParams`, whose fields for members and
            stages have no meaning here.
        parties: names of the compute parties, in the order of their shares.
        colluding: parties that may collude with the coordinator, and with any devices.
        smallest_cohort: parties open no sum of fewer devices.
        largest_cohort: the batch is closed when so many have answered.
        until: the batch is closed then, by the coordinator's clock. No decision of a device or a party depends on it.
    """

    kind = "batch"
    max_bytes = 64 << 10

    channel: Literal["parties"] = "parties"
    sum: SumParams
    parties: Annotated[tuple[Name, ...], Field(min_length=2, max_length=MAX_PARTIES)]
    colluding: Annotated[int, Field(ge=1)]
    smallest_cohort: Annotated[int, Field(ge=2, le=MAX_DEVICES)]
    largest_cohort: Annotated[int, Field(ge=2, le=MAX_DEVICES)] = MAX_DEVICES
    until: AwareDatetime

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        if len(set(self.parties)) != len(self.parties):
            raise ValueError("parties: a name appears more than once")
        if self.colluding >= len(self.parties):
            raise ValueError("colluding: at least one party must not collude, because all of them together see all")
        if self.smallest_cohort > self.largest_cohort:
            raise ValueError("smallest_cohort: must not be larger than largest_cohort")
        if self.sum.analysis == TREE:
            raise ValueError("analysis: a distribution is not asked for by channel = parties")
        fields = SumParams.model_fields
        if others := [name for name in _OF_MASKED_SUMS if getattr(self.sum, name) != fields[name].default]:
            raise ValueError(f"{others[0]}: belongs to masked sums, and has no meaning with channel = parties")
        return self

    def check(self) -> None:
        """See `Question`: noise and group must exist."""
        check_delta(self.sum.privacy, self.largest_cohort)
        self.group  # noqa: B018  # checks that there is one

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a question's file, in which the fields of the sum stand beside those of the batch.

        Raises:
            JobError: not TOML, or as `from_tree`.
        """
        try:
            tree = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise JobError(f"the question is not valid TOML: {error}") from error
        own = set(cls.model_fields) - {"sum"}
        inner = {name: value for name, value in tree.items() if name not in own}
        return cls.from_tree({"sum": inner, **{name: value for name, value in tree.items() if name in own}})

    @property
    def analysis(self) -> str:
        """The name of the analysis."""
        return self.sum.analysis

    @property
    def record(self) -> str:
        """The name under which devices keep what is summed."""
        return self.sum.record

    @property
    def n_elements(self) -> int:
        """Elements of a device's vector."""
        return self.sum.encoding.n_elements

    @property
    def noise(self) -> SumNoise | None:
        """What the parties add together; None for an exact sum.

        Raises:
            JobError: no noise on offer meets the target.
        """
        if self.sum.privacy is None:
            return None
        return _calibrated(self.sum, self.sum.privacy, len(self.parties), self.colluding)

    @cached_property
    def group(self) -> RingGroup:
        """The integers modulo 2^b in which the sum of the largest cohort and the noise are exact.

        Raises:
            JobError: there is none.
        """
        try:
            return ring_for(self.largest_cohort, self.sum.encoding, self.noise)
        except ProtocolError as error:
            raise JobError(f"largest_cohort, largest, units: {error}") from error

    def privacy_report(self) -> dict[str, Any]:
        """Return what the answer costs a device, in both views, or that it has no guarantee. Public."""
        noise, target = self.noise, self.sum.privacy
        if noise is None or target is None:
            return no_guarantee_report(
                mechanism=f"{self.analysis}: an exact sum of shares",
                n_parties=len(self.parties),
                colluding=self.colluding,
            )
        report = noise.report(self.analysis, target.delta)
        kind = "shares of discrete Laplace noise" if noise.mean_units else "Skellam noise"
        report["mechanism"] = f"{self.analysis}: a sum of shares plus {kind} of {len(self.parties)} parties"
        del report["parameters"]["fewest_survivors"]
        return report


@lru_cache(maxsize=16)  # asked for several times in each batch
def _calibrated(params: SumParams, target: PrivacyTarget, n_parties: int, colluding: int) -> SumNoise:
    try:
        return least_variance(
            params.sensitivities,
            target.view,
            epsilon=target.epsilon,
            delta=target.delta,
            length=params.encoding.n_elements,
            levels=(n_parties,),
            n_corrupt=colluding,
        )
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error


class AskedBatch(Asked):
    """A batch as a coordinator asks for it."""

    question: BatchQuestion

    def key_statement(self, party: str, public: bytes) -> bytes:
        """Return what a party signs of its X25519 key for this batch."""
        return b"batch key:" + self.digest + self.question.parties.index(party).to_bytes(4, "big") + public
