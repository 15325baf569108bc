"""Turns what is kept of all measurements into `docs/benchmarks.md`."""

from collections.abc import Callable
from typing import Any

from bench.analyses.table import cells
from bench.goals import OF_GOALS, goals, passes
from bench.jobs import table_sources
from bench.targets import target_rows
from mpc.protocol.double_sharing import EXTRA_ROUNDS_S, LINK_NS_PER_BYTE

INTRODUCTION = """\
# Benchmarks

Written by `make bench`; each number can be measured again with the command beside it, and each part alone:
`python -m bench.report --only PART`.

{machines} All processes of a measurement share these cores, so the ratios of what was measured in one run mean more
than the seconds. Where the vector instructions are not noted, the processor had AVX-512, and kernels were older than
[decision 042](decisions/042-kernels-without-conversions.md), which has those of AVX2 and AVX-512 side by side. What
messages, quantised rows and products cost has fallen since, by a seventh to a half of the processor time: decisions
[056](decisions/056-fewer-messages-and-passes.md), [058](decisions/058-rows-without-empty-places.md) and
[063](decisions/063-one-stream-for-small-arrays.md) have it before and after, and where the rest goes.
"""

MACHINE = "{cpu}, {instructions}, {cores} cores, {memory_gib} GiB of memory, {system}, Python {python}, NumPy {numpy}."

SERVICES = """\
## The services, and MPyC beside them

A noisy Gram matrix of secret columns. Ours: a coordinator and N parties as separate processes, mutual TLS on loopback;
the time runs from the acceptance of a PCA job to its result at the analyst, with planning, key agreement, the check
that rows match, noise and opening. With three parties seven flights of messages wait for one another, that of the gate
included ([decision 043](decisions/043-small-jobs.md)).
Parties remember the table that they read last: only the first job reads it. MPyC
with gmpy2 and uvloop: N processes, TCP on loopback without TLS; the time runs from the inputs to the exact product,
without noise. Same integers, same t = (N - 1) // 2, one thread per process, taking turns. NumPy: `X.T @ X` of the same
integers as float64 in one process, one thread. Processor time is that of a whole job, in the mean, of a party and of
all services; a party's floor is its part in the product, one word of a key stream and one copy in and out for each
value of the joint table. Bytes are payload and, in brackets, what left the sockets: TLS, HTTP/2
and the talk with the coordinator included. Bytes and memory are those of the party that sends or keeps most.
"""

PRODUCTS = """\
## Element-wise products

Two secret arrays, multiplied with one degree reduction; as many processes as parties, mutual TLS on loopback. MPyC as
above. Bytes per product and party: payload, and what left the sockets.
"""

REDUCTION = """\
## Which way products are reduced

One party's part in a batch: processor time, and bytes and rounds as the rule of `mpc/protocol/double_sharing.py`
prices them ({link:g} ns a byte, {rounds_ms:g} ms for three more rounds). The rule knows N, t, and the number of
elements and words.
"""

OWNERS = """\
## Many owners of one column each

A PCA job of {owners} owners whose columns {compute} parties without data compute on; {rows} rows, real services.
"""

GROWTH = """\
## Memory and time over the rows

Three parties with Parquet files of random numbers and ids; each row is the first job of new services, so the table is
read, too. Of the party that has most: processor time, and of a value of the joint table; the largest resident set; of
that its own, anonymous memory at its largest, and pages of files (libraries, and what of the table is mapped), which
the system drops when it needs memory; and its own memory after the job.
{compiler} `python -m bench.jobs.growth --ids`.
"""

MASKED_SUMS = """\
## Masked sums

Ours: `moiety coordinator serve`, members in one other process, each with its own certificate and TLS connection; five
stages with signed keys and a signed survivor set; question to answer. Flower 1.41 with its SecAgg+ workflow, the same
vectors and members, every member a neighbour of every other, without TLS. "Services": a SuperLink and one SuperNode per
member; the clock runs around the workflow alone, but Flower starts processes for every message, and that is most of its
time here. "In memory": the same workflow and clients in one process, messages copied instead of sent and nothing
started, which is less than it can take anywhere. Our sum is exact; "off" is the largest error of Flower's.
"""

