"""What was to be reached, and what was measured: the first table of `docs/benchmarks.md`."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

Report = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """One number.

    Attributes:
        measurement: whose report it comes from.
        what: in words.
        bound: the target in words.
        measured: what was measured, and whether it meets the target.
    """

    measurement: str
    what: str
    bound: str
    measured: Callable[[Report], tuple[str, bool]]


def _most(read: Callable[[Report], float], most: float, text: str) -> Callable[[Report], tuple[str, bool]]:
    return lambda report: (text.format(read(report)), read(report) <= most)


def _least(read: Callable[[Report], float], least: float, text: str) -> Callable[[Report], tuple[str, bool]]:
    return lambda report: (text.format(read(report)), read(report) >= least)


def _faults_of_soak(report: Report) -> float:
    return float(sum(report[fault] for fault in ("lost", "not_paid", "paid_twice", "still_held")))


def _local(rows: int) -> Callable[[Report], float]:
    return lambda report: next(r["ratio_to_float64"] for r in report["local_gram"] if r["rows"] == rows)


def _sharing_ms(step: str) -> Callable[[Report], float]:
    return lambda report: next(row["ms"] for row in report["sharing"] if row["step"] == step)


def _most_resident_mb(report: Report) -> float:
    return max(float(job["peak_resident_mb"]) for job in report["jobs"])


def _number(report: Report, name: str) -> float:
    return float(report.get(name, "nan"))


def _peer(name: str) -> Callable[[Report], float]:
    return lambda report: _number(report, name)


def _flower(report: Report) -> tuple[str, bool]:
    ways = report.get("flower", {})
    if not ways:
        return "not compared", False
    shown = {"services": "over its services", "in_memory": "without network"}
    texts = [f"{ways[way]['times']:.1f} times ({text})" for way, text in shown.items() if way in ways]
    times = ways.get("services", ways.get("in_memory"))["times"]
    return ", ".join(texts), times >= 5


def _slowest_noise_s(report: Report) -> float:
    scales = [row[kind] for row in report["scales"] for kind in ("laplace_s", "gaussian_s")]
    skellam = [report["size"] / row["per_s"] for row in report["parameters"] if row["mu"] in ("1000000", str(2**71))]
    return max(scales + skellam)


def _jobs_per_s(report: Report) -> float:
    return max(report["jobs_per_second_by_threads"].values())


def _growth_of_matching(report: Report) -> float:
    first, *_, last = report["runs"]
    return float(last["processor_us_per_row"] / first["processor_us_per_row"])


def _captured(report: Report) -> tuple[str, bool]:
    row = next(row for row in report["epsilons"] if row["epsilon"] == 1)
    return f"{row['ours_to_central']:+.2%}", abs(row["ours_to_central"]) <= 0.01 or row["ours_to_central"] > 0


def _no_failures(report: Report) -> tuple[str, bool]:
    failures = report["ring"]["failures_at_dropout"]["0.1"]
    return f"{failures} of {report['ring']['draws']}", failures == 0


_GRAM = "job accepted to result, 10000 x 100, {} parties"
_SMALL = "job accepted to result, 100 x 5, 3 parties"
_GRAM_WIDE = "job accepted to result, 10000 x 1000, 3 parties"
_CITESEER = "PCA of 2,110 x 3,703, centred, first job of new services"
_FASTER = "the same, times faster than MPyC beside it"
TARGETS = (
    Target("gram_3_parties_100x5", _SMALL, "0.04 s", _most(lambda r: r["seconds"], 0.04, "{:.3f} s")),
    Target(
        "gram_3_parties_100x5",
        "the same, processor time of a party",
        "20 ms",
        _most(lambda r: 1e3 * r["processor_s"]["party"], 20, "{:.0f} ms"),
    ),
    Target(
        "gram_3_parties_100x5",
        "the same, of all four services",
        "100 ms",
        _most(lambda r: 1e3 * r["processor_s"]["all"], 100, "{:.0f} ms"),
    ),
    Target(
        "floor",
        "processor time of a party for a value, 100,000 x 100, to product, key stream and copies",
        "2.0 times",
        _most(lambda r: r["ratio"], 2, "{:.1f} times"),
    ),
    Target("gram_3_parties_10000x100", _GRAM.format(3), "0.12 s", _most(lambda r: r["seconds"], 0.12, "{:.3f} s")),
    Target("gram_3_parties_10000x100", _FASTER, "50", _least(_peer("times_faster_than_mpyc"), 50, "{:.0f}")),
    Target("gram_5_parties_10000x100", _GRAM.format(5), "0.25 s", _most(lambda r: r["seconds"], 0.25, "{:.3f} s")),
    Target("gram_5_parties_10000x100", _FASTER, "50", _least(_peer("times_faster_than_mpyc"), 50, "{:.0f}")),
    Target("gram_3_parties_10000x1000", _GRAM_WIDE, "1.0 s", _most(lambda r: r["seconds"], 1, "{:.2f} s")),
    Target("wide", _CITESEER, "60 s", _most(lambda r: r["seconds"], 60, "{:.0f} s")),
    Target(
        "kdd",
        "job accepted to result, KDD, 145,586 x 118, 3 parties",
        "5 s",
        _most(lambda r: r["seconds"], 5, "{:.2f} s"),
    ),
    Target(
        "kdd",
        "peak resident memory of a party there",
        "500 MB",
        _most(lambda r: r["peak_resident_bytes"] / 1e6, 500, "{:.0f} MB"),
    ),
    Target(
        "kdd",
        "payload sent there, against the formula of the design",
        "within 3 %",
        _most(lambda r: 100 * abs(r["sent_to_formula"] - 1), 3, "{:.2f} %"),
    ),
    Target(
        "kdd",
        "the same on the wire, TLS and HTTP/2 included",
        "within 3 %",
        _most(lambda r: 100 * abs(_number(r, "wire_to_formula") - 1), 3, "{:.2f} %"),
    ),
    Target(
        "growth",
        "peak resident memory of a party, 1e6 rows with ids, the analysis that takes most",
        "450 MB",
        _most(_most_resident_mb, 450, "{:.0f} MB"),
    ),
    Target("growth_1e7", "the same, 1e7 rows", "450 MB", _most(_most_resident_mb, 450, "{:.0f} MB")),
    Target(
        "growth_1e7",
        "job submitted to result, PCA of 1e7 x 100, 3 parties, tables read",
        "60 s",
        _most(lambda r: next(job["seconds"] for job in r["jobs"] if job["analysis"] == "pca"), 60, "{:.0f} s"),
    ),
    Target("demo", "`make demo`", "40 s", _most(lambda r: r["seconds"], 40, "{:.1f} s")),
    Target(
        "products",
        "element-wise products of 1e6 elements, 3 parties, million per second",
        "12",
        _least(lambda r: r["products_per_s"] / 1e6, 12, "{:.1f}"),
    ),
    Target(
        "products",
        "bytes on the wire per product and party, TLS and HTTP/2 included",
        "8.5",
        _most(lambda r: _number(r, "wire_bytes_per_product"), 8.5, "{:.2f}"),
    ),
    Target(
        "products",
        "peak resident memory of a party there",
        "250 MB",
        _most(lambda r: r["peak_resident_bytes"] / 1e6, 250, "{:.0f} MB"),
    ),
    Target(
        "matching",
        "strict matching of 1e5 ids of 3 parties: processor time, to that of its exponentiations",
        "1.3 times",
        _most(lambda r: r["ratio"], 1.3, "{:.2f} times"),
    ),
    Target(
        "matching",
        "peak resident memory of a party there",
        "300 MB",
        _most(lambda r: r["peak_resident_bytes"] / 1e6, 300, "{:.0f} MB"),
    ),
    Target(
        "matching_1e7",
        "matching of 1e7 ids of 3 parties: processor time of the party that takes most",
        "150 s",
        _most(lambda r: r["processor_s_of_an_owner"], 150, "{:.0f} s"),
    ),
    Target(
        "matching_1e7",
        "peak resident memory of a party there",
        "2000 MB",
        _most(lambda r: r["peak_resident_bytes"] / 1e6, 2000, "{:.0f} MB"),
    ),
    Target(
        "secret_matching",
        "matching in secret of 1e5 rows of 3 parties, 30 columns in all",
        "120 s",
        _most(lambda r: r["runs"][-1]["seconds"], 120, "{:.0f} s"),
    ),
    Target(
        "secret_matching",
        "processor time per row there, to that of 1e4 rows",
        "1.3 times",
        _most(_growth_of_matching, 1.3, "{:.2f} times"),
    ),
    Target(
        "secret_matching",
        "peak resident memory of a party there in secret",
        "2000 MB",
        _most(lambda r: r["runs"][-1]["peak_resident_bytes"] / 1e6, 2000, "{:.0f} MB"),
    ),
    Target(
        "secret_matching_1e6",
        "the same of 1e6 rows: processor time of a party, in the mean",
        "100 s",
        _most(lambda r: r["runs"][-1]["processor_s"] / 3, 100, "{:.0f} s"),
    ),
    Target(
        "secret_matching_1e6",
        "peak resident memory of a party there",
        "2000 MB",
        _most(lambda r: r["runs"][-1]["peak_resident_bytes"] / 1e6, 2000, "{:.0f} MB"),
    ),
    Target(
        "soak",
        "jobs of all kinds while services are killed: lost, without payment, paid twice or held for ever",
        "none",
        _most(_faults_of_soak, 0, "{:.0f}"),
    ),
    Target(
        "soak",
        "the same, memory that a party which is never killed keeps for each job",
        "50 kB",
        _most(lambda r: r["of_never_killed"]["own_kb_per_job"], 50, "{:.1f} kB"),
    ),
    Target(
        "local_gram",
        "local product of packed shares against float64 `X.T @ X`, 10000 x 100",
        "5 times",
        _most(_local(10_000), 5, "{:.1f} times"),
    ),
    Target("local_gram", "the same, 145,586 x 118", "4 times", _most(_local(145_586), 4, "{:.1f} times")),
    Target(
        "sharing",
        "sharing 1e6 elements among 3 parties, t = 1, one thread",
        "25 ms",
        _most(_sharing_ms("deal N=3 t=1"), 25, "{:.1f} ms"),
    ),
    Target(
        "secagg_core",
        "masked sum, 100 members x 1e6, 30 % drop out: processor time of a member",
        "1 s",
        _most(lambda r: r["round"]["member_cpu_s"]["median"], 1, "{:.2f} s"),
    ),
    Target(
        "secagg_core",
        "the same, of the coordinator",
        "10 s",
        _most(lambda r: r["round"]["coordinator_cpu_s"], 10, "{:.1f} s"),
    ),
    Target(
        "secagg_core",
        "the same, upload above the packed vector",
        "2 %",
        _most(lambda r: r["round"]["upload"]["above_packed_percent"], 2, "{:.2f} %"),
    ),
    Target(
        "secagg_core",
        "one mask of 1e6 elements of 32 bits",
        "1 ms",
        _most(lambda r: r["expansion"]["ms"]["median"], 1, "{:.2f} ms"),
    ),
    Target(
        "ring_messages",
        "masked sum, 10,000 members x 1e4: what one member receives",
        "1.5 MB",
        _most(lambda r: r["runs"][-1]["received_bytes"] / 1e6, 1.5, "{:.2f} MB"),
    ),
    Target(
        "ring_messages",
        "the same, its processor time",
        "1 s",
        _most(lambda r: r["runs"][-1]["processor_s"], 1, "{:.2f} s"),
    ),
    Target("secagg_core", "rings of 1000 members that fail when 10 % drop out", "none", _no_failures),
    Target("secagg_10", "masked sum, 10 members x 1e5, whole round, times faster than Flower", "5", _flower),
    Target("secagg_50", "masked sum, 50 members x 1e5, whole round, times faster than Flower", "5", _flower),
    Target(
        "secagg_1000",
        "masked sum, 1000 members x 1e5, 10 % drop out: peak memory of the coordinator",
        "1 GB",
        _most(lambda r: r["run"]["coordinator_peak_resident_bytes"] / 1e9, 1, "{:.2f} GB"),
    ),
    Target(
        "secagg_1000",
        "the same, its processor time",
        "40 s",
        _most(lambda r: r["run"]["coordinator_cpu_s"], 40, "{:.1f} s"),
    ),
    Target(
        "secagg_10000",
        "masked sum, 10,000 members x 1e4, 10 % drop out, ended: peak memory of the coordinator",
        "2 GB",
        _most(lambda r: r["run"]["coordinator_peak_resident_bytes"] / 1e9, 2, "{:.2f} GB"),
    ),
    Target(
        "noise",
        "1e6 samples of discrete Laplace, discrete Gaussian or Skellam noise, the slowest",
        "2 s",
        _most(_slowest_noise_s, 2, "{:.2f} s"),
    ),
    Target(
        "ledger",
        "ledger: jobs reserved and committed per second, on disk",
        "500",
        _least(_jobs_per_s, 500, "{:.0f}"),
    ),
    Target(
        "ledger",
        "accounting of 10,000 events",
        "1 s",
        _most(lambda r: r["accounting"]["seconds"], 1, "{:.2f} s"),
    ),
    Target("utility", "captured variance against central privacy, epsilon 1", "within 1 %", _captured),
)


def outcome(target: Target, kept: dict[str, Any]) -> tuple[str, str, str]:
    """Return what was measured, whether that meets the target, and the command."""
    entry = kept.get(target.measurement, {})
    if "report" not in entry:
        return entry.get("failure", "not measured yet"), "", ""
    measured, is_met = target.measured(entry["report"])
    verdict = "not compared" if "nan" in measured or measured == "not compared" else "yes" if is_met else "**no**"
    return measured.replace("nan", "-"), verdict, f"`{entry['command']}`"


def target_rows(kept: dict[str, Any], without: Collection[str] = ()) -> list[tuple[str, ...]]:
    """Return the lines of the table: what, target, measured, met, command; none of the measurements in `without`."""
    shown = (target for target in TARGETS if target.measurement not in without)
    return [(target.what, target.bound, *outcome(target, kept)) for target in shown]
