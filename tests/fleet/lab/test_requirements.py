import os
import sys

import pytest

from kvctl.fleet.lab import requirements
from kvctl.types.errors import ExitCode, UsageError


def test_other_systems_are_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UsageError) as caught:
        requirements.require_root()
    assert (caught.value.code, caught.value.exit_code) == ("KV-LAB-001", ExitCode.USAGE)
    assert "darwin" in caught.value.why


def test_users_are_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="root") as caught:
        requirements.require_root()
    assert caught.value.code == "KV-LAB-001"


def test_missing_packages_come_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(requirements, "SBIN", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        requirements.require_tools()
    assert caught.value.code == "KV-LAB-002"
    assert caught.value.fix.startswith("apt-get install -y --no-install-recommends ")
    assert {"systemd-container", "mmdebstrap", "nftables"} <= set(caught.value.fix.split())