SINCE_CALLS_WAIT = """\
Processor time and peak memory of the coordinator before and after members waited without polling ([decision
044](decisions/044-members-wait-in-one-call.md)), on one machine with two cores and other work; 10 % drop out when their
vector is due. `python -m bench.sums.secagg --members N --elements D --vanish 0.1 --corrupt 0.05 --stage-s 300
--shared-checks`; with the last option the simulated members, which share two cores, check each signature once for
all of them. Before: the same with `--stage-s 120` (1000 members), or 150 and without shared checks (600), as a stage
with a member that is gone took its whole deadline.

| members x elements | before | after | times | target | without waiting, before | after |
| --- | --- | --- | --- | --- | --- | --- |
| 600 x 1000 | 47.7 s, 534 MB | 3.7 s, 350 MB | 12.9 | | | 36.7 s |
| 1000 x 1000 | 72.9 s, 754 MB | 6.2 s, 447 MB | 11.7 | 15 s | 61.5 s | 63.5 s |
| 1000 x 100000 | 287.0 s, 783 MB (above, another machine) | 10.4 s, 490 MB | | 40 s | 210.9 s | 91.8 s |
| 2000 x 1000 | not measured | 19.7 s, 634 MB | | | | 370.7 s |

The time without waiting is that of the simulated members: 44 of 50 processor seconds at 1000 x 1000, 59 of 69 at
1000 x 100000, 161 of 181 at 2000 x 1000, on two cores that others used at the same time (`--grace-s 30` at 2000).
"""
"""Measured once, when it changed: what was before cannot be measured again with this code."""

UTILITY = """\
## Utility

{setting} Ours is the released distribution without the shares: the quantised rows, their exact product, the sum of the
parties' noise. Calibrated to the view of the coordinator, adjacency add_or_remove_one, as central privacy (Analyze
Gauss) is; it can come out ahead because it needs half the noise off the diagonal. The local-noise baseline holds for
replace_one. Without privacy the components capture {exact:.4f}.
"""

KERNELS = """\
## One party's arithmetic, one thread

The local product of packed shares beside float64 `X.T @ X` of the same shape, beside `dsyrk`, which computes one
triangle as ours does, and beside compiled `galois` arrays, one per prime, of the first rows where all take minutes.
"""

SHARING = """\
What sharing and opening take for {elements:,} elements of {primes} primes; `a + b` of as many float64 numbers for
comparison, and the same steps with compiled `galois` arrays, one per prime.
"""

NOISE = """\
## Noise

Exact samples from a cryptographic stream, one thread, {size:,} values.
"""

LEDGER = """\
## The privacy ledger

A job is one reservation and one commit, both on disk when they return; one wait for this disk takes
{wait_for_disk_ms:.2f} ms.
"""

Reports = dict[str, Any]


def as_markdown(kept: Reports, machine: dict[str, Any]) -> str:
    """Return the page; `kept` as `bench.report.kept_results` returns it. What is not there is left out or said."""
    reports = {name: entry["report"] for name, entry in kept.items() if "report" in entry}
    parts = [
        INTRODUCTION.format(machines=_machines(kept, machine)),
        _remarks(kept),
        goals(kept),
        "## Targets\n",
        cells(("what", "target", "measured", "met", "command"), target_rows(kept, without=OF_GOALS)),
    ]
    parts += [text for section in SECTIONS if (text := section(reports))]
    return "\n".join(part for part in parts if part)


def _machines(kept: Reports, here: dict[str, Any]) -> str:
    """Say what was measured on what; `here` only where nothing has been measured."""
    by_machine: dict[str, list[str]] = {}
    for name, entry in kept.items():
        measured_on = entry.get("report", {}).get("machine") or entry.get("machine")
        by_machine.setdefault(_machine(measured_on) if measured_on else "Unknown machine.", []).append(name)
    if len(by_machine) <= 1:
        return next(iter(by_machine), _machine(here))
    lines = [f"* {', '.join(names)}: {text}" for text, names in by_machine.items()]
    return "Not everything was measured on one machine:\n\n" + "\n".join(lines) + "\n\n"


