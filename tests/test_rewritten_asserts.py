"""Test modules that were rewritten before are not rewritten again."""

from importlib.util import module_from_spec

import pytest
from _pytest.assertion import rewrite
from rewritten_asserts import write


def test_pytest_takes_what_was_written_before(tmp_path, pytestconfig, monkeypatch):
    module = tmp_path / "test_of_one.py"
    module.write_text("def test_it():\n    two = 2\n    assert two == 1\n")
    write(module)
    monkeypatch.delattr(rewrite, "_rewrite_test")
    hook = pytestconfig.pluginmanager.rewrite_hook
    spec = rewrite.importlib.util.spec_from_file_location("test_of_one", module, loader=hook)
    loaded = module_from_spec(spec)
    hook.exec_module(loaded)
    with pytest.raises(AssertionError, match="assert 2 == 1"):
        loaded.test_it()
