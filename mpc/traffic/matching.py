"""What matching rows sends, walked through (`mpc.traffic.walk`)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise as neighbours

from entropy.stream import KEY_BYTES
from mpc.arithmetic.moduli import PRIMES
from mpc.matching.bins import N_CANDIDATES, n_parts_of
from mpc.matching.block_prf import BLOCK_BYTES
from mpc.matching.field_strings import WORDS_PER_STRING
from mpc.matching.okvs import Okvs
from mpc.matching.parcels import leader_of, parcels
from mpc.matching.revealed import WINDOW, by_transfers, sent_bytes
from mpc.matching.secret import N_TAG_WORDS, STORE_BYTES
from mpc.matching.secret_terms import SecretTerms
from mpc.matching.transfer.match import WINDOW as PARTS_AT_ONCE
from mpc.matching.zero_test import BITS_AT_ONCE, products_of_rounds
from mpc.traffic.shares import WORD_BYTES, ShareTraffic
from mpc.traffic.walk import Sent, Traffic


def match_revealed(traffic: Traffic, owners: Sequence[int], sizes: Mapping[int, int], *, strict: bool) -> None:
    """Walk through `mpc.matching.revealed.match_revealed`."""
    if len(owners) < 2:
        return
    leader = leader_of(owners, sizes)
    others = [owner for owner in owners if owner != leader]
    n_bytes = sent_bytes(owners, sizes, strict=strict)
    extended = by_transfers(owners, sizes, strict=strict)
    n_windows = (
        -(-n_parts_of(sizes.values()) // PARTS_AT_ONCE) if extended else -(-len(parcels(sizes[leader])) // WINDOW)
    )
    # The bytes of all stages are counted with the first message each way; the rest are waits.
    traffic.step(Sent(leader, other, n_bytes[leader] // len(others)) for other in others)
    traffic.step(Sent(other, leader, n_bytes[other]) for other in others)
    traffic.wait([leader], 2 * (n_windows - 1) + extended)  # the transfers are one flight more
    told = traffic.clock_of(leader) + 1
    for other in others:
        traffic.wait_until(other, told)


def match_secretly(shares: ShareTraffic, terms: SecretTerms) -> None:
    """Walk through `mpc.matching.secret.match_secretly`."""
    traffic, leader, n_slots = shares.traffic, terms.leader, n_slots_of(terms)
    helpers = {owner: terms.helper_of(owner) for owner in terms.others}
    traffic.step(Sent(leader, owner, KEY_BYTES) for owner in terms.others)

    def evaluated() -> None:
        traffic.step(Sent(leader, helper, n_slots * BLOCK_BYTES) for helper in helpers.values())
        traffic.step(Sent(helper, leader, n_slots * BLOCK_BYTES) for helper in helpers.values())

    evaluated()
    n_words = N_TAG_WORDS * shares.n_words
    _stores(shares, terms, dict.fromkeys(terms.others, n_words))
    _both_dealt(shares, terms, dict.fromkeys(terms.others, n_slots * N_TAG_WORDS))
    traffic.step(shares.dealt(leader, n_slots))
    n_values = N_TAG_WORDS * len(terms.others) + 1
    for start in range(0, n_slots, BITS_AT_ONCE):
        n_bits = min(BITS_AT_ONCE, n_slots - start)
        for n_products in products_of_rounds(PRIMES[: shares.n_primes], n_values):
            shares.reduce(n_bits * n_products)


def share_rows(shares: ShareTraffic, terms: SecretTerms, widths: Mapping[int, int]) -> None:
    """Walk through `SecretMatch.share_rows`."""
    n_slots = n_slots_of(terms)

    def of_leader() -> None:
        shares.traffic.step(shares.dealt(terms.leader, n_slots * widths[terms.leader]))

    def of(owner: int) -> None:
        value_bytes = WORD_BYTES * WORDS_PER_STRING * shares.n_words * N_CANDIDATES * max(1, terms.room(owner))
        at_once = max(1, STORE_BYTES // value_bytes)
        starts = [*range(0, widths[owner], at_once), widths[owner]]
        for start, end in neighbours(starts):
            width = end - start
            _stores(shares, terms, {owner: width * shares.n_words * WORDS_PER_STRING})
            _both_dealt(shares, terms, {owner: n_slots * width})

    shares.traffic.together(of_leader, *(lambda owner=owner: of(owner) for owner in terms.others))


def n_slots_of(terms: SecretTerms) -> int:
    """Return the number of rows of the joint table, matched or empty."""
    return terms.bins(bytes(KEY_BYTES)).n_bins


def _stores(shares: ShareTraffic, terms: SecretTerms, n_words: Mapping[int, int]) -> None:
    """Each owner sends stores of values of so many words, one for each part."""
    messages = []
    for owner, words in n_words.items():
        n_rows, _ = Okvs(N_CANDIDATES * terms.room(owner), words).shape
        messages.append(Sent(owner, terms.leader, terms.n_parts * n_rows * words * WORD_BYTES))
    shares.traffic.step(messages)


def _both_dealt(shares: ShareTraffic, terms: SecretTerms, sizes: Mapping[int, int]) -> None:
    """The leader deals what it has read of each owner, and the owner what hides it."""
    messages = []
    for owner, size in sizes.items():
        messages += [*shares.dealt(terms.leader, size), *shares.dealt(owner, size)]
    shares.traffic.step(messages)
