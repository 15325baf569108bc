"""Exactly, over small fields: what t parties see of a reduction by double sharings does not depend on the values.

All that anybody sees is a linear function of what dealers and pairwise streams draw, r, and of the parties' shares of
the products, h: view = A r + B h. As r is uniform, A r is uniform on the column space of A; the view is distributed
alike for h and h' exactly if B (h - h') lies in that space, and linear algebra answers for all h and h' at once. A and
B are read off the real protocol, one run per unit vector of (r, h).
"""

import itertools

import galois
import numpy as np
import pytest
from virtual_time import run_in_virtual_time

import mpc.protocol.double_sharing
from entropy import KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import lagrange_weights
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.double_sharing import reduce_with_double_sharings
from mpc.protocol.exchange import ShareExchange


class Script:
    """A stream of given elements."""

    def __init__(self, elements):
        self.elements = elements

    def fill(self, words):
        assert words.size == self.elements.size
        words[:] = self.elements


class PairwiseScript:
    """Stands for a pairwise secret: its streams are blocks of (r, h)."""

    def __init__(self, inputs, blocks):
        self.inputs, self.blocks = inputs, blocks

    def stream(self, dealer, receiver, label, block):
        return Script(self.inputs[self.blocks["stream", dealer, receiver, label]])


class Numbered:
    """Entropy whose keys are party numbers: they stand for elements of (r, h)."""

    def __init__(self, member):
        self.member = member

    def read(self, n_bytes):
        return bytes([self.member]) + bytes(n_bytes - 1)


class Linear:
    """The protocol as a linear function; (r, h) is cut into blocks, one per stream, dealer and share."""

    def __init__(self, n_parties, t, p):
        self.n_parties, self.t, self.field = n_parties, t, ResidueField.over([p])
        self.gf = galois.GF(p, compile="python-calculate")  # matrices are small: compiling takes longer
        self.everybody = range(1, n_parties + 1)
        self.size = n_parties * (t + 1)
        streams = [
            (dealer, receiver, label)
            for dealer in self.everybody
            for label, degree in (("test/masks", t), ("test/masks of products", 2 * t))
            for receiver in ((dealer + k) % n_parties + 1 for k in range(degree))
        ]
        lengths = {("stream", *key): n_parties for key in streams}
        lengths |= {("secret", dealer): n_parties for dealer in self.everybody}
        lengths |= {("product", party): self.size for party in self.everybody}
        ends = itertools.accumulate(lengths.values())
        self.blocks = {key: slice(end - lengths[key], end) for key, end in zip(lengths, ends, strict=True)}
        self.n_inputs = sum(lengths.values())
        self.runs = [self._run(unit) for unit in np.eye(self.n_inputs, dtype=np.uint64)]

    def _run(self, inputs):
        network = LocalNetwork(local_names(self.n_parties), entropy_of=Numbered)
        blocks = self.blocks

        async def member(session):
            secrets = {peer: PairwiseScript(inputs, blocks) for peer in self.everybody if peer != session.me}
            exchange = ShareExchange(session, self.field, self.n_parties, self.t, secrets)
            mine = inputs[None, blocks["product", session.me]]
            return await reduce_with_double_sharings(exchange, "test", 0, lambda where: mine[:, where], self.size)

        def key_stream(key):
            return Script(inputs[blocks["secret", key[0]]]) if key[1:] == bytes(31) else KeyStream(key)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mpc.protocol.double_sharing, "KeyStream", key_stream)
            results = run_in_virtual_time(network.run(dict.fromkeys(self.everybody, member)))
        return network.transcript, results

    def columns(self, *kinds):
        """Which coordinates of (r, h) belong to blocks of these kinds."""
        return [i for key, block in self.blocks.items() if key[0] in kinds for i in range(block.start, block.stop)]

    def view(self, coalition, *, with_results=False):
        """Matrix from (r, h) to all that the coalition draws, holds and receives, and the results of all if wanted."""
        rows = []
        for key, block in self.blocks.items():
            ends = {key[1], key[2]} if key[0] == "stream" else {key[1]}
            if ends & set(coalition):
                rows.append(np.eye(self.n_inputs, dtype=np.uint64)[block])
        outputs = []
        for transcript, results in self.runs:
            received = {
                (m.sender, m.receiver, m.stage): m.array.reshape(-1)
                for m in transcript
                if m.receiver in coalition and m.sender not in coalition
            }
            seen = [received[key] for key in sorted(received)]
            seen += [results[party][0] for party in self.everybody] if with_results else []
            outputs.append(np.concatenate(seen))
        return self.gf(np.concatenate([*rows, np.stack(outputs, axis=1)]))

    def hides(self, view, randomness, differences):
        """Whether the view, given `randomness` is uniform, is distributed alike for all h that differ by these."""
        seen_randomness = view[:, randomness]
        moved = view[:, self.columns("product")] @ differences
        return np.linalg.matrix_rank(np.hstack([seen_randomness, moved])) == np.linalg.matrix_rank(seen_randomness)

    def differences(self, coalition, *, of_one_value):
        """A basis of the differences of h with the coalition's shares fixed; and the product's value too, if wanted."""
        honest = [party for party in self.everybody if party not in coalition]
        weights = dict(zip(self.everybody, lagrange_weights(self.field, self.everybody), strict=True))
        basis = np.zeros((self.n_parties, 0), dtype=np.int64)
        for party in honest[1:] if of_one_value else honest:
            column = np.zeros((self.n_parties, 1), dtype=np.int64)
            column[party - 1] = 1
            if of_one_value:  # the first honest share makes up for it: the sum of weights * shares stays what it was
                first = self.gf(weights[honest[0]][0])
                column[honest[0] - 1] = int(-self.gf(weights[party][0]) / first)
            basis = np.hstack([basis, column])
        return self.gf(np.kron(basis, np.eye(self.size, dtype=np.int64)))


@pytest.fixture(scope="module", params=[(3, 1, 5), (5, 2, 7)], ids=["three parties", "five parties"])
def linear(request):
    return Linear(*request.param)


def coalitions(linear):
    return itertools.combinations(linear.everybody, linear.t)


def test_what_t_parties_see_does_not_depend_on_the_products(linear):
    for coalition in coalitions(linear):
        differences = linear.differences(coalition, of_one_value=False)
        assert linear.hides(linear.view(coalition), linear.columns("stream", "secret"), differences), coalition


def test_with_all_shares_of_the_result_it_depends_on_nothing_but_the_value_of_the_product(linear):
    for coalition in coalitions(linear):
        view = linear.view(coalition, with_results=True)
        differences = linear.differences(coalition, of_one_value=True)
        assert linear.hides(view, linear.columns("stream", "secret"), differences), coalition


def test_with_all_shares_of_the_result_the_value_of_the_product_is_known(linear):
    coalition = next(coalitions(linear))
    view = linear.view(coalition, with_results=True)
    differences = linear.differences(coalition, of_one_value=False)
    assert not linear.hides(view, linear.columns("stream", "secret"), differences)


def test_without_the_random_elements_of_honest_dealers_the_kings_learn_products(linear):
    coalition = next(coalitions(linear))
    differences = linear.differences(coalition, of_one_value=False)
    assert not linear.hides(linear.view(coalition), linear.columns("stream"), differences)


def test_t_plus_1_parties_see_more(linear):
    coalition = tuple(range(1, linear.t + 2))
    differences = linear.differences(coalition, of_one_value=False)
    assert not linear.hides(linear.view(coalition), linear.columns("stream", "secret"), differences)
