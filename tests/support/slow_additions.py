"""A coordinator whose additions of some members' masked vectors last until a test lets them end."""

import threading
from dataclasses import replace

from mpc.secagg.coordinator import machine
from mpc.secagg.coordinator.collecting_inputs import CollectingInputs
from mpc.secagg.vector.group import RingGroup

PATIENCE_S = 300.0


class SlowAdditions:
    """Additions of vectors; those of one member begin and then wait for `may_end`.

    Attributes:
        has_begun: set when one of that member has.
        may_end: set it to let them end.
        most_at_once: so many were going on together.
    """

    def __init__(self, monkeypatch, member):
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.most_at_once = 0
        self._n_inside, self._counting = 0, threading.Lock()
        additions, adding = self, threading.local()

        class SlowRing(RingGroup):
            def accumulate(self, total, elements):
                with additions:
                    if adding.member == member:
                        additions.has_begun.set()
                        assert additions.may_end.wait(PATIENCE_S), "the test never let the addition end"
                    super().accumulate(total, elements)

        class SlowInputs(CollectingInputs):
            def __init__(self, config, sharers):
                super().__init__(replace(config, group=SlowRing(config.group.bits)), sharers)

            def receive(self, masked):
                adding.member = masked.member
                super().receive(masked)

        monkeypatch.setattr(machine, "CollectingInputs", SlowInputs)

    def __enter__(self):
        with self._counting:
            self._n_inside += 1
            self.most_at_once = max(self.most_at_once, self._n_inside)

    def __exit__(self, *error):
        with self._counting:
            self._n_inside -= 1