def _machine(described: dict[str, Any]) -> str:
    return MACHINE.format(**{"instructions": "vector instructions not noted", **described})


def _remarks(kept: Reports) -> str:
    """Say what failed, what could not be compared, and what is of which day."""
    dates = sorted({entry["date"] for entry in kept.values()})
    lines = []
    if dates:
        lines.append(f"Measured on {dates[0]}" + (f" to {dates[-1]}" if len(dates) > 1 else "") + ".")
    for name, entry in kept.items():
        if "failure" in entry:
            of = f"; its numbers are of {entry['date']}" if "report" in entry else ""
            lines.append(f"**{name} failed on {entry.get('failed_on', entry['date'])}**: {entry['failure']}{of}.")
        if entry.get("note"):
            lines.append(f"{name}: {entry['note']}")
    return "\n\n".join(lines) + "\n" if lines else ""


def _services(reports: Reports) -> str:
    ours = ("ours", "first job", "a party's processor", "its floor", "all processors", "sent", "memory")
    head = ("N", "rows x columns", "NumPy", *ours, "MPyC", "sent", "memory", "ratio")
    lines = []
    for name, report in reports.items():
        if not name.startswith("gram_") and name != "kdd":
            continue
        peer = report.get("mpyc")
        theirs = ("", "", "", "") if peer is None else (*_costs(peer), f"{report['times_faster_than_mpyc']:.1f}")
        size = f"{report['rows']} x {report['columns']}" + (" (KDD)" if name == "kdd" else "")
        seconds, sent, resident = _costs(report)
        alone = f"{1e3 * report['numpy_s']:.3g} ms" if "numpy_s" in report else ""
        first = f"{report['first_job_s']:.2f} s"
        lines.append(
            (str(report["parties"]), size, alone, seconds, first, *_processor(report), sent, resident, *theirs)
        )
    picture = "\n![Seconds over rows and over columns: ours, MPyC, NumPy](images/benchmarks.png)\n"
    picture += "\n![Processor seconds over rows, columns, parties and members](images/growth.png)\n"
    return SERVICES + "\n" + cells(head, lines) + picture if lines else ""


def _processor(report: dict[str, Any]) -> tuple[str, str, str]:
    """Return the processor time of a party, the least that it could be, and that of all services."""
    if "floor_s" not in report:
        return "", "", ""
    used = report["processor_s"]
    return f"{1e3 * used['party']:.0f} ms", f"{1e3 * report['floor_s']:.3g} ms", f"{1e3 * used['all']:.0f} ms"


def _costs(report: dict[str, Any]) -> tuple[str, str, str]:
    sent, resident = report["sent_bytes"] / 1e6, report["peak_resident_bytes"] / 1e6
    wire = f" ({report['wire_bytes'] / 1e6:.2f})" if "wire_bytes" in report else ""
    return f"{report['seconds']:.2f} s", f"{sent:.2f}{wire} MB", f"{resident:.0f} MB"


def _products(reports: Reports) -> str:
    if "products" not in reports:
        return ""
    report = reports["products"]
    lines = []
    for who, run in (("ours", report), ("MPyC", report.get("mpyc"))):
        if run is not None:
            rate, memory = run["products_per_s"] / 1e6, run["peak_resident_bytes"] / 1e6
            wire = f"{run['wire_bytes_per_product']:.2f}" if "wire_bytes_per_product" in run else ""
            lines.append((who, f"{rate:.2f}", f"{run['sent_bytes_per_product']:.2f}", wire, f"{memory:.0f} MB"))
    first = f"{report['elements']:,} elements, {report['parties']} parties"
    return PRODUCTS + "\n" + cells((first, "million per s", "bytes each", "on the wire", "memory"), lines)


