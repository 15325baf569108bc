"""Goals of scale: what was to be reached, what was measured, beside whom, the floor, and where the rest goes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.analyses.table import cells
from bench.targets import TARGETS, outcome

Reports = Mapping[str, Any]

GOALS_TEXT = """\
## Goals of scale

Where a row has several targets, they are in the order of its words. `make bench` measures what is kept here,
`python -m bench.report --full` what takes long besides, and `--render` writes this table anew.
"""

PASSES_TEXT = """\
## Where the time of a value goes

A party's processor time for a value of the joint table, {rows:,} x {columns}, three parties: {job:.1f} ns. Passes over
the rows, each alone, by the job's own functions; what is left is messages and handing work over.
"""

PUBLISHED = "as published, not run here"
BESIDE = "three runs on another machine of two cores (`python -m bench.peers.mp_spdz`)"
CORES = 2
"""Of the machine that the floors of whole jobs are about."""


@dataclass(frozen=True)
class Goal:
    """One row.

    Attributes:
        what: in words; where several targets are measured, in their order.
        measurement: whose targets they are (`bench.targets`); empty where the row is stated.
        peer: the strongest one, and its figure.
        floor: the least that it could take, from what is kept or stated.
        growth: how it grows, or where that is shown.
        rest: where the rest goes: decisions, in Markdown.
        stated: goal, measured, met and command, where nothing is kept.
    """

    what: str
    measurement: str = ""
    peer: str | Callable[[Reports], str] = "none known"
    floor: str | Callable[[Reports], str] = "not stated"
    growth: str | Callable[[Reports], str] = "picture below"
    rest: str | Callable[[Reports], str] = ""
    stated: tuple[str, str, str, str] = ("", "", "", "")


def decision(*names: str) -> str:
    """Return links to decisions, by the names of their files."""
    return ", ".join(f"[{name[:3]}](decisions/{name}.md)" for name in names)


def _of(name: str, text: Callable[[Any], str]) -> Callable[[Reports], str]:
    """Return what a report tells, once there is one, and with all that it may have."""

    def cell(reports: Reports) -> str:
        try:
            return text(reports[name]) if name in reports else "not measured yet"
        except KeyError:  # a program to compare with was not there
            return "not compared"

    return cell


def _floor_of_gram(name: str) -> Callable[[Reports], str]:
    text = f"{{:.3g}} s: products, key stream and copies of three parties on {CORES} cores"
    return _of(name, lambda r: text.format(r["parties"] * r["floor_s"] / CORES))


def _floor_of_rows(reports: Reports) -> str:
    floor = _of("floor", lambda r: f"{r['floor_ns_per_cell']['all'] * 3 / CORES:.0f} s, likewise, tables not read")
    return floor(reports)


GOALS = (
    Goal(
        "Gram matrix, 10,000 x 100, 3 parties: seconds; times faster than MPyC",
        "gram_3_parties_10000x100",
        f"MP-SPDZ ATLAS, 1.9 to 2.3 s beside 0.20 to 0.25 of ours, {BESIDE}",
        _floor_of_gram("gram_3_parties_10000x100"),
        rest=decision("056-fewer-messages-and-passes"),
    ),
    Goal(
        "1e6 products, 3 parties: million a second; bytes on the wire; memory",
        "products",
        "MP-SPDZ, replicated field, 0.096 to 0.206 s beside 0.115 to 0.142 of ours, likewise; "
        "others [here](circuits.md#what-it-costs)",
        "8 bytes",
        "[by elements and parties](#which-way-products-are-reduced)",
        decision("056-fewer-messages-and-passes", "007-double-sharings"),
    ),
    Goal(
        "job of 100 x 5: seconds; processor time of a party; of all services",
        "gram_3_parties_100x5",
        "MP-SPDZ, Shamir in C++, 5 ms after 0.5 s of start, likewise",
        _of("gram_3_parties_100x5", lambda r: f"{1e3 * r['floor_s']:.2g} ms a party, of arithmetic"),
        rest=decision("140-what-a-small-job-does-once", "063-one-stream-for-small-arrays"),
    ),
    Goal(
        "processor time of a party for a value, 100,000 x 100, to its floor",
        "floor",
        floor=_of("floor", lambda r: f"1 ({r['floor_ns_per_cell']['all']:.1f} ns)"),
        growth="[by rows](#memory-and-time-over-the-rows)",
        rest=lambda reports: (
            ("[passes](#where-the-time-of-a-value-goes), " if passes(reports) else "")
            + decision("131-wide-tables-and-goals-of-scale")
        ),
    ),
    Goal(
        "PCA of 1e7 x 100 with ids, tables read: memory of the analysis that takes most; seconds",
        "growth_1e7",
        _of("gram_3_parties_10000x100", lambda r: f"MPyC, {r['mpyc']['seconds']:.0f} s for a thousandth of the rows"),
        _floor_of_rows,
        "[by rows](#memory-and-time-over-the-rows)",
        decision("058-rows-without-empty-places", "054-workers-of-a-party"),
    ),
    Goal(
        "Gram matrix, 10,000 x 1,000, 3 parties: seconds",
        "gram_3_parties_10000x1000",
        _of("gram_3_parties_10000x1000", lambda r: f"NumPy, without privacy, {r['numpy_s']:.2g} s"),
        _floor_of_gram("gram_3_parties_10000x1000"),
        rest=decision("131-wide-tables-and-goals-of-scale"),
    ),
    Goal(
        "PCA of 2,110 x 3,703 (the size of CiteSeer), centred, first job of new services: seconds",
        "wide",
        growth=_of(
            "wide",
            lambda r: (
                f"processor time {r['party_processor_s']:.1f} s a party, {r['coordinator_processor_s']:.1f} s the "
                "coordinator"
            ),
        ),
        rest=decision("131-wide-tables-and-goals-of-scale", "140-what-a-small-job-does-once"),
    ),
    Goal(
        "801 x 20,531 (Gene): refused by name with forecast and setting, nothing paid, no row read",
        growth=decision("150-memory-and-time-in-the-plan"),
        stated=("refused", "refused", "yes", "`pytest tests/services/test_wide_jobs.py`"),
    ),
    Goal(
        "matching in the open, 1e7 ids of three owners: processor time of one; memory",
        "matching_1e7",
        f"SecretFlow, two owners: RR22 17 s on 32 cores a side, ECDH 67 s, {PUBLISHED}",
        growth=decision("148-memory-at-the-end-of-a-match"),
        rest=decision("128-large-matches-extend-transfers"),
    ),
    Goal(
        "matching in secret, 1e6 rows of three owners: processor time of one; memory",
        "secret_matching_1e6",
        growth=_of(
            "secret_matching",
            lambda r: (
                f"{r['runs'][-1]['processor_us_per_row'] / r['runs'][0]['processor_us_per_row']:.2f} times a row "
                "from 1e4 to 1e5"
            ),
        ),
        rest="unbalanced sets: " + decision("135-hashes-side-by-side-and-parts-of-secret-matches"),
    ),
    Goal(
        "masked sum, 10,000 members x 1e4: what a member receives; its processor time",
        "ring_messages",
        _of("secagg_50", lambda r: f"Flower, 50 members x 1e5, {r['flower']['in_memory']['seconds']:.0f} s"),
        rest=decision("146-members-of-a-ring-under-a-root"),
    ),
    Goal(
        "the same, one round that ends: memory of the coordinator",
        "secagg_10000",
        floor=_of(
            "secagg_10000", lambda r: f"{r['run']['coordinator_resident_bytes_before'] / 1e9:.2f} GB of connections"
        ),
        rest=decision("146-members-of-a-ring-under-a-root"),
    ),
    Goal(
        "batch of 1e6 devices x 1,000: processor time of all services",
        peer=f"WillowFold, 4 bytes a client at the server, {PUBLISHED}",
        floor="480 s of curves, as all parties verify each device",
        growth="[by devices](protocols/batches.md#cost)",
        rest=decision("059-a-batch-of-a-million", "147-certificates-that-have-passed"),
        stated=(
            "600 s",
            "1,070 s; some 700 s where the devices answer again",
            "**no**",
            "`python -m bench.sums.closed_batch`",
        ),
    ),
    Goal(
        "logistic regression by gradients: flights of messages a step",
        floor="1",
        growth="none: each step has them",
        rest=decision("139-weights-mask-what-is-opened", "028-logistic-regression-by-moments"),
        stated=("1", "2; by moments, the default, 7 in all", "**no**", "`pytest tests/protocols/test_traffic.py`"),
    ),
    Goal(
        "tables in PostgreSQL; in DuckDB files and Delta Lake",
        peer="a bare read by ADBC, .41 of its time when this goal was set",
        growth="[by source](tables.md)",
        rest=decision("136-postgres-by-binary-copy", "105-duckdb-and-delta-lake"),
        stated=(
            "0.8 of a bare read; read in batches",
            "0.80 to 1.18 of it in nine pairs, warm; in batches",
            "yes; yes",
            "`python -m bench.jobs.table_sources --peer adbc`",
        ),
    ),
)
OF_GOALS = frozenset(goal.measurement for goal in GOALS if goal.measurement)

HEAD = ("what", "goal", "ours", "met", "strongest peer", "floor", "growth", "where the rest goes", "command")


def goals(kept: dict[str, Any]) -> str:
    """Return the section about all goals."""
    return GOALS_TEXT + "\n" + cells(HEAD, goal_rows(kept))


def passes(reports: Reports) -> str:
    """Return the section about a value's passes; empty where they were not measured."""
    report = reports.get("floor", {})
    if "passes_ns_per_cell" not in report:
        return ""
    steps, threads = report["passes_ns_per_cell"], dict(report["threads_ns_per_cell"])
    job, system = report["job_ns_per_cell"], threads.pop("system")
    lines = [*steps.items(), ("messages, threads, Python", job - sum(steps.values()))]
    shown = [(name, f"{ns:.2f} ns", f"{ns / job:.0%}") for name, ns in lines]
    by_thread = ", ".join(f"{name} {ns / sum(threads.values()):.0%}" for name, ns in threads.items())
    text = PASSES_TEXT.format(rows=report["rows"], columns=report["columns"], job=job)
    said = f"\nBy threads of the party: {by_thread}; of all that the system {system / sum(threads.values()):.0%}.\n"
    return text + "\n" + cells(("pass", "of a value", "of all"), shown) + said


def goal_rows(kept: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the lines of the table, as `HEAD` names their fields."""
    reports = {name: entry["report"] for name, entry in kept.items() if "report" in entry}

    def text(cell: str | Callable[[Reports], str]) -> str:
        return cell(reports) if callable(cell) else cell

    rows = []
    for goal in GOALS:
        bound, ours, met, command = goal.stated
        if goal.measurement:
            targets = [target for target in TARGETS if target.measurement == goal.measurement]
            found = [outcome(target, kept) for target in targets]
            bound, command = "; ".join(target.bound for target in targets), found[0][2]
            ours, met = ("; ".join(one[at] for one in found) for at in (0, 1))
        rows.append(
            (
                goal.what,
                bound,
                ours,
                met,
                text(goal.peer),
                text(goal.floor),
                text(goal.growth),
                text(goal.rest),
                command,
            )
        )
    return rows
