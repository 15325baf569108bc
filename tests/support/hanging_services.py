"""A service in a process of its own that answers nothing but health, for tests that stop it."""

import asyncio

from service.authorization import Permissions
from service.server import Server
from service.tls import load_credentials


def serve_health(folder, name, pipe):
    """Serve as the member whose files these are, and send the port."""

    async def serve():
        credentials = load_credentials(
            authority=folder / "ca.pem", certificate=folder / f"{name}.pem", key=folder / f"{name}.key"
        )
        server = Server(credentials, Permissions("local", {}), [])
        pipe.send(await server.start("127.0.0.1:0"))
        await asyncio.get_running_loop().create_future()

    asyncio.run(serve())
