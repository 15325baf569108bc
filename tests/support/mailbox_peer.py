"""A party in a process of its own, to be killed: `mailbox_peer.py FOLDER HALF|SERVE PEER_ADDRESS PEER_IDENTITY`.

HALF sends the first half of an array of stage `deal` and says `half`. SERVE opens the job's mailbox, never receives
from it, and says its port.
"""

import asyncio
import sys
from pathlib import Path

import numpy as np
from mailbox_federation import FEDERATION, JOB

from service.authorization import Permissions
from service.identity import Identity, Role
from service.server import Server
from service.tls import Credentials, load_credentials
from transport.calls.channel import open_channel
from transport.messages.frames import DELIVER, array_frames, envelope_frame
from transport.messages.mailbox import Mailboxes, MailboxService
from transport.messages.outlet import delivery

WORDS = 1 << 18  # two chunks


async def send_half(credentials: Credentials, address: str, peer: Identity) -> None:
    call = delivery(open_channel(address, peer, credentials))()
    await call.write(envelope_frame(JOB, "deal"))
    for frame in list(array_frames(np.zeros(WORDS, dtype=np.uint64), 0))[:2]:
        await call.write(frame)
    print("half", flush=True)
    await asyncio.sleep(60)


async def serve(credentials: Credentials, peer: Identity) -> None:
    mailboxes = Mailboxes()
    mailboxes.open(JOB, {peer: 1})
    permissions = Permissions(FEDERATION, {DELIVER: frozenset({Role.PARTY})})
    server = Server(credentials, permissions, [MailboxService(mailboxes).add_to])
    port = await server.start("127.0.0.1:0")
    asyncio.get_running_loop().call_soon(lambda: print(port, flush=True))  # once signals are listened for
    await server.serve_until_signal(grace_s=1.0)


def main(folder: str, mode: str, address: str, peer: str) -> None:
    files = Path(folder)
    credentials = load_credentials(authority=files / "ca.pem", certificate=files / "own.pem", key=files / "own.key")
    identity = Identity.from_uri(peer)
    asyncio.run(send_half(credentials, address, identity) if mode == "HALF" else serve(credentials, identity))


if __name__ == "__main__":
    main(*sys.argv[1:])
