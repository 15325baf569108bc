"""The reference of configuration files, from their models."""

from models import fields_of, models_in, section_of
from pydantic import BaseModel

from analyst import connection
from coordinator import config as coordinator
from device import config as device
from party import config as party

FILES: tuple[tuple[str, str, type[BaseModel]], ...] = (
    ("party.toml", party.ENVIRONMENT_PREFIX, party.PartyConfig),
    ("coordinator.toml", coordinator.ENVIRONMENT_PREFIX, coordinator.CoordinatorConfig),
    ("client.toml", connection.ENVIRONMENT_PREFIX, connection.ClientConfig),
    ("device.toml", device.ENVIRONMENT_PREFIX, device.DeviceConfig),
    ("roster.toml", "", device.Roster),
)


def configuration_reference() -> str:
    """Return a page with every field of every configuration file."""
    lines = ["# Configuration files", ""]
    lines += ["Unknown fields are refused. A relative path starts at the folder of its file.", ""]
    shown: set[type[BaseModel]] = set()
    for name, prefix, model in FILES:
        lines += [f"## {name}", ""]
        if prefix:
            lines += [f"The environment overrides a field: `{prefix}__TLS__KEY` is `key` in the section `tls`.", ""]
        lines += fields_of(model)
        for path, inner in models_in(model):
            if inner not in shown:
                shown.add(inner)
                lines += section_of(inner, "###", path)
    return "\n".join(lines)
