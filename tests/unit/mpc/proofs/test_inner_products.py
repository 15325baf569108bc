import itertools

import numpy as np
import pytest
from proven import Statements
from sharings import corrupt

from mpc.arithmetic.field import ResidueField
from mpc.errors import InconsistentSharesError, LocalFaultError, PeerSilentError, PeerViolationError
from mpc.proofs.inner_products import Proofs

ANSWERS, OPENED, MASKS = "test/proof answers", "test/proof opened", "test/proof masks"


def assert_accepted(results):
    assert set(results.values()) == {None}


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (4, 1), (5, 1), (5, 2), (7, 3), (9, 4)])
@pytest.mark.parametrize("n_groups", [1, 9, 700])
def test_true_statements_of_parties_and_owners_are_accepted(n_parties, t, n_groups):
    owners = (2, n_parties + 1, n_parties + 2)
    assert_accepted(Statements(n_parties, t, n_groups, group=3, owners=owners, field=ResidueField(2)).run(times=2))


def test_only_owners_prove_where_no_party_multiplies():
    assert_accepted(Statements(3, 1, 20, owners=(1, 4), parties=False).run())


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (4, 1), (5, 2)])
@pytest.mark.parametrize("prover", [1, 3])
@pytest.mark.parametrize("element", [0, 49])
def test_a_party_whose_claimed_product_is_wrong_is_named_by_all(n_parties, t, prover, element):
    statements = Statements(n_parties, t, 50)
    statements.add(0, prover, element, 1)
    for found in statements.run().values():
        assert isinstance(found, PeerViolationError)
        assert found.member == prover
        assert "not the products" in str(found)


@pytest.mark.parametrize("owner", [2, 4, 5])
def test_an_owner_whose_claimed_sum_is_wrong_is_named_by_all_parties(owner):
    statements = Statements(3, 1, 30, group=5, owners=(2, 4, 5))
    statements.add(owner, owner, 29, -1)
    results = statements.run()
    assert all(isinstance(results[p], PeerViolationError) and results[p].member == owner for p in (1, 2, 3))


@pytest.mark.parametrize(("n_parties", "t"), [(4, 1), (5, 1), (6, 2), (7, 2)])
@pytest.mark.parametrize("victims", [(1,), (1, 2)])
def test_claims_that_lie_on_no_polynomial_of_degree_t_end_the_job_and_name_nobody(n_parties, t, victims):
    """The receiver of a wrong share and who dealt it cannot be told apart."""
    statements = Statements(n_parties, t, 50)
    statements.add(0, n_parties, 7, 1, parties=victims)
    assert all(isinstance(found, InconsistentSharesError) for found in statements.run().values())


def replaced(stage, sender, change, receivers=None):
    """A fault that changes what one member sends in a stage."""

    def fault(message):
        if (
            message.stage != stage
            or message.sender != sender
            or message.receiver not in (receivers or [message.receiver])
        ):
            return (message,)
        return (message.altered(change(message.array)),)

    return fault


@pytest.mark.parametrize("entry", [0, 4, 9])
@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2), (4, 1)])
def test_a_wrong_share_of_what_is_opened_ends_the_job_at_whoever_received_it(n_parties, t, entry):
    statements = Statements(n_parties, t, 50)
    results = statements.run(replaced(OPENED, 2, lambda words: corrupt(words, 1, entry, statements.field), [1]))
    assert isinstance(results[1], InconsistentSharesError)
    assert all(found is None for party, found in results.items() if party != 1)


@pytest.mark.parametrize("stage", [ANSWERS, OPENED, MASKS])
@pytest.mark.parametrize(
    "change",
    [lambda words: words[:, :-1], lambda words: words.astype(np.uint8), lambda words: np.full_like(words, 1 << 63)],
    ids=["short", "narrow", "outside the field"],
)
def test_a_malformed_message_is_a_violation_that_names_its_sender(stage, change):
    results = Statements(3, 1, 50, field=ResidueField(3)).run(replaced(stage, 2, change))
    named = [found.member for found in results.values() if isinstance(found, PeerViolationError)]
    assert named
    assert set(named) == {2}


