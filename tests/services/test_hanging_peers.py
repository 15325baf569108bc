"""A peer that hangs keeps its connections: pings that nobody answers tell that it is gone."""

import asyncio
import os
import signal

import grpc
import pytest
from certificates import authority_in
from child_processes import PROCESSES, child_process
from deadlines import GENEROUS_S
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from hanging_services import serve_health

from service.identity import Role
from transport.calls.channel import open_channel

TOLD_S = 50.0
"""So long the operations guide says it takes."""


@pytest.mark.slow  # it waits for the pings of gRPC
async def test_a_call_to_a_service_that_hangs_ends_about_when_the_guide_says(tmp_path):
    issue_to = authority_in(tmp_path, "local")
    hub, member = issue_to(Role.COORDINATOR, "hub"), issue_to(Role.DEVICE, "ann")
    here, there = PROCESSES.Pipe()
    with child_process(serve_health, tmp_path, "coordinator-hub", there) as service:
        port = await asyncio.to_thread(here.recv)
        async with open_channel(f"127.0.0.1:{port}", hub.identity, member) as channel:
            watching = HealthStub(channel).Watch(HealthCheckRequest(), timeout=GENEROUS_S)
            await watching.read()
            os.kill(service.pid, signal.SIGSTOP)
            async with asyncio.timeout(1.4 * TOLD_S):  # the library alone takes 80 s
                with pytest.raises(grpc.aio.AioRpcError, match="ping timeout"):
                    await watching.read()
