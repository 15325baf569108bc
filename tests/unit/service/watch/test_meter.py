import pytest
from prometheus_client import generate_latest

from service.watch import meter as meters
from service.watch.meter import MIN_BYTES, Meter, rounded_up
from service.watch.reasons import KINDS, OTHER, kind_of


def lines_of(meter: Meter) -> list[str]:
    return [line for line in generate_latest(meter.registry).decode().splitlines() if not line.startswith("#")]


def value(meter: Meter, name: str, **labels: str) -> float | None:
    return meter.registry.get_sample_value(name, labels)


def test_jobs_are_counted_by_state_and_kind_of_reason_and_no_text_of_others_is_a_label():
    meter = Meter()
    meter.job_ended("job-1", "DONE", "")
    meter.job_ended("job-2", "FAILED", "party bank gave no sign of life for 60 s")
    meter.job_ended("job-3", "FAILED", "party bank: 4711 secret rows")
    assert value(meter, "moiety_jobs_total", state="DONE", reason="") == 1
    assert value(meter, "moiety_jobs_total", state="FAILED", reason="silence") == 1
    assert value(meter, "moiety_jobs_total", state="FAILED", reason=OTHER) == 1
    assert "4711" not in "".join(lines_of(meter))


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("cancelled by ada", "cancelled"),
        ("the coordinator restarted while the job was RUNNING", "restart"),
        ("party bank refused: by its policy: analyses", "policy"),
        ("party bank refused: the privacy budget of table 'people' does not cover this job", "budget"),
        ("party bank refused: the owner did not approve the job within 60 s", "owner"),
        ("party bank: cannot check the health at bank (127.0.0.1:1): nothing listens at its address", "unreachable"),
        ("internal error of the coordinator; its log has the details", "internal"),
        ("party telco: cannot propose the job at telco: the certificate of telco is revoked", "certificate"),
        ("the job ran longer than this coordinator allows (600 s, max_job_s)", "overtime"),
        ("something else", OTHER),
    ],
)
def test_reasons_have_kinds(reason, kind):
    assert kind_of(reason) == kind
    assert kind in KINDS


def test_a_stage_lasts_until_the_next_one_of_the_same_member_or_the_end_of_the_job(monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr(meters.time, "monotonic", lambda: now_s[0])
    meter = Meter()
    for at_s, stage in ((0, "reading"), (1, "reading"), (4, "multiply")):
        now_s[0] = 100.0 + at_s
        meter.stage("job-1", "bank", stage)
        meter.stage("job-2", "bank", "reading")
    now_s[0] = 110.0
    meter.stages_ended("job-1")
    assert value(meter, "moiety_stage_seconds_sum", stage="reading") == 4.0
    assert value(meter, "moiety_stage_seconds_sum", stage="multiply") == 6.0
    assert value(meter, "moiety_stage_seconds_count", stage="reading") == 1
    assert list(meter._stages) == [("job-2", "bank")]


def test_bytes_of_a_job_are_rounded_up_to_a_power_of_two():
    meter = Meter()
    meter.traffic("sent", {"bank": 1, "telco": 1_000_000, "shop": 0})
    assert value(meter, "moiety_peer_bytes_total", peer="bank", direction="sent") == MIN_BYTES
    assert value(meter, "moiety_peer_bytes_total", peer="telco", direction="sent") == 1 << 20
    assert value(meter, "moiety_peer_bytes_total", peer="shop", direction="sent") is None
    assert [rounded_up(n) for n in (1 << 16, (1 << 16) + 1, 1 << 17)] == [1 << 16, 1 << 17, 1 << 17]


def test_labels_that_others_choose_are_bounded():
    meter = Meter()
    for number in range(2 * meters.MAX_LABELS):
        meter.stage("job", "liar", f"stage-{number}")
        meter.retried(f"peer-{number}")
    assert value(meter, "moiety_retries_total", peer="other") == meters.MAX_LABELS
    assert (
        len([line for line in lines_of(meter) if line.startswith("moiety_stage_seconds_sum")]) == meters.MAX_LABELS + 1
    )


def test_operations_of_the_ledger_are_timed_also_when_they_fail():
    meter = Meter()
    assert meter.timed("reserve", max)(3, 4) == 4
    with pytest.raises(ZeroDivisionError):
        meter.timed("reserve", lambda: 1 / 0)()
    assert value(meter, "moiety_ledger_seconds_count", operation="reserve") == 2
