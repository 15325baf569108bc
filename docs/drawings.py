"""Write the drawings of the documentation that follow from the code: `python docs/drawings.py [--check]`."""

import re
import sys
from pathlib import Path

from coordinator.state import NEXT

ARCHITECTURE = Path(__file__).parent / "architecture.md"


def life_of_a_job() -> str:
    """Return the states of a job and the steps between them as a Mermaid diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> SUBMITTED"]
    for state, following in NEXT.items():
        lines += [f"    {state} --> {after}" for after in sorted(following, key=list(NEXT).index)]
        lines += [f"    {state} --> [*]"] if not following else []
    return "\n".join([*lines, "```"])


def with_drawings(text: str) -> str:
    """Return the page with its drawings made anew."""
    pattern = r"(<!-- begin: life of a job [^\n]*-->\n).*?(<!-- end: life of a job -->)"
    return re.sub(pattern, lambda found: f"{found[1]}{life_of_a_job()}\n{found[2]}", text, flags=re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is up to date."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    drawn = with_drawings(text)
    if "--check" in arguments:
        return int(drawn != text)
    ARCHITECTURE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
