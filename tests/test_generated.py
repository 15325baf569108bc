"""The committed code in proto/ is what the locked generator makes of the .proto files."""

import subprocess
import sys
from pathlib import Path

import pytest

PROTO = Path(__file__).parent.parent / "proto"
SOURCES = sorted(path.relative_to(PROTO).as_posix() for path in PROTO.rglob("*.proto"))


@pytest.fixture(scope="module")
def regenerated(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("generated")
    flags = ["-I", str(PROTO), f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *flags, *SOURCES], check=True, cwd=PROTO)
    return out


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("suffix", ["_pb2.py", "_pb2.pyi", "_pb2_grpc.py"])
def test_generated_code_is_current(source, suffix, regenerated):
    name = source.removesuffix(".proto") + suffix
    fresh, committed = regenerated / name, PROTO / name
    assert fresh.exists() == committed.exists()
    if fresh.exists():
        assert committed.read_text() == fresh.read_text(), f"{name} is stale: run `make proto`"


def test_nothing_generated_outlives_its_source():
    stems = {source.removesuffix(".proto") for source in SOURCES}
    orphans = [
        name
        for name in (path.relative_to(PROTO).as_posix() for path in PROTO.rglob("*_pb2*.py*") if path.suffix != ".pyc")
        if name.split("_pb2")[0] not in stems
    ]
    assert orphans == []
