"""What the demos of devices have in common: a coordinator that knows its devices, their keys and configurations."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from demo.local_deployment import COORDINATOR_NAME, LocalDeployment
from demo.loopback import tls_files, toml
from service.identity import Role

ROSTER = "devices.toml"


def deploy(stack: ExitStack, folder: Path, n_devices: int) -> tuple[LocalDeployment, tuple[str, ...]]:
    """Make the devices' keys, certificates and roster below a folder and start a coordinator that knows them; say so.

    Args:
        stack: ends what was started.
        folder: gets a folder `services`.
        n_devices: how many.

    Returns:
        The deployment, and the devices' names.
    """
    from cli.terminal.output import say

    names = tuple(f"device-{i:02}" for i in range(1, n_devices + 1))
    services = folder / "services"
    services.mkdir()
    identities = _make_identities(services, names)
    roster = "".join("[[members]]\n" + toml({"name": n, "identity": i}) + "\n" for n, i in identities.items())
    (services / ROSTER).write_text(roster)
    say(f"1/3  starting a coordinator and {n_devices} devices, each a process of its own, mutual TLS on loopback")
    deployment = LocalDeployment(
        services,
        {},
        federation="demo",
        environment={"OPENBLAS_NUM_THREADS": "1"},
        members=[(Role.DEVICE, name) for name in names],
        sum_members=identities,
    )
    return stack.enter_context(deployment), names


def write_device(
    deployment: LocalDeployment,
    name: str,
    held: Mapping[str, Any],
    policy: Mapping[str, Mapping[str, Any]],
    record: Mapping[str, Any],
) -> None:
    """Write the configuration of a device with one record, and what that record holds.

    Args:
        deployment: that `deploy` has made.
        name: name of the device.
        held: the JSON object in the record's file.
        policy: sections of its configuration.
        record: declared, without its path.
    """
    folder = deployment.folder
    (folder / f"{name}.json").write_text(json.dumps(held))
    head = {
        "name": name,
        "federation": deployment.federation,
        "data_dir": f"{name}.data",
        "identity_file": f"{name}.identity",
        "roster": ROSTER,
        "log_format": "json",
    }
    coordinator = {"name": COORDINATOR_NAME, "address": deployment.addresses[COORDINATOR_NAME]}
    text = toml(head, {"coordinator": coordinator, "tls": tls_files(name), **policy})
    (folder / f"{name}.toml").write_text(text + "\n[[records]]\n" + toml({**record, "path": f"{name}.json"}))


def _make_identities(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    from device.config import write_identity_key
    from entropy import SystemEntropy

    return {name: write_identity_key(folder / f"{name}.identity", SystemEntropy()).hex() for name in names}
