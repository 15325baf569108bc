"""Statements about shared vectors, and what members make of their proofs, over the in-process network."""

from dataclasses import replace

import numpy as np
from sharings import random_words
from virtual_time import run_in_virtual_time

from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import lagrange_weights
from mpc.local.network import LocalNetwork, local_names
from mpc.proofs.coin import PublicCoin
from mpc.proofs.folding import REPETITIONS, Schedule
from mpc.proofs.inner_products import Proofs, Statement, Vectors
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets


def sum_of_groups(field: ResidueField, products: np.ndarray, group: int) -> np.ndarray:
    """Return sums of consecutive elements."""
    parts = products.reshape(field.n_words, -1, group)
    total = parts[..., 0].copy()
    for i in range(1, group):
        field.accumulate(total, np.ascontiguousarray(parts[..., i]))
    return total


def polynomial(field: ResidueField, values: np.ndarray, degree: int, points, seed: str) -> dict[int, np.ndarray]:
    """Return random sharings of this degree with these values at 0, at all points."""
    random = {k: random_words(field, values.shape[1:], f"{seed} {k}") for k in range(1, degree + 1)}
    parts, basis = [values, *random.values()], (0, *random)
    return {x: field.combine(parts, lagrange_weights(field, basis, at=x)) for x in points}


class Statements:
    """What is proven: products of what each owner dealt, and products of each party's own shares.

    Args:
        n_parties: N.
        t: degree.
        n_groups: claimed sums.
        group: products in each.
        field: field of the shares.
        owners: members that prove their own products; those above n_parties hold no shares.
        parties: whether the parties prove the products of their own shares of a pair of vectors.
    """

    def __init__(self, n_parties, t, n_groups, *, group=1, field=None, owners=(), parties=True, seed="proofs"):
        self.field, self.n_parties, self.t = field or ResidueField(4), n_parties, t
        self.schedule, self.repetitions, self.seed = Schedule(n_groups, group), REPETITIONS, seed
        self.everybody = range(1, n_parties + 1)
        self.provers = {0: list(self.everybody)} if parties else {}
        self.provers |= {owner: [owner] for owner in owners}
        points = [0, *self.everybody]
        self.left, self.right, self.claims = {}, {}, {}
        length = n_groups * group
        for pair, provers in self.provers.items():
            values = [random_words(self.field, length, f"{seed} {pair} {side}") for side in "xy"]
            self.left[pair], self.right[pair] = (
                polynomial(self.field, v, t, points, f"{seed} {pair} {i}") for i, v in enumerate(values)
            )
            for prover in provers:
                at = prover if pair == 0 else 0
                products = self.field.multiply(self.left[pair][at], self.right[pair][at])
                sums = sum_of_groups(self.field, products, group)
                self.claims[pair, prover] = polynomial(self.field, sums, t, points, f"{seed} {pair} h {prover}")
        self.n_members = max([n_parties, *owners])

    def add(self, pair, prover, element, error, parties=None):
        """Make a claimed product wrong: by a constant at all parties, or in the shares of some."""
        for party in parties or self.everybody:
            words = self.claims[pair, prover][party].copy()
            one = np.full((1,), error)
            words[:, element : element + 1] = self.field.add(
                np.ascontiguousarray(words[:, element : element + 1]), self.field.encode(one)
            )
            self.claims[pair, prover][party] = words

    async def vectors(self, exchange, proofs, pair):
        """Return my shares of a pair, and secrets of the prover."""
        me, field = exchange.session.me, self.field
        if pair == 0:
            if not exchange.am_receiver:
                return None, None
            (masks,) = await proofs.joint_masks(1)
            mine = Vectors([self.left[0][me]], [self.right[0][me]], masks)
            return mine, mine
        secret, dealt = None, None
        if me == pair:
            masks = field.random(KeyStream(exchange.session.entropy.read(32)), proofs.mask_shape)
            secret = Vectors([self.left[pair][0]], [self.right[pair][0]], masks)
            dealt = await exchange.deal(f"masks of {pair}", 0, masks, self.t)
        elif exchange.am_receiver:
            dealt = await exchange.take(pair, f"masks of {pair}", 0, proofs.mask_shape, self.t)
        shares = None if dealt is None else Vectors([self.left[pair][me]], [self.right[pair][me]], dealt)
        return shares, secret

    def run(self, fault=None, member_class=Proofs, liars=(), times=1):
        """Return each member's result: None, or the error that ended it."""
        n_owners = self.n_members - self.n_parties
        options = {"fault": fault} if fault else {}
        self.network = LocalNetwork(
            local_names(self.n_parties, n_owners),
            deadline_s=5,
            entropy_of=lambda m: InsecureTestEntropy(f"{self.seed} {m}"),
            **options,
        )
        members = range(1, self.n_members + 1)

        async def member(session):
            secrets = await agree_pairwise_secrets(session, members, self.n_parties)
            exchange = ShareExchange(session, self.field, self.n_parties, self.t, secrets)
            coin = PublicCoin(session, self.n_parties, "test", [m for m in members if m > self.n_parties])
            kind = member_class if session.me in liars else Proofs
            proofs = kind(exchange, coin, "test", repetitions=self.repetitions)
            for _ in range(times):
                statements = []
                for pair, provers in self.provers.items():
                    shares, secret = await self.vectors(exchange, proofs, pair)
                    for prover in provers:
                        claims = [self.claims[pair, prover][session.me]] if exchange.am_receiver else None
                        statements.append(
                            Statement(
                                prover=prover,
                                at=prover if pair == 0 else 0,
                                schedule=self.schedule,
                                shares=shares,
                                claims=claims,
                                secrets=secret if prover == session.me else None,
                                pair=pair,
                            )
                        )
                await proofs.check(statements)

        return run_in_virtual_time(self.network.run(dict.fromkeys(members, member)))


__all__ = ["Statements", "polynomial", "replace", "sum_of_groups"]