def _reduction(reports: Reports) -> str:
    if "reduction" not in reports:
        return ""
    words = {"resharing": "resharing", "double_sharings": "double sharings"}
    lines, wrong = [], []
    for row in reports["reduction"]["products"]:
        costs = [
            f"{row[way]['sent_bytes_per_product']:.1f}, {row[way]['cpu_ns_per_product']:.0f} ns, "
            f"{row[way]['batch_ms']:.2f} ms"
            for way in words
        ]
        lines.append((str(row["parties"]), f"{row['elements']:,}", *costs, words[row["faster"]], words[row["chosen"]]))
        if row["faster"] != row["chosen"]:
            slower, faster = (row[row[which]]["batch_ms"] for which in ("chosen", "faster"))
            size = f"N = {row['parties']}, {row['elements']:,} elements"
            wrong.append(f"* {size}: it chooses {words[row['chosen']]}, {slower / faster:.2f} times the other's time")
    head = ("N", "elements", *(f"{text}: bytes, ns each, batch" for text in words.values()), "faster", "the rule")
    text = REDUCTION.format(link=LINK_NS_PER_BYTE, rounds_ms=1e3 * EXTRA_ROUNDS_S) + "\n" + cells(head, lines)
    if wrong:
        text += "\n**The rule and this measurement disagree:**\n\n" + "\n".join(wrong) + "\n"
    return text


def _owners(reports: Reports) -> str:
    if "owners" not in reports:
        return ""
    report = reports["owners"]
    sent = {who: f"{report[f'{who}_sent_bytes'] / 1e6:.2f} MB" for who in ("owner", "compute")}
    memory = {who: f"{report[f'{who}_peak_resident_bytes'] / 1e6:.0f} MB" for who in ("compute", "coordinator")}
    head = ("job", "first job", "sent by an owner", "by a compute party", "memory of one", "of the coordinator")
    times = (f"{report['seconds']:.2f} s", f"{report['first_job_s']:.2f} s")
    row = (*times, sent["owner"], sent["compute"], memory["compute"], memory["coordinator"])
    return OWNERS.format(**report) + "\n" + cells(head, [row])


def _growth(reports: Reports) -> str:
    jobs = [job for name in ("growth", "growth_1e7") if name in reports for job in reports[name]["jobs"]]
    if not jobs:
        return ""
    have = any(job["compiler"] for job in jobs)
    beforehand = "Kernels were compiled beforehand, as in images (`LD_LIBRARY_PATH`, `deploy/image/compile-kernels`):"
    compiler = "Services compiled kernels by numba:" if have else beforehand
    head = ("analysis", "columns", "rows", "processor time", "of a value", "resident", "own", "files", "own after it")
    lines = []
    for job in sorted(jobs, key=lambda job: [one["analysis"] for one in jobs].index(job["analysis"])):
        times = (f"{job['processor_s']:.2f} s", f"{job['ns_per_cell']:.0f} ns")
        memory = [f"{job[f'{kind}_mb']:.0f} MB" for kind in ("peak_resident", "own", "file", "kept")]
        lines.append((job["analysis"], str(job["columns"]), f"{job['rows']:,}", *times, *memory))
    return GROWTH.format(compiler=compiler) + "\n" + cells(head, lines)


def _masked_sums(reports: Reports) -> str:
    head = ("members x elements", "drop out", "ours", "without waiting", "coordinator", "sent by a member")
    lines = []
    for name, report in reports.items():
        if not name.startswith("secagg_") or name == "secagg_core":
            continue
        run = report["run"]
        memory = f"{run['coordinator_cpu_s']:.1f} s, {run['coordinator_peak_resident_bytes'] / 1e6:.0f} MB"
        flower = [
            f"{way['seconds']:.1f} s, {way['times']:.1f} times, off {way['largest_error']:.1g}" if way else ""
            for way in (report.get("flower", {}).get(which) for which in ("services", "in_memory"))
        ]
        size = f"{run['members']} x {run['elements']}"
        times = (f"{run['seconds']:.2f} s", f"{run['working_s']:.2f} s")
        lines.append(
            (size, str(run["vanished"]), *times, memory, f"{run['sent_bytes_by_a_member'] / 1e6:.2f} MB", *flower)
        )
    table = cells((*head, "Flower, services", "Flower, in memory"), lines) if lines else ""
    core = ""
    if "secagg_core" in reports:
        failures = reports["secagg_core"]["ring"]["failures_at_dropout"]
        ring = reports["secagg_core"]["ring"]
        shares = f"{ring['degree']} neighbours each, {ring['required_shares']} shares required"
        core = (
            f"\nRings of {ring['members']} members, {shares}: failures in {ring['draws']} draws, by the fraction that "
            "drops_out: " + ", ".join(f"{float(rate):.0%}: {n}" for rate, n in failures.items()) + ".\n"
        )
    return MASKED_SUMS + "\n" + table + core + "\n" + SINCE_CALLS_WAIT if table or core else ""


