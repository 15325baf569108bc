"""A service that looks through its tables after its start: its owner reads which columns lose nearly all values."""

from federation import ROWS, all_text
from forked_services import ForkedDeployment

from demo.local_deployment import LocalTable

LISTED = '\n[tables.columns]\nregion = { kind = "category", values = ["1", "2"], others = "other" }\n'


def test_the_log_of_the_start_names_table_and_column_and_no_value(tmp_path):
    (tmp_path / "lost.csv").write_text("region,age\n" + "secret-7,30\n" * 100)
    (tmp_path / "absent.csv").write_text("region\n" + "1\n" * 100)
    tables = [
        LocalTable("lost", tmp_path / "lost.csv", {"age": (0.0, 1.0)}, ROWS, sections=LISTED),
        LocalTable("incomplete", tmp_path / "absent.csv", {"age": (0.0, 1.0)}, ROWS, sections=LISTED),
        LocalTable("gone", tmp_path / "gone.csv", {"age": (0.0, 1.0)}, ROWS),
    ]
    (tmp_path / "run").mkdir()
    parties = {"bank": tables, "clinic": [], "shop": []}
    looking = {"MOIETY_PARTY__LOOKS_AT_TABLES": "true"}
    with ForkedDeployment(tmp_path / "run", parties, environment=looking) as running:
        running.wait_until_logged("bank", "column 'age' is missing in its file")
        told = all_text(running)
    assert "age: outside of their bounds; region: not of the declared kind" in told
    assert '"tables": "gone"' in told
    assert "<withheld" not in told
    assert "secret-7" not in told
