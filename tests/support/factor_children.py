"""A device that goes through the rounds of a matrix factorization and kills itself on the way."""

import hashlib
import os
import signal
from contextlib import closing, contextmanager
from pathlib import Path

from devices import IDENTITIES, NAMES, device_in
from factor_devices import descent_question, factor_question, made_up_records, with_ratings
from ledger_children import at_every_step

from analyses.matrix_factorization.devices.planned import factor_round_config, rounds_of
from analyses.matrix_factorization.model import FactorModel
from device.factors import FactorRound
from device.journal import SqliteSampleJournal
from mpc.transcript import RoundId
from transport.sum_codec import Invitation

ROUNDS = 3


def invitation_to(number: int, attempt: int = 0, session: str = "session", **changes) -> Invitation:
    """An invitation of an honest coordinator, whose model is all zeros."""
    make = descent_question if changes.get("form") == "sgd" else factor_question
    asked = make(**{"attempts": 2, **changes})
    rounds = rounds_of(asked, len(NAMES))
    config = factor_round_config(rounds, RoundId(session, number, attempt), IDENTITIES)
    n_items = asked.items
    model = None
    if number:
        flat = rounds.broadcast.read((0).to_bytes(8, "little") + bytes(rounds.broadcast.n_bytes - 8), 0, "test")
        model = FactorModel(flat.offsets_q, flat.vectors_q, flat.units)
        assert len(model.offsets_q) == n_items
    return Invitation(config.round_id, config.roster, rounds.public_input(number, model))


@contextmanager
def factor_device_in(folder: Path, record=None, **changes):
    """Yield walker-1 with its ratings, without a network."""
    own = made_up_records(NAMES)[NAMES[0]] if record is None else record
    of_factors = {key: changes.pop(key) for key in ("largest_epsilon", "entropy", "samples") if key in changes}
    with device_in(folder, **changes) as device, closing(SqliteSampleJournal(folder / "samples.sqlite")) as samples:
        made = with_ratings(device, own, folder, **{"samples": samples, **of_factors})
        try:
            yield made
        finally:
            made.factors.close()


def seeds_of(answered: FactorRound) -> tuple[bytes, ...]:
    return tuple(bytes([i]) * 32 for i in range(len(answered.rounds.noise(answered.config.round_id.number).levels) - 1))


def go_through(folder: Path, form: str = "statistics") -> None:
    """Take part in the rounds whose vectors have not left; that a vector leaves is a line of a file.

    The line is the number of the round, and, in the form sgd, the number of the coin and a digest of its key.
    """
    sent = folder / "sent"
    done = {line.split()[0] for line in sent.read_text().splitlines()} if sent.exists() else set()
    changes = {"form": "sgd", "steps": ROUNDS} if form == "sgd" else {}
    with factor_device_in(folder) as device:
        for number in range(ROUNDS):
            if str(number) in done:
                continue
            answered = device.factors.entered(invitation_to(number, **changes))
            answered.admit()
            answered.commit()
            answered.contribute(seeds_of(answered))
            coins = answered._coins
            thrown = "" if coins is None else f" {coins.n_before} {hashlib.sha256(coins.key).hexdigest()}"
            with sent.open("a") as file:
                file.write(f"{number}{thrown}\n")
                file.flush()
                os.fsync(file.fileno())
            answered.leave(b"")


def go_through_and_die_at(step: int, folder: Path, form: str = "statistics") -> None:
    """The same, killed before or after something reaches the disk, or within SQLite's work."""
    steps = iter(range(10**9))

    def maybe_die() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    at_every_step(maybe_die)
    go_through(folder, form)
