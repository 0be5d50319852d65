"""Many nodes at once: the answers, the failures, and what is left."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kvctl.fleet.remote.collect import Program, collect, document
from kvctl.fleet.remote.result import Result
from kvctl.fleet.remote.target import Target, resolve
from kvctl.types.errors import UnreachableError

from .conftest import Sshd, free_port

DOCUMENT = '{"schema": 1, "host": {}}'


def saying(text: str, after: str = "true") -> Program:
    return Program(f"cat >/dev/null; printf %s '{text}'; {after}", b"zip")


def test_probe_of_this_kvctl_answers_with_its_clock(sshd: Sshd, tmp_path: Path) -> None:
    targets = resolve(sshd.inventory("n1", "n2"), tmp_path / "state")
    found = collect(targets.values(), timeout=60)
    assert list(found) == ["n1", "n2"]
    for one in found.values():
        assert one.error is None
        assert one.raw is not None
        assert one.raw["schema"] == 1
        offset = one.raw["host"]["clock_offset"]
        assert abs(offset["v"]) < 1  # the node is this machine
        assert "date" in offset["src"]


def test_clock_that_is_wrong_is_seen(target: Target) -> None:
    # a date that runs ahead, as the node's own would
    program = Program(
        f"date() {{ echo $(( $(command date +%s) + 3600 )).000000000; }}; cat >/dev/null; printf %s '{DOCUMENT}'", b""
    )
    raw = collect([target], timeout=10, program=program)["n1"].raw
    assert raw is not None
    assert raw["host"]["clock_offset"].get("v") is not None


def test_dead_node_does_not_disturb_the_others(target: Target, hung: Callable[..., Target]) -> None:
    targets = [
        replace(target, node="ok"),
        replace(target, node="refused", port=free_port()),
        replace(hung(), node="hung"),
    ]
    begun = time.monotonic()
    found = collect(targets, timeout=2, program=saying(DOCUMENT))
    assert time.monotonic() - begun < 6
    assert found["ok"].raw is not None
    errors = {node: one.error.code for node, one in found.items() if one.error}
    assert errors == {"refused": "KV-SSH-001", "hung": "KV-SSH-007"}


@pytest.mark.parametrize("text", ["", "hello", "[]", '{"schema": 1}', '{"schema": 2, "host": {}}', DOCUMENT + "x"])
def test_garbage_is_named(target: Target, text: str) -> None:
    error = collect([target], timeout=10, program=saying(text))["n1"].error
    assert error is not None
    assert error.code == "KV-SSH-008"


def test_failed_probe_says_why(target: Target) -> None:
    error = collect([target], timeout=10, program=saying("", "echo broken >&2; exit 3"))["n1"].error
    assert error is not None
    assert error.code == "KV-SSH-012"
    assert error.why == "exit status 3: broken"


def test_missing_python_is_named(target: Target) -> None:
    program = Program("PATH=/nowhere; python3 -c pass", b"")
    error = collect([target], timeout=10, program=program)["n1"].error
    assert error is not None
    assert error.code == "KV-SSH-006"


def test_stuck_probe_ends_on_the_node_too(target: Target) -> None:
    # the fixture's end asserts that the sleep is gone, which no lost connection would do
    found = collect([target], timeout=1, program=Program("sleep 600", b""))
    assert found["n1"].error is not None
    assert found["n1"].error.code == "KV-SSH-007"


def test_cancel_cuts_everything_at_once(target: Target) -> None:
    cancel = threading.Event()
    threading.Timer(0.7, cancel.set).start()
    begun = time.monotonic()
    targets = [replace(target, node=f"n{i}") for i in range(6)]
    found = collect(targets, concurrency=3, timeout=8, cancel=cancel, program=Program("sleep 9", b""))
    assert time.monotonic() - begun < 4
    assert all(one.error is not None and "cancelled" in one.error.why for one in found.values())


def test_progress_is_told_in_the_callers_thread(target: Target) -> None:
    seen: list[tuple[str, str]] = []
    targets = [replace(target, node=f"n{i}") for i in range(4)]
    collect(
        targets,
        timeout=20,
        program=saying(DOCUMENT),
        on_done=lambda node, _: seen.append((node, threading.current_thread().name)),
    )
    assert sorted(node for node, _ in seen) == ["n0", "n1", "n2", "n3"]
    assert {thread for _, thread in seen} == {threading.current_thread().name}


def test_missing_namespace_is_named(sshd: Sshd, tmp_path: Path) -> None:
    target = sshd.target(tmp_path / "state", netns="kvctl-test-none")
    error = collect([target], timeout=5, program=saying(DOCUMENT))["n1"].error
    assert error is not None
    assert error.code == "KV-SSH-010"


def test_a_sudo_that_refuses_is_told_apart(target: Target) -> None:
    """sudo fails before the command prints its clock, so the last line of stderr is sudo's own."""
    plain = replace(target, user="plain")
    refused = Result(1, b"", b"sudo: unable to resolve host n1\nsudo: a password is required\n", 0.0)
    with pytest.raises(UnreachableError, match="KV-SSH-005"):
        document(plain, refused)
