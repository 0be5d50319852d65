import os
import select
import time
from pathlib import Path

import pytest

from kvctl.fleet.probe.run import KEPT_OF_TRUNCATED, OUT_LIMIT, Job, run, which


def script(folder: Path, name: str, body: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def await_end(pid: int) -> None:
    """Waits for the end of a process that is not this one's child; a killed process is gone within moments."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    ended = poll.poll(5000)
    os.close(handle)
    assert ended, f"process {pid} is still there"


def test_output_status_and_errors_are_kept(tools: Path) -> None:
    script(tools, "mlnx_qos", 'echo "asked $2"; echo complaint >&2; exit 3')
    result = run([Job("k", ["mlnx_qos", "-i", "eth9"], 5)], 10)["k"]
    assert (result["rc"], result["out"], result["err"]) == (3, "asked eth9\n", "complaint\n")
    assert result["argv"] == ["mlnx_qos", "-i", "eth9"]


def test_a_hung_tool_is_cut_with_everything_it_started(tools: Path, tmp_path: Path) -> None:
    script(tools, "mstflint", f"sleep 60 & echo $! > {tmp_path}/child; echo half; sleep 60")
    began = time.monotonic()
    result = run([Job("k", ["mstflint"], 0.5)], 10)["k"]
    assert time.monotonic() - began < 5
    assert result["unknown"] == "timed out after 0.5 s"
    assert "rc" not in result
    await_end(int((tmp_path / "child").read_text()))


def test_a_hung_tool_does_not_delay_the_others(tools: Path) -> None:
    script(tools, "hangs", "sleep 60")
    script(tools, "answers", "echo yes")
    results = run([Job("a", ["hangs"], 1.0), *[Job(f"b{n}", ["answers"], 5) for n in range(12)]], 10)
    assert results["a"]["unknown"].startswith("timed out")
    assert [results[f"b{n}"]["out"] for n in range(12)] == ["yes\n"] * 12
    assert all(results[f"b{n}"]["seconds"] < 0.9 for n in range(12))


def test_a_flood_is_cut_and_is_no_answer(tools: Path) -> None:
    script(tools, "floods", "head -c 104857600 /dev/zero | tr '\\0' x")
    result = run([Job("k", ["floods"], 20)], 20)["k"]
    assert result["unknown"] == f"it printed more than {OUT_LIMIT} bytes"
    assert len(result["out"]) == KEPT_OF_TRUNCATED


def test_a_tool_that_floods_its_errors_still_answers(tools: Path) -> None:
    script(tools, "noisy", "head -c 1000000 /dev/zero | tr '\\0' e >&2; echo answer")
    result = run([Job("k", ["noisy"], 20)], 20)["k"]
    assert result["out"] == "answer\n"
    assert len(result["err"]) <= 16384


def test_bytes_that_are_no_text_are_replaced(tools: Path) -> None:
    script(tools, "binary", "printf 'a\\377\\000b'")
    assert run([Job("k", ["binary"], 5)], 5)["k"]["out"] == "a\ufffd\0b"


def test_a_large_output_arrives_whole(tools: Path) -> None:
    script(tools, "large", "head -c 900000 /dev/zero | tr '\\0' y")
    result = run([Job("k", ["large"], 20)], 20)["k"]
    assert (result["rc"], len(result["out"])) == (0, 900000)


def test_a_daemon_that_keeps_the_pipe_open_does_not_hold_the_answer(tools: Path, tmp_path: Path) -> None:
    script(tools, "forks", f"sleep 60 & echo $! > {tmp_path}/child; echo done")
    began = time.monotonic()
    result = run([Job("k", ["forks"], 30)], 30)["k"]
    assert (result["rc"], result["out"]) == (0, "done\n")
    assert time.monotonic() - began < 5
    await_end(int((tmp_path / "child").read_text()))


def test_a_tool_killed_by_a_signal_says_so(tools: Path) -> None:
    script(tools, "crashes", "kill -SEGV $$")
    assert run([Job("k", ["crashes"], 5)], 5)["k"]["rc"] == -11


def test_a_missing_tool_and_a_broken_one_are_unknown(tools: Path) -> None:
    path = tools / "broken"
    path.write_bytes(b"\x7fELF not really")
    path.chmod(0o755)
    results = run([Job("m", ["no-such-tool"], 5), Job("b", ["broken"], 5)], 10)
    assert results["m"]["unknown"].startswith("could not be started")
    assert results["b"].get("rc", 1) != 0


def test_the_budget_ends_what_has_not_begun(tools: Path) -> None:
    script(tools, "slow", "sleep 60")
    began = time.monotonic()
    results = run([Job(str(n), ["slow"], 30, group="card 0000:41:00") for n in range(3)], 1.0)
    assert time.monotonic() - began < 5
    assert sorted(result["unknown"].partition(" ")[0] for result in results.values()) == ["not", "not", "timed"]


def test_jobs_of_one_card_never_overlap(tools: Path, tmp_path: Path) -> None:
    script(tools, "locks", f"mkdir {tmp_path}/lock || exit 1; sleep 0.1; rmdir {tmp_path}/lock")
    results = run([Job(str(n), ["locks"], 10, group="card") for n in range(5)], 20)
    assert [result["rc"] for result in results.values()] == [0] * 5


def test_a_read_in_a_child_gives_its_text_or_its_error() -> None:
    def fails() -> str:
        raise PermissionError(13, "Permission denied")

    results = run([Job("t", ["read", "x"], 5, call=lambda: "text"), Job("e", ["read", "y"], 5, call=fails)], 10)
    assert (results["t"]["rc"], results["t"]["out"]) == (0, "text")
    assert (results["e"]["rc"], results["e"]["err"]) == (1, "permission denied")


def test_a_read_that_blocks_is_cut(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    result = run([Job("k", ["read", str(fifo)], 0.3, call=fifo.read_text)], 5)["k"]
    assert result["unknown"].startswith("timed out")


def test_a_child_that_breaks_does_not_return_into_the_caller() -> None:
    def breaks() -> str:
        raise ZeroDivisionError

    assert run([Job("k", ["read"], 5, call=breaks)], 5)["k"]["rc"] == 1


def test_no_descriptor_and_no_child_is_left(tools: Path) -> None:
    script(tools, "answers", "echo yes")
    script(tools, "hangs", "sleep 60")
    before = len(list(Path("/proc/self/fd").iterdir()))
    run([Job("a", ["answers"], 5), Job("h", ["hangs"], 0.2), Job("m", ["no-such-tool"], 5)], 5)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_tools_get_no_terminal_and_a_plain_locale(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("SECRET", "token")
    script(tools, "shows", "echo $LC_ALL; echo [$SECRET$LANG]; cat")
    assert run([Job("k", ["shows"], 5)], 5)["k"]["out"] == "C\n[]\n"


def test_which_finds_what_is_outside_of_a_users_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert which("sh") in ("/usr/bin/sh", "/bin/sh")
    assert which("no-such-tool") is None
