"""The reference of configuration files, from their models."""

from models import fields_of, models_in, section_of
from pydantic import BaseModel

from cli.client import ClientConfig
from coordinator.config import CoordinatorConfig
from device.config import DeviceConfig, Roster
from party.config import PartyConfig

FILES: tuple[tuple[str, str, type[BaseModel]], ...] = (
    ("party.toml", "MOIETY_PARTY", PartyConfig),
    ("coordinator.toml", "MOIETY_COORDINATOR", CoordinatorConfig),
    ("client.toml", "MOIETY_CLIENT", ClientConfig),
    ("device.toml", "MOIETY_DEVICE", DeviceConfig),
    ("roster.toml", "", Roster),
)


def configuration_reference() -> str:
    """Return a page with every field of every configuration file."""
    lines = ["# Configuration files", ""]
    lines += ["Unknown fields are refused. A relative path starts at the folder of its file.", ""]
    shown: set[type[BaseModel]] = set()
    for name, prefix, model in FILES:
        lines += [f"## {name}", ""]
        if prefix in {"MOIETY_PARTY", "MOIETY_COORDINATOR", "MOIETY_DEVICE"}:
            lines += [f"The environment overrides a field: `{prefix}__TLS__KEY` is `key` in the section `tls`.", ""]
        lines += fields_of(model)
        for path, inner in models_in(model):
            if inner not in shown:
                shown.add(inner)
                lines += section_of(inner, "###", path)
    return "\n".join(lines)
