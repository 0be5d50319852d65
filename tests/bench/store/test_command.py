"""The benchmark as its user runs it, with every contestant that is installed here; small, so that it takes seconds."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvctl.bench.__main__ import main
from kvctl.bench.store import command
from kvctl.bench.store.contestants import missing_peers
from kvctl.fleet.remote.processes import marked, parents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process clocks are of Linux")
SMALL = ("--sizes", "1MiB", "--connections", "2", "--quick", "--bytes", "4MiB")
MISSING = {one.contestant: one.fix for one in missing_peers()}


def bench(tmp_path: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "kvctl.bench", "store", *SMALL, "--directory", str(tmp_path / "bench"), *args]


def needs(*names: str) -> pytest.MarkDecorator:
    lacking = [name for name in names if name in MISSING]
    return pytest.mark.skipif(
        bool(lacking), reason=f"{', '.join(lacking)}: {MISSING.get(lacking[0]) if lacking else ''}"
    )


@pytest.mark.parametrize(
    "names",
    [
        "raw-tcp,raw-unix,memcpy",
        "kvstored-tcp,kvstored-unix,kvstored-cold",
        pytest.param("redis,redis-aof,nginx", marks=needs("redis", "nginx")),
        pytest.param("seaweedfs,fio", marks=needs("seaweedfs", "fio")),
        pytest.param(
            "mooncake",
            marks=[
                needs("mooncake"),
                pytest.mark.skipif(os.geteuid() != 0, reason="its ports listen on every address: run as root"),
            ],
        ),
    ],
)
def test_contestants_are_measured_and_leave_nothing(tmp_path: Path, names: str) -> None:
    env = {**os.environ, "KVCTL_TEST_BENCH": str(tmp_path)}
    done = subprocess.run(bench(tmp_path, "--only", names, "-o", "json"), capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {row["contestant"] for row in found["cells"]} == set(names.split(","))
    assert all(row["figures"]["gbps"] > 0 and row["figures"]["total_cpu"] > 0 for row in found["cells"])
    assert all(one["ops"] >= 4 for one in found["samples"])
    assert not (tmp_path / "bench").exists()
    assert marked("KVCTL_TEST_BENCH", str(tmp_path), parents()) == []


def test_a_stopped_run_leaves_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "KVCTL_TEST_BENCH": str(tmp_path)}
    argv = [*bench(tmp_path, "--only", "raw-tcp,kvstored-tcp"), "--bytes", "8GiB"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env) as run:
        assert run.stderr is not None
        await_word(run, "start kvstored-tcp")
        run.send_signal(signal.SIGTERM)
        said = run.stderr.read()
        assert run.wait(60) == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not (tmp_path / "bench").exists()
    assert marked("KVCTL_TEST_BENCH", str(tmp_path), parents()) == []


def await_word(run: "subprocess.Popen[str]", word: str) -> None:
    assert run.stderr is not None
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([run.stderr], [], [], 1)[0]:
            line = run.stderr.readline()
            if word in line:
                return
            assert line, "it ended too early"
    raise AssertionError(f"it never said {word!r}")


def test_peers_that_are_not_there_are_said_with_the_way_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvctl.bench.store.contestants.program", lambda name: None)
    found = command.left_out(command.chosen(True, None), private_network=False)
    assert found["redis"][0] == "not installed"
    assert "apt-get install" in found["redis"][1]
    assert found["mooncake"][0] == "not installed"
    assert "raw-tcp" not in found


def test_mooncake_stays_out_of_the_machine_s_own_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvctl.bench.store.command.missing_peers", lambda: ())
    assert command.left_out(command.chosen(True, None), private_network=True) == {}
    found = command.left_out(command.chosen(True, None), private_network=False)
    assert {name: status for name, (status, _) in found.items()} == {"mooncake": "needs root"}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--sizes", "1B"], "KV-BENCH-010"),
        (["--connections", "0"], "KV-BENCH-011"),
        (["--only", "memcached"], "KV-BENCH-013"),
        (["--bytes", "x"], "KV-BENCH-010"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(
    args: list[str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", *args]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert code in said.err
