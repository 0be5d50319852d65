"""Nobody is measured who did not do the work."""

import json
from pathlib import Path

import pytest

from kvctl.bench.contestants import PYINFRA_FACTS, all_facts, all_setup, recap_unchanged, relative, run_unchanged

RECAP = (
    "PLAY RECAP *********\n"
    "storage1 : ok=28   changed=0    unreachable=0    failed=0    skipped=3    rescued=0    ignored=0   \n"
    "storage2 : ok=28   changed={changed}    unreachable={dark}    failed={failed}    skipped=3    rescued=0\n"
)


def test_a_recap_without_changes_is_a_no_op() -> None:
    assert recap_unchanged(2)(RECAP.format(changed=0, dark=0, failed=0)) == ""


@pytest.mark.parametrize(("changed", "dark", "failed"), [(1, 0, 0), (0, 1, 0), (0, 0, 1), (10, 0, 0)])
def test_a_recap_with_a_change_or_a_loss_is_none(changed: int, dark: int, failed: int) -> None:
    assert "no no-op" in recap_unchanged(2)(RECAP.format(changed=changed, dark=dark, failed=failed))


def test_a_recap_of_other_hosts_is_none() -> None:
    assert recap_unchanged(3)(RECAP.format(changed=0, dark=0, failed=0))
    assert recap_unchanged(2)("")


def test_a_run_that_changed_something_is_no_no_op() -> None:
    assert run_unchanged('{"changed": 0}') == ""
    assert "2" in run_unchanged('{"changed": 2}')
    assert run_unchanged("{}")
    assert "no JSON" in run_unchanged("")


def test_every_host_must_answer_setup() -> None:
    assert all_setup(2)("storage1 | SUCCESS => {\n}\nstorage2 | SUCCESS => {\n}\n") == ""
    assert "1 of 2" in all_setup(2)("storage1 | SUCCESS => {\n}\nstorage2 | UNREACHABLE! => {\n}\n")


def test_every_host_must_answer_every_fact() -> None:
    whole = {name: {"storage1": 1, "storage2": 2} for name in PYINFRA_FACTS}
    assert all_facts(2)(json.dumps(whole)) == ""
    assert "hardware.Cpus" in all_facts(2)(json.dumps(whole | {"hardware.Cpus": {"storage1": 1}}))
    assert all_facts(2)(json.dumps(dict(list(whole.items())[1:])))
    assert "no JSON" in all_facts(2)("--> Gathering facts...")


def test_a_command_line_is_shown_without_the_paths_of_one_machine() -> None:
    argv = ("nsenter", "--net=/run/netns/kvbench", "--", "/opt/x/bin/ansible", "-i", "/var/tmp/b/hosts.yml")
    shown = relative(argv, Path("/var/tmp/b"))
    assert shown == "nsenter --net=/run/netns/kvbench -- ansible -i DIR/hosts.yml"
