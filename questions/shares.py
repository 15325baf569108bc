"""A question to devices that compute parties answer together: what it asks, its noise, its group, its digest.

Each device sends one message, at any time while the batch is open: a share of its vector for each party, sealed
(`mpc.secagg.secret.party_shares`). The parties add up, each adds a share of the noise, the coordinator opens the sum.

Privacy: with N parties of which t may collude with the coordinator and with any number of devices, shares of an honest
device are uniform to all of them, so that they learn the opened sum and nothing else. In it are the noise shares of at
least N - t parties that do not collude. `noise` is sized for just that: levels (N,), n_corrupt = t, so that those of
N - t parties are, by themselves, the noise that the target asks for in the coalition's view (`SumNoise`). Devices add
none, so nothing depends on how many answer.

With `may_miss` = m the sum opens without any m of the parties: shares are points of polynomials of degree N - 1 - m
(`mpc.secagg.secret.threshold`), so the shares of up to N - 1 - m parties say nothing of them, and t is at most that. A
party that follows the protocol opens once, with the parties that it then agrees with, and what it opens is of use only
with what all others among them that follow it open (`party.batches.openers`). Of N - m parties at least N - m - t do,
so t parties and the coordinator, whatever they do, bring a batch to (N - t) // (N - m - t) openings at most, of
different devices: one where t <= N - 1 - 2 m. Noise is sized for as many, among N - m parties. Where there may be two,
no exact sum is asked for, which two openings would undo, and no proofs, which hide under one mask.

With `proofs` a device shares the digits of its integers modulo a prime, and proves to the parties that its vector keeps
the bounds of the question (`mpc.vector_proofs`). What is summed, its noise and its cost stay the same.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from analyses.job.job import JobError, Name, PrivacyTarget, tree_of_toml
from analyses.sums.least_variance import least_variance
from analyses.sums.noise import SumNoise
from analyses.sums.round import HISTOGRAM, TREE, noise_bound, ring_for
from analyses.sums.secure_sum import SumParams, check_delta
from dp.cost.accounting import CalibrationError
from dp.cost.report import no_guarantee_report
from mpc.errors import ProtocolError
from mpc.secagg.secret.party_shares import TAG_BYTES, share_bytes
from mpc.secagg.vector.group import SumGroup
from mpc.secagg.vector.prime_group import PrimeGroup
from mpc.vector_proofs.claim import Claim
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
        proofs: whether each device proves that its vector keeps the bounds of the question; who does not is left out.
        may_miss: parties that may be gone when the sum is opened.
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
    proofs: bool = False
    may_miss: Annotated[int, Field(ge=0, le=1)] = 0

    @model_serializer(mode="wrap")
    def _as_earlier(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What later versions added is left out where it is not given, as earlier ones do."""
        tree: dict[str, Any] = write(self)
        if not self.proofs:
            del tree["proofs"]
        if not self.may_miss:
            del tree["may_miss"]
        if self.sum.largest_norm is None:
            del tree["sum"]["largest_norm"]
        return tree

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        if len(set(self.parties)) != len(self.parties):
            raise ValueError("parties: a name appears more than once")
        if self.colluding >= len(self.parties):
            raise ValueError("colluding: at least one party must not collude, because all of them together see all")
        if self.colluding >= len(self.parties) - self.may_miss:
            enough = len(self.parties) - self.may_miss
            raise ValueError(f"colluding: any {enough} of the parties open the batch (may_miss), so fewer may collude")
        if self.openings > 1 and (self.proofs or self.sum.privacy is None):
            what = "proofs = true needs" if self.proofs else "an exact sum needs"
            raise ValueError(
                f"may_miss: {what} a batch that opens once whatever those do that may collude, so at least "
                f"{self.colluding + 1 + 2 * self.may_miss} parties where {self.colluding} may"
            )
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
        tree = tree_of_toml(text)
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
    def openings(self) -> int:
        """How often, at most, parties that may collude bring one batch to be opened; see the module."""
        others = len(self.parties) - self.colluding
        return others // (others - self.may_miss)

    def openers_of(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of the parties that open, 1 and up; of all where none are given.

        Raises:
            JobError: they are not enough of the parties, in their order.
        """
        everybody = tuple(range(1, len(self.parties) + 1))
        found = tuple(numbers) or everybody
        if not set(found) <= set(everybody) or list(found) != sorted(set(found)):
            raise JobError("openers: must be parties of the batch, each once and in their order")
        if len(found) < len(everybody) - self.may_miss:
            raise JobError(f"openers: {len(everybody) - self.may_miss} parties open this batch, not {len(found)}")
        return found

    @property
    def noise(self) -> SumNoise | None:
        """What the parties add together; None for an exact sum.

        Raises:
            JobError: no noise on offer meets the target.
        """
        if self.sum.privacy is None:
            return None
        levels = tuple(range(len(self.parties) - self.may_miss, len(self.parties) + 1))
        return _calibrated(self.sum, self.sum.privacy, levels, self.colluding, self.openings)

    @cached_property
    def group(self) -> SumGroup:
        """The integers modulo 2^b, or a prime for proofs or missing parties: the largest sum and its noise are exact.

        Raises:
            JobError: there is none, or devices cannot prove such vectors.
        """
        try:
            if self.claim is None and not self.may_miss:
                return ring_for(self.largest_cohort, self.sum.encoding, self.noise)
            self.sum.encoding.check_fits(PrimeGroup(), self.largest_cohort, noise_bound(self.noise))
        except ProtocolError as error:
            raise JobError(f"largest_cohort, largest, units: {error}") from error
        return PrimeGroup()

    @cached_property
    def claim(self) -> Claim | None:
        """What a device proves of its integers; None where it proves nothing.

        Raises:
            ProtocolError: they are too many or too large to be proven.
        """
        if not self.proofs:
            return None
        encoding, weight = self.sum.encoding, self.sum.largest_weight
        if self.analysis == HISTOGRAM:
            return Claim(encoding.n_entries, 0, int(self.sum.largest), largest_sum=self.sum.values)
        largest = encoding.largest_entry * (weight or 1)
        top = None if weight is None else weight * encoding.weight_units
        norm = None if encoding.norm_clip is None else encoding.squared_norm_bound
        return Claim(encoding.n_entries, -largest, largest, squared_norm=norm, weight=top)

    @property
    def shared_elements(self) -> tuple[int, int]:
        """Elements of what a device shares: of its vector, and of what answers the challenge, if it proves anything."""
        if self.claim is None:
            return self.n_elements, 0
        return self.claim.table.first_part, self.claim.table.second_part

    @cached_property
    def sealed_bytes(self) -> tuple[int, ...]:
        """Sizes of all that a device seals: a box for each party, and with proofs one more for each with vectors."""
        n, (first, second) = len(self.parties), self.shared_elements
        sizes = [share_bytes(self.group, first, place, n, self.may_miss) + TAG_BYTES for place in range(n)]
        if self.claim is not None:
            sizes += [self.group.wire_bytes(second) + TAG_BYTES] * (1 + self.may_miss)
        return tuple(sizes)

    def proofs_report(self) -> dict[str, Any] | None:
        """Return what each device proves, as JSON data; None where it proves nothing. Public."""
        if (claim := self.claim) is None:
            return None
        bounds = {
            "lowest": claim.lowest,
            "highest": claim.highest,
            "squared_norm": claim.squared_norm,
            "sum": claim.largest_sum,
            "weight": claim.weight,
        }
        return {
            "bounds": {name: bound for name, bound in bounds.items() if bound is not None},
            "sealed_bytes": sum(self.sealed_bytes),
            "log2_error": claim.table.log2_error(),
        }

    def privacy_report(self) -> dict[str, Any]:
        """Return what the answer costs a device, in both views, or that it has no guarantee. Public."""
        noise, target = self.noise, self.sum.privacy
        opening = {"opening": self._opening()} if self.may_miss else {}
        if noise is None or target is None:
            report = no_guarantee_report(
                mechanism=f"{self.analysis}: an exact sum of shares",
                n_parties=len(self.parties),
                colluding=self.colluding,
            )
            return report | opening
        report = noise.report(self.analysis, target.delta)
        kind = "shares of discrete Laplace noise" if noise.mean_units else "Skellam noise"
        report["mechanism"] = f"{self.analysis}: a sum of shares plus {kind} of {len(self.parties)} parties"
        del report["parameters"]["fewest_survivors"]
        return report | opening

    def _opening(self) -> str:
        """Say who can open, and who may collude."""
        n, t = len(self.parties), self.colluding
        said = (
            f"Any {n - self.may_miss} of the {n} parties open the sum, so one may be gone; shares of "
            f"{n - 1 - self.may_miss} of them say nothing of a device"
        )
        if self.openings == 1:
            return (
                f"{said}. Only one sum is opened, whatever the coordinator and {t} of the parties do; with more than "
                f"{n - 1 - 2 * self.may_miss} that deviate two can be opened, whose difference may be one device"
            )
        return (
            f"{said}. One sum is opened where parties follow the protocol; the coordinator and {t} of them that "
            f"deviate can have {self.openings} opened, about different devices: epsilon against them counts all"
        )


@lru_cache(maxsize=16)  # asked for several times in each batch
def _calibrated(
    params: SumParams, target: PrivacyTarget, levels: tuple[int, ...], colluding: int, openings: int
) -> SumNoise:
    try:
        return least_variance(
            params.sensitivities,
            target.view,
            epsilon=target.epsilon,
            delta=target.delta,
            length=params.encoding.n_elements,
            levels=levels,
            n_corrupt=colluding,
            openings=openings,
        )
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error


class AskedBatch(Asked):
    """A batch as a coordinator asks for it."""

    question: BatchQuestion

    def key_statement(self, party: str, public: bytes) -> bytes:
        """Return what a party signs of its X25519 key for this batch."""
        return b"batch key:" + self.digest + self.question.parties.index(party).to_bytes(4, "big") + public
