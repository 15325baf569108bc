from demo.analyses import moments as demo_moments
from demo.analyses import pattern_count as demo_pattern_count

PRIVACY = {
    "unit": "record of the joint table",
    "delta": 1e-6,
    "colluding": 1,
    "views": {"coordinator": {"epsilon": 0.51604}, "coalition": {"epsilon": 0.93}},
}


def test_pattern_counts_are_told_beside_the_exact_ones_and_epsilon_is_rounded_up():
    outcome = demo_pattern_count.PatternCountOutcome(
        job_id="j",
        n_rows=1500,
        method="mpc",
        patterns=[("tcp", "logged in", "attack"), ("udp", "logged in", "normal")],
        counts=[1234.0, -3.0],
        standard_errors=[8.5, 8.5],
        exact=[1230, 0],
        error={"moiety": 3.5, "central": 1.0, "randomized_response": 4321.0},
        privacy=PRIVACY,
        seconds=1.0,
        bytes_sent={"carrier": 3_500_000},
    )
    lines = demo_pattern_count.text_of(outcome).splitlines()
    assert next(line for line in lines if "attack" in line).split() == [
        *("tcp,", "logged", "in,", "attack", "1,234", "+-", "8.5", "1,230")
    ]
    assert any("epsilon 0.517   against the coordinator alone" in line for line in lines)
    assert any("randomized response        4,321.0" in line for line in lines)
    assert any("sent: carrier 3.5 MB" in line for line in lines)


def test_a_moment_is_told_with_its_relative_error_and_what_was_clipped():
    outcome = demo_moments.MomentsOutcome(
        job_id="j",
        n_rows=1500,
        method="mpc",
        columns=["carrier.a", "host.b"],
        order=2,
        moment={"exact": 2000.0, "central": 1990.0, "moiety": 2050.0},
        standard_error=40.0,
        clipped_values={"carrier": 0, "host": 17},
        privacy=PRIVACY,
        seconds=1.0,
        bytes_sent={"carrier": 3_500_000},
    )
    text = demo_moments.text_of(outcome)
    assert "Moment of order 2 of carrier.a + host.b over 1,500 rows" in text
    assert "+2.500% nobody holds everything; +- 40" in text
    assert "-0.500% likewise; epsilon 0.517" in text
    assert "carrier 0, host 17" in text