@pytest.mark.parametrize("stage", [ANSWERS, OPENED, MASKS])
def test_silence_ends_the_proof(stage):
    results = Statements(3, 1, 50).run(
        lambda message: () if (message.stage, message.sender) == (stage, 2) else (message,)
    )
    assert any(isinstance(found, PeerSilentError) for found in results.values())
    assert None not in {results[1], results[3]}


class LiesInAnswers(Proofs):
    """A prover that adds to one number of its answer of one fold."""

    fold, entry = 0, 0

    def _my_answers(self, pairs, fold):
        words = super()._my_answers(pairs, fold)
        return corrupt(words, 0, self.entry, self._exchange.field) if fold == self.fold else words


@pytest.mark.parametrize("fold", [0, 1, 2])
@pytest.mark.parametrize("entry", [0, 1, 13])
def test_an_answer_that_is_wrong_is_found_and_names_the_prover(fold, entry):
    liar = type("Liar", (LiesInAnswers,), {"fold": fold, "entry": entry})
    statements = Statements(3, 1, 1000)
    assert len(statements.schedule.rows) == 3
    results = statements.run(member_class=liar, liars=(2,))
    assert all(isinstance(found, PeerViolationError) and found.member == 2 for found in results.values())


def test_a_claim_of_zero_products_at_the_wrong_abscissa_is_found():
    """A party that proves the products of the secrets instead of those of its own shares is not believed."""
    statements = Statements(3, 1, 10)
    statements.claims[0, 2] = statements.claims[0, 3]
    results = statements.run()
    assert all(isinstance(found, PeerViolationError) and found.member == 2 for found in results.values())


def test_a_prover_makes_one_statement_about_two_vectors():
    statements = Statements(3, 1, 10)
    statements.provers[0] = [1, 1, 2, 3]
    assert all(isinstance(found, LocalFaultError) for found in statements.run().values())


def opened_by(statements, sender, receiver):
    (message,) = [
        m for m in statements.network.transcript if (m.stage, m.sender, m.receiver) == (OPENED, sender, receiver)
    ]
    return message.array


def test_what_is_opened_is_zero_or_uniform_or_a_product_of_what_is():
    """The whole view beyond shares: two runs on equal masks and coins, with other secrets, open equal zeros only."""
    seen = []
    for seed in ("one", "two"):
        statements = Statements(3, 1, 50, field=ResidueField(1), seed=seed)
        assert_accepted(statements.run())
        field = statements.field
        shares = {p: opened_by(statements, p, 1 if p != 1 else 2) for p in (1, 2, 3)}
        # the line through two shares, at 0
        twice, once = field.scale(shares[1], 2), shares[2]
        values = field.residues(field.subtract(twice, once))[0]
        seen.append(values)
    folds = len(statements.schedule.rows)
    n = statements.repetitions
    for prover in range(3):
        start = 2 * n + prover * (folds + 1) * n
        assert not any(values[start : start + folds * n].any() for values in seen)
    assert not np.intersect1d(seen[0][: 2 * n], seen[1][: 2 * n]).size


def test_a_joint_mask_is_unknown_to_each_party_that_dealt_of_it():
    statements = Statements(3, 1, 5)
    assert_accepted(statements.run())
    dealers = {m.sender for m in statements.network.transcript if m.stage == MASKS}
    assert dealers == {1, 2, 3}


def test_a_round_of_the_coin_stands_between_all_that_is_dealt_and_what_judges_it():
    """In the transcript: all answers of a fold before the first seed after them."""
    statements = Statements(3, 1, 1000)
    assert_accepted(statements.run())
    kinds = [m.stage.removeprefix("test/") for m in statements.network.transcript]
    order = [kind for kind, _ in itertools.groupby(kinds) if kind in ("proof answers", "coin seeds", "proof opened")]
    folds = len(statements.schedule.rows)
    counted = [k for k, _ in itertools.groupby(order)]
    assert counted == ["coin seeds"] + ["proof answers", "coin seeds"] * folds + ["proof opened"]
