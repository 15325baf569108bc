"""The table of metrics in the operations guide names every metric of the services with its labels, and no other."""

import ast
import re
from pathlib import Path

from syntax import nodes

REPOSITORY = Path(__file__).parent.parent
KINDS = {"Counter": "_total", "Histogram": "", "Gauge": "", "GaugeMetricFamily": ""}
"""What makes a metric, and what Prometheus adds to its name."""


def is_metric(node: ast.AST) -> bool:
    """Whether a node makes a metric; the counter of the standard library is none."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS and node.args):
        return False
    name = node.args[0]
    return isinstance(name, ast.Constant) and str(name.value).startswith("moiety_")


def in_code() -> dict[str, list[str]]:
    """Return the metrics that the services make, with their labels."""
    found = {}
    for room in ("service", "page", "party", "coordinator", "device", "transport"):
        for path in (REPOSITORY / room).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            for call in nodes(ast.parse(source)) if "moiety_" in source else ():
                if is_metric(call):
                    name, _, *rest = call.args
                    labels = [*rest, *(k.value for k in call.keywords if k.arg == "labels")]
                    full = ast.literal_eval(name) + KINDS[call.func.id]
                    found[full] = [str(label) for label in ast.literal_eval(labels[0])] if labels else []
    return found


def in_guide() -> dict[str, list[str]]:
    text = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (moiety_\w+) \| ([^|]*) \|", text, re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", labels) for name, labels in rows}


def test_the_guide_has_every_metric_with_its_labels_and_no_other():
    assert in_guide() == in_code()
    assert len(in_code()) > 9
