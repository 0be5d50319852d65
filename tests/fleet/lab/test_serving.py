"""What a lab serves: ended whole, also without its supervisor; told plainly when it cannot start."""

import subprocess
import sys

import msgspec
import pytest

from kvctl.fleet.lab import processes, serving, serving_engine
from kvctl.fleet.lab.serving_demo import Shown, prompt
from kvctl.types.errors import KvctlError, UsageError

PLAN = serving.Plan([], [], "kvctl-test-serving", "00" * 32, "unix:/nowhere", "c", "k", "a", "acme", ["user"])


@pytest.fixture
def files(tmp_path):
    made = serving.Files(tmp_path / "serving")
    made.directory.mkdir()
    made.plan.write_bytes(msgspec.json.encode(PLAN))
    return made


def sleeper(files, name):
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    serving.write_pid(files.pid(name), processes.started(child.pid))
    return child


def test_stop_ends_the_children_of_a_supervisor_that_is_gone(files):
    children = [sleeper(files, name) for name in ("engine", "gateway")]
    assert serving.running(files) == ["gateway", "engine"]
    assert serving.stop(files)
    assert all(child.wait(5) for child in children)
    assert not files.directory.exists()


def test_stop_leaves_a_process_alone_that_has_the_pid_of_one_that_ended(files):
    child = sleeper(files, "engine")
    try:
        serving.write_pid(files.pid("engine"), processes.Started(child.pid, 1))
        assert serving.running(files) == []
        serving.stop(files)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_stop_of_nothing(tmp_path):
    assert not serving.stop(serving.Files(tmp_path / "serving"))


def test_a_supervisor_that_ends_is_told_with_its_log(files):
    files.plan.write_bytes(b"{}")
    with pytest.raises(KvctlError) as told:
        serving.start(files, msgspec.structs.replace(PLAN, engine=["false"], gateway=["false"]))
    assert told.value.code == "KV-LAB-053"


def test_a_counter_that_has_not_counted_is_zero_and_an_unknown_one_an_error():
    text = '# TYPE a_total counter\n# TYPE b_total counter\nb_total{x="1"} 2.0\nb_total{x="2"} 3.0\n'
    assert serving.metric(text, "a_total") == 0
    assert (serving.metric(text, "b_total"), serving.metric(text, "b_total", 'x="2"')) == (5, 3)
    with pytest.raises(KvctlError):
        serving.metric(text, "c_total")


def test_without_an_engine_it_says_how_to_get_one(tmp_path):
    with pytest.raises(UsageError) as told:
        serving_engine.engine_home({"KVCTL_CACHE": str(tmp_path)})
    assert told.value.code == "KV-LAB-050"


def test_another_output_is_not_called_identical():
    assert "ANOTHER OUTPUT" in "\n".join(Shown(8192, 10.0, 0, 1.0, 8192, 1 << 20, identical=False).lines())
    assert Shown(8192, 10.0, 0, 1.0, 8192, 1 << 20, identical=True).lines()[2] == "ratio:     10.0"


def test_prompts_of_one_seed_are_equal_and_of_another_differ():
    assert prompt(256, "a") == prompt(256, "a") != prompt(256, "b")