def _local_gram(reports: Reports) -> str:
    if "local_gram" not in reports:
        return ""
    lines = []
    for row in reports["local_gram"]["local_gram"]:
        times = [f"{row[name]:.1f} ms" for name in ("gram_ms", "float64_ms", "float64_dsyrk_ms")]
        galois = "" if row["galois_ms"] is None else f"{row['galois_ms']:.0f} ms"
        if galois and row.get("galois_rows", row["rows"]) < row["rows"]:
            galois += f" of {row['galois_rows']} rows"
        ratios = [f"{row[name]:.1f}" for name in ("ratio_to_float64", "ratio_to_dsyrk")]
        lines.append([f"{row['rows']} x {row['columns']}", str(row["primes"]), *times, galois, *ratios])
    head = ("rows x columns", "primes", "shares", "float64", "float64 dsyrk", "galois", "to float64", "to dsyrk")
    return KERNELS + "\n" + cells(head, lines)


def _sharing(reports: Reports) -> str:
    if "sharing" not in reports:
        return ""
    rows = reports["sharing"]["sharing"]
    lines = [(row["step"], f"{row['ms']:.2f} ms", f"{row['ratio_to_float64_add']:.1f}") for row in rows]
    return SHARING.format(**rows[0]) + "\n" + cells(("step", "time", "to float64 sum"), lines)


def _noise(reports: Reports) -> str:
    if "noise" not in reports:
        return ""
    report = reports["noise"]
    scales = [
        (f"{row['scale']:g}", f"{row['laplace_s']:.2f} s", f"{row['gaussian_s']:.2f} s") for row in report["scales"]
    ]
    skellam = []
    for row in report["parameters"]:
        theirs = "" if row["numpy_per_s"] is None else f"{report['size'] / row['numpy_per_s']:.2f} s"
        skellam.append((f"{float(row['mu']):.3g}", f"{report['size'] / row['per_s']:.2f} s", theirs))
    first = cells(("scale, or standard deviation", "discrete Laplace", "discrete Gaussian"), scales)
    second = cells(("Skellam mu", "ours", "NumPy's difference of Poisson numbers"), skellam)
    return NOISE.format(**report) + "\n" + first + "\n" + second


def _ledger(reports: Reports) -> str:
    if "ledger" not in reports:
        return ""
    rates = reports["ledger"]["jobs_per_second_by_threads"]
    lines = [(threads, f"{rate:.0f}") for threads, rate in rates.items()]
    return LEDGER.format(**reports["ledger"]) + "\n" + cells(("threads", "jobs per second"), lines)


def _utility(reports: Reports) -> str:
    if "utility" not in reports:
        return ""
    report = reports["utility"]
    setting = (
        f"Variance of the KDD table captured by {report['components']} components, mean of {report['runs']} runs; "
        f"gamma {report['gamma']}, row norm {report['row_norm']:g}, delta {report['delta']:g}."
    )
    lines = []
    for row in report["epsilons"]:
        captured = [f"{row[name]:.4f}" for name in ("ours", "central", "local_noise")]
        lines.append([f"{row['epsilon']:g}", *captured, f"{row['ours_to_central']:+.3%}"])
    table = cells(("epsilon", "ours", "central", "local noise", "ours to central"), lines)
    return UTILITY.format(setting=setting, exact=report["exact"]) + "\n" + table


SECTIONS: tuple[Callable[[Reports], str], ...] = (
    _services,
    _products,
    _reduction,
    _owners,
    _growth,
    passes,
    table_sources.section,
    _masked_sums,
    _local_gram,
    _sharing,
    _noise,
    _ledger,
    _utility,
)
