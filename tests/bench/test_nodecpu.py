from pathlib import Path

import pytest

from kvctl.bench.nodecpu import of_machines, usage_seconds
from kvctl.types.errors import KvctlError

# cgroup2 without the cpu controller, as on a hybrid machine, and with it
PLAIN = "usage_usec 11245991\nuser_usec 8347386\nsystem_usec 2898605\nnice_usec 0\n"
FULL = PLAIN + "core_sched.force_idle_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\nnr_bursts 0\n"


@pytest.mark.parametrize("text", [PLAIN, FULL])
def test_usage_is_in_seconds(text: str) -> None:
    assert usage_seconds(text) == pytest.approx(11.245991)


@pytest.mark.parametrize("text", ["", "user_usec 5\n", "usage_usec x\n", "usage_usec\n"])
def test_a_text_without_usage_is_not_zero(text: str) -> None:
    with pytest.raises(ValueError, match=r"usage_usec|invalid literal"):
        usage_seconds(text)


def test_the_hosts_are_added_up(tmp_path: Path) -> None:
    for name, used in (("storage1", 1_500_000), ("storage2", 2_250_000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpu.stat").write_text(f"usage_usec {used}\n")
    assert of_machines([tmp_path / "storage1", tmp_path / "storage2"]).total() == 3.75


def test_a_host_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KvctlError) as caught:
        of_machines([tmp_path / "storage1"]).total()
    assert caught.value.code == "KV-BENCH-003"
    assert "storage1/cpu.stat" in caught.value.where


def test_settled_returns_what_was_used_up_to_the_quiet(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 4000000\n")
    assert of_machines([tmp_path]).settled(idle=0.0) == 4.0
