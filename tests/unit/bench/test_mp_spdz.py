"""The comparison with MP-SPDZ, as far as it can be tested without its programs: programs, inputs, output, refusals."""

import ast
import re

import numpy as np
import pytest

from bench.peers.environment import UNAVAILABLE, PeerRunError, PeerUnavailableError
from bench.peers.mp_spdz import (
    GRAM,
    LESS,
    N_PARTIES,
    PRIME,
    PRODUCTS,
    PROTOCOLS,
    Built,
    WrongResultError,
    compared_inputs,
    gram_inputs,
    main,
    product_inputs,
    read_output,
)

OUTPUT = """\
Using statistical security parameter 40
CORNERS 12 {last}
CPU time = 0.75
Time = 1.98271 seconds
Time1 = 1.38 seconds (2.88 MB, 12 rounds)
Time2 = 1.9e+00 seconds (5.2 MB, 14 rounds)
Data sent = 5.28 MB in ~14 rounds (party 0 only; use '-v' for more details)
Global data sent = 15.8 MB (all parties)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with the files that a built checkout has. Nothing in it runs."""
    for name in ("compile.py", *PROTOCOLS.values(), *(f"Scripts/{name}.sh" for name in PROTOCOLS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "Programs" / "Source").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(("text", "n_arguments"), [(GRAM, 4), (PRODUCTS, 1), (LESS, 1)])
def test_a_program_is_valid_and_takes_the_arguments_that_it_is_compiled_for(text, n_arguments):
    ast.parse(text)
    assert f"program.args[1:{n_arguments + 1}]" in text or f"program.args[{n_arguments}]" in text
    assert text.count("start_timer") == text.count("stop_timer") == 2


def test_each_party_brings_its_columns_one_after_the_other_in_the_widths_of_the_program(folder):
    parts, (first, last) = gram_inputs(7, 10)
    widths = [10 // N_PARTIES + (party < 10 % N_PARTIES) for party in range(N_PARTIES)]
    assert [part.shape for part in parts] == [(width, 7) for width in widths]
    Built(folder).bring(parts)
    read = [np.loadtxt(folder / "Player-Data" / f"Input-P{party}-0", dtype=np.int64) for party in range(N_PARTIES)]
    table = np.concatenate(read).reshape(10, 7).T
    gram = table.T @ table
    assert (first, last) == (gram[0, 0], gram[-1, -1])


def test_the_blocks_of_the_program_are_the_triangle_and_its_corners():
    """The program's loop, on NumPy's arrays in the place of shares."""
    (x,) = (np.concatenate(gram_inputs(7, 25)[0]),)
    blocks = [x[start : start + 10] @ x[start:].T for start in range(0, 25, 10)]
    first, last = gram_inputs(7, 25)[1]
    assert (blocks[0].reshape(-1)[0], blocks[-1].reshape(-1)[-1]) == (first, last)
    assert "range(0, columns, block)" in GRAM


def test_products_are_those_of_the_factors():
    (x, y), corners = product_inputs(50)
    assert corners == ((x * y)[0], (x * y)[-1])


def test_the_answers_of_comparisons_are_counted():
    (x, y), (first, total) = compared_inputs(50)
    assert (first, total) == ((x < y)[0], np.count_nonzero(x < y))
    assert max(x.max(), y.max()) < 1 << 20


def test_times_traffic_and_a_right_result_are_read():
    for last in (-5, PRIME - 5):  # a negative number may be printed as its residue
        read = read_output(OUTPUT.format(last=last), (12, -5))
        assert read == {"product_s": 1.38, "all_s": 1.9, "processor_s": 0.75, "sent_mb": 5.28}


def test_a_wrong_result_is_no_measurement():
    with pytest.raises(WrongResultError):
        read_output(OUTPUT.format(last=5), (12, -5))


@pytest.mark.parametrize("line", ["Time1", "Time2", "CPU time", "Data sent", "CORNERS"])
def test_a_run_that_does_not_say_everything_is_no_measurement(line):
    text = re.sub(rf"^{line}.*\n", "", OUTPUT.format(last=-5), flags=re.MULTILINE)
    with pytest.raises(PeerRunError, match="MP-SPDZ printed nothing of"):
        read_output(text, (12, -5))


def test_a_folder_that_is_not_there_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--source", str(tmp_path / "nowhere")])
    assert ended.value.code == UNAVAILABLE
    assert "there is no folder" in capsys.readouterr().err


def test_a_checkout_that_is_not_built_is_refused_and_what_it_lacks_is_named(folder):
    (folder / "atlas-party.x").unlink()
    assert Built(folder).protocols == ["shamir", "rep-field", "mal-shamir", "sy-shamir"]
    for name in PROTOCOLS.values():
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(PeerUnavailableError, match=r"lacks any of atlas-party\.x .*: build it first"):
        Built(folder)
    (folder / "compile.py").unlink()
    with pytest.raises(PeerUnavailableError, match=r"lacks compile\.py: build it first"):
        Built(folder)
