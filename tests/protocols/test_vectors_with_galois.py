"""What `tests/vectors/verify_with_galois.py` says of the vectors; it shares no code with ours."""

import copy
import importlib.util
import json
import re
from pathlib import Path

import pytest

VECTORS = Path(__file__).parents[1] / "vectors"
SCRIPT = VECTORS / "verify_with_galois.py"

spec = importlib.util.spec_from_file_location("verify_with_galois", SCRIPT)
assert spec is not None
assert spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


def vectors_of(name):
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", script.CHECKS)
def test_every_vector_holds_and_an_altered_one_does_not(name):
    vectors = vectors_of(name)
    found = script.verified(name, vectors)
    altogether = [
        v["name"] for v in vectors if not v["name"].startswith("bad_") and not v["name"].startswith("random_")
    ]
    assert found == altogether
    altered = copy.deepcopy(next(vector for vector in vectors if vector["name"] == found[-1]))
    words = {"field": "words", "product": "product", "sharing": "secret"}.get(name)
    if words is None:
        shares = altered["shares" if name == "opening" else "reduced_shares"]
        right = next(party for party in shares if int(party) not in altered.get("wrong", ()))
        altered_words = shares[right]
    else:
        altered_words = altered[words]
    altered_words[0][0] = f"{int(altered_words[0][0], 16) ^ 1:016x}"
    with pytest.raises(ValueError, match=f"{name}.json: {altered['name']} does not hold"):
        script.verified(name, [altered])


def test_the_script_imports_nothing_of_ours():
    imported = re.findall(r"^(?:import|from) ([a-z]+)", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(imported) == ["galois", "json", "numpy", "pathlib", "sys"]
