"""The engine of a lab's GPU hosts: this machine's, in the place where an image would have it."""

import sys
from pathlib import Path

import pytest

from kvctl.controller.serving_spec import parse
from kvctl.fleet.lab import engine_image
from kvctl.types.errors import UsageError


def test_its_description_is_one_that_a_deployment_takes():
    spec = parse(engine_image.description(), "serving.yaml")
    assert (spec.engine, spec.device, spec.model.directory) == ("/opt/engine", "cpu", "/opt/model")


def test_hosts_share_the_cache_and_the_python_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.delenv("KVCTL_ENGINE", raising=False)
    monkeypatch.setenv("KVCTL_CACHE", str(tmp_path / "cache"))
    assert engine_image.shared() == {tmp_path / "cache": engine_image.CACHE, Path(sys.base_prefix): engine_image.PYTHON}
    assert (tmp_path / "cache").is_dir()


def test_an_engine_on_another_python_is_refused(tmp_path):
    (tmp_path / "pyvenv.cfg").write_text("home = /nowhere/bin\nversion = 3.11.7\n")
    with pytest.raises(UsageError) as caught:
        engine_image.python_of(tmp_path)
    assert caught.value.code == "KV-LAB-061"
    (tmp_path / "pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\nversion = 3.11.7\n")
    assert engine_image.python_of(tmp_path) == "3.11"
