import pytest

from service.settings import Settings
from service.settings_tree import SettingsError
from service.trust.changes import check_changes


class Example(Settings):
    name: str = "a"
    size: int = 1
    limit: int = 2


def test_the_fields_that_differ_are_named():
    assert check_changes(Example(), Example(limit=3), ("limit",)) == ["limit"]
    assert check_changes(Example(), Example(), ()) == []


def test_fields_that_may_not_change_are_refused_all_at_once():
    with pytest.raises(SettingsError, match=r"^name, size: changes only when the service is restarted; nothing was"):
        check_changes(Example(), Example(name="b", size=2, limit=3), ("limit",))
