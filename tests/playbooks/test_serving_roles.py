"""Roles vllm and kvgated: their units keep what they hold to themselves, and their arguments are all described."""

import re
from pathlib import Path

import jinja2
import pytest
import yaml

from kvctl.types.resources import resource

ROLES = Path(str(resource("playbooks"))) / "roles"
ARGS = {
    "name": "engine-1", "home": "/opt/engine", "controller": "https://10.0.0.1:8443", "device": "cuda",
    "shm_bytes": 1 << 30, "environment": {"A": "1"}, "trusted": "ab" * 32, "admin": "tcp:10.0.0.1:8444",
}  # fmt: skip
UNITS = sorted(path for role in ("vllm", "kvgated") for path in (ROLES / role / "templates").glob("*.service.j2"))


def unit(path, **changes):
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False)
    text = environment.from_string(path.read_text()).render(kvctl_args=ARGS | changes)
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_every_unit_is_confined(path):
    lines = unit(path)
    assert {
        "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "LimitCORE=0",
        "MemorySwapMax=0", "CapabilityBoundingSet=", "SystemCallFilter=@system-service", "RestrictNamespaces=yes",
    } <= set(lines)  # fmt: skip
    (user,) = [line for line in lines if line.startswith("User=")]
    assert user in ("User=kvctl-engine", "User=kvctl-gateway")


def test_the_host_tier_ends_with_the_engines_unit():
    (shm,) = [line for line in unit(ROLES / "vllm/templates/kvctl-engine.service.j2") if "/dev/shm" in line]
    assert shm.startswith("TemporaryFileSystem=/dev/shm:")
    assert "mode=1777" in shm
    assert f"size={1 << 30}" in shm


def test_leases_and_snapshot_are_in_memory_and_nobody_elses():
    for path, place in (
        (ROLES / "vllm/templates/kvctl-leases.service.j2", "kvctl/leases"),
        (ROLES / "kvgated/templates/kvctl-snapshot.service.j2", "kvctl-snapshot"),
    ):
        assert {f"RuntimeDirectory={place}", "RuntimeDirectoryMode=0700"} <= set(unit(path))


def test_an_engine_without_a_gpu_has_no_devices():
    path = ROLES / "vllm/templates/kvctl-engine.service.j2"
    assert "PrivateDevices=yes" in unit(path, device="cpu")
    assert "DevicePolicy=closed" in unit(path)


def test_no_unit_is_given_a_secret():
    for path in UNITS:
        assert not re.search(r"(?i)password|api.key|secret|token", "\n".join(unit(path)))


@pytest.mark.parametrize("role", ["vllm", "kvgated", "kvstored"])
def test_every_argument_that_a_role_uses_is_described(role):
    specs = yaml.safe_load((ROLES / role / "meta/argument_specs.yml").read_text())["argument_specs"]
    known = {name for spec in specs.values() for name in spec["options"]["kvctl_args"].get("options", {})}
    files = [*(ROLES / role / "tasks").iterdir(), *(ROLES / role / "templates").iterdir()]
    used = {name for file in files for name in re.findall(r"kvctl_args\.(\w+)", file.read_text())}
    assert used <= known
    verbs = {file.stem for file in (ROLES / role / "tasks").iterdir()} - {"engine", "reload"}
    assert verbs == specs.keys() | ({"precheck"} & verbs)


@pytest.mark.parametrize("role", ["vllm", "kvgated", "kvstored"])
def test_no_failure_is_passed_over(role):
    assert "ignore_errors" not in "".join(file.read_text() for file in (ROLES / role / "tasks").iterdir())


@pytest.mark.parametrize(
    ("role", "folder"), [("vllm", "/etc/kvctl-engine"), ("kvgated", "/etc/kvctl-gateway"), ("kvstored", "/etc/kvctl")]
)
def test_what_an_apply_that_was_cut_has_written_is_taken_in_by_the_next(role, folder):
    """A file that is as it should be is not `changed`, though its daemon may not have seen it."""
    tasks = yaml.safe_load((ROLES / role / "tasks/apply.yml").read_text())
    marks = [n for n, t in enumerate(tasks) if f"{folder}/unfinished" in yaml.safe_dump(t)]
    looked, begun, ended = marks
    written = [n for n, t in enumerate(tasks) if {"ansible.builtin.copy", "ansible.builtin.template"} & t.keys()]
    assert looked < begun <= min(written)
    assert (ended, tasks[ended]["ansible.builtin.file"]["state"]) == (len(tasks) - 1, "absent")
    environment = jinja2.Environment(autoescape=False)
    environment.tests["changed"] = lambda _: False
    nothing = {"results": [{}, {}, {}]}
    for cut, state in ((True, "restarted"), (False, "started")):
        known = {tasks[looked]["register"]: {"stat": {"exists": cut}}}
        given = {t["register"]: nothing for t in tasks if "register" in t} | {"kvstored_reload": True} | known
        services = [t["ansible.builtin.systemd_service"] for t in tasks if "ansible.builtin.systemd_service" in t]
        assert {environment.from_string(service["state"]).render(given) for service in services} == {state}
        reloads = [service["daemon_reload"] for service in services if "daemon_reload" in service]
        assert {environment.from_string(one).render(given) for one in reloads} == {str(cut)}


def test_connectors_that_a_store_was_not_told_of_are_told_when_the_run_goes_on():
    tasks = yaml.safe_load((ROLES / "kvstored/tasks/connectors.yml").read_text())
    (reload,) = [task for task in tasks if "ansible.builtin.include_tasks" in task]
    environment = jinja2.Environment(autoescape=False)
    environment.tests["changed"] = bool
    for changed, cut, told in ((0, True, True), (0, False, False), (1, False, True)):
        given = {"kvstored_connectors": changed, "kvstored_cut": {"stat": {"exists": cut}}, "ansible_check_mode": False}
        assert environment.compile_expression(reload["when"])(**given) is told


def test_an_engine_counts_as_deployed_when_its_leases_can_be_had():
    (line,) = [one for one in unit(ROLES / "vllm/templates/kvctl-leases.service.j2") if one.startswith("ExecStart=")]
    tasks = yaml.safe_load((ROLES / "vllm/tasks/verify.yml").read_text())
    (argv,) = [task["ansible.builtin.command"]["argv"] for task in tasks if "ansible.builtin.command" in task]
    asked = [jinja2.Template(text).render(kvctl_args=ARGS) for text in argv]
    assert asked[:3] == ["runuser", "--user=kvctl-engine", "--"]
    assert " ".join(asked[3:]).replace(" --check", "") == line.removeprefix("ExecStart=")
