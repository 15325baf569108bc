"""Arithmetic circuits over Shamir shares [BGW88]: a program that every member of a job runs.

    async def program(c: Computation, mine: NDArray | None) -> OpenedArray | None:
        x = await c.input(1, (1000,), mine, bound=100)
        y = await c.reduce(x * x)
        return await c.open((y * y).sum())

All members run the same program, whoever holds shares: operators on `SharedArray` are local, methods with `await` take
rounds. Members that hold no shares (the coordinator, input-only parties) follow the shapes. What can be done is in
`mpc.protocol.operations`, one idea per file.
"""

from mpc.arithmetic.field import ResidueField
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets, confirm_pairwise_secrets
from mpc.protocol.operations.core import parameters_digest
from mpc.protocol.operations.functions import Functions
from mpc.protocol.operations.modular import Modular
from mpc.protocol.operations.noise import Noise
from mpc.protocol.operations.openings import OpenedArray
from mpc.protocol.operations.rows import Rows
from mpc.protocol.operations.selections import Selections
from mpc.protocol.session import COORDINATOR, Session

__all__ = ["Computation", "OpenedArray"]


class Computation(Selections, Functions, Modular, Rows, Noise):
    """One member's end of a computation on shares. Made by `start`.

    Methods that take rounds are awaited one after another, in the same order by all members: independent products go
    into one round with `reduce_all`. After an error nothing more can be computed.

    A party that drops out after the input does not end the computation while more than 2t parties are left that
    communicate with each other; see `mpc.protocol.agreement`. With exactly N = 2t + 1 parties, none may drop out before
    a product is opened.

    Args:
        exchange: dealing and taking of shares, in one field.
        name: begins the names of all stages; one job never uses a name twice: shares would be derived from used keys.
            Of a job that releases noisy sums of rows it is empty: the stages are `noise`, `table` and `opening` then.
    """

    @classmethod
    async def start(
        cls, session: Session, field: ResidueField, n_parties: int, t: int, *, name: str = "computation"
    ) -> "Computation":
        """Agree on pairwise keys and return my end.

        Args:
            session: my end; the members are the coordinator, compute parties 1..n_parties and input-only parties.
            field: field of all shares. `ResidueField.for_bound` finds the smallest for what will be opened.
            n_parties: compute parties, N.
            t: how many of them may collude without learning anything, 2t + 1 <= N.
            name: see the class.

        Raises:
            TooFewPartiesError: N < 2t + 1.
            PeerViolationError: a member sent no valid key, or has another field, n_parties, t or name than I have.
            PeerError: a member is silent or drops out.

        Cost: 2 rounds, 64 bytes per pair and direction; the coordinator takes no part.
        """
        secrets = {}
        if session.me != COORDINATOR:
            members = [member for member in session.names if member != COORDINATOR]
            secrets = await agree_pairwise_secrets(session, members, n_parties)
            await confirm_pairwise_secrets(session, secrets, parameters_digest(field, n_parties, t, name))
        return cls(ShareExchange(session, field, n_parties, t, secrets), name)

    def beside(self, name: str) -> "Computation":
        """Return another computation of the same members with the same keys; `name` as in the class."""
        return Computation(self._exchange, name)
