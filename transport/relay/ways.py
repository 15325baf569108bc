"""The ways that a relay forwards: how many an identity may have, and the bytes between each two members.

Limits (decision 084): of each identity `WAYS_EACH` ways that it asked for, `WAYS_PAIR` of them to one endpoint; in all
`MOST_WAYS`, each of which holds `SPLICE_BYTES` of memory at most.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography import x509

from service.identity import Identity
from service.reach.relays import Endpoint, RelayRefusesError
from transport.relay.splice import Splice

WAYS_EACH = 64
WAYS_PAIR = 16
MOST_WAYS = 512


@dataclass(eq=False)
class OpenWay:
    """A way in use.

    Attributes:
        caller, target: its ends.
        splice: its two connections.
        shown: certificates of both.
    """

    caller: Identity
    target: Endpoint
    splice: Splice
    shown: tuple[x509.Certificate, x509.Certificate] = field(repr=False)


class Ways:
    """The ways of one relay, those that are being opened included.

    Attributes:
        present: ways in use.
    """

    def __init__(self) -> None:
        self.present: set[OpenWay] = set()
        self._n_bytes: Counter[tuple[Identity, Identity]] = Counter()
        self._n_asked: Counter[Identity] = Counter()
        self._n_pair: Counter[tuple[Identity, Endpoint]] = Counter()

    def count(self, caller: Identity, target: Endpoint) -> None:
        """Count a way that is asked for; `count_off` or the end of the way ends that.

        Raises:
            RelayRefusesError: there are too many.
        """
        each, pair = self._n_asked[caller], self._n_pair[caller, target]
        if each >= WAYS_EACH or pair >= WAYS_PAIR or self._n_asked.total() >= MOST_WAYS:
            raise RelayRefusesError("too many ways are open")
        self._n_asked[caller] += 1
        self._n_pair[caller, target] += 1

    def count_off(self, caller: Identity, target: Endpoint) -> None:
        """Count a way no more."""
        self._n_asked[caller] -= 1
        self._n_pair[caller, target] -= 1
        self._n_asked, self._n_pair = +self._n_asked, +self._n_pair  # without those that have none

    def begin(self, way: OpenWay) -> None:
        """Keep a way that was counted until it ends."""
        self.present.add(way)
        way.splice.ended.add_done_callback(lambda _: self._forget(way))

    def _forget(self, way: OpenWay) -> None:
        self.present.discard(way)
        self._n_bytes[way.caller, way.target.identity] += way.splice.n_bytes
        self.count_off(way.caller, way.target)

    def traffic(self) -> dict[tuple[Identity, Identity], int]:
        """Return caller and called to the bytes forwarded between them so far."""
        found = Counter(self._n_bytes)
        for way in self.present:
            found[way.caller, way.target.identity] += way.splice.n_bytes
        return dict(found)

    def end(self, is_accepted: Callable[[x509.Certificate], bool] = lambda shown: False) -> None:
        """End the ways of members whose certificates are not accepted; by default all."""
        for way in list(self.present):
            if not all(map(is_accepted, way.shown)):
                way.splice.abort()
