"""Masked sums with dropout recovery [Bonawitz17, Bell20]: the coordinator learns the survivors' sum and no vector.

Five stages: advertise signed keys, share keys, masked input, signed survivors, unmask. All here is pure: the machines
in `member` and `coordinator` take messages and return messages; `drive` is the five stages over an abstract link, and
`series` many rounds in one session. `simulation` has the links of one process, so `run_locally` is the whole protocol.

Sub-rooms: `vector`, from real vectors to elements of a group and back; `secret`, a member's keys, masks and shares;
`member` and `coordinator`, one state, one file. A message is declared once, in `messages`; `round_arrays` and
`transport.sum_codec` write it.
"""
