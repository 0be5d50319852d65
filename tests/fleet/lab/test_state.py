import os

import pytest

from kvctl.fleet.lab import layout, processes, state
from kvctl.types.errors import KvctlError, LockedError


@pytest.fixture
def lab(tmp_path):
    return layout.from_environment({"KVCTL_LAB_DIR": str(tmp_path)})


def test_what_is_written_is_read(lab):
    me = processes.started(os.getpid())
    written = state.LabState("gpu=1", "/rootfs", 128).with_supervisor("gpu1", me).with_planted("gpu1", ("mtu",))
    state.write(lab, written)
    assert state.read(lab) == written
    assert state.read(lab).supervisors["gpu1"].alive()


def test_no_file_is_no_lab(lab):
    assert state.read(lab) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": 99}', "not json"])
def test_an_unreadable_state_is_told_with_the_way_out(lab, text):
    lab.state_file.write_text(text)
    with pytest.raises(KvctlError) as caught:
        state.read(lab)
    assert caught.value.code == "KV-LAB-008"
    assert "kvctl lab down" in caught.value.fix


def test_a_second_command_is_locked_out(lab):
    with state.locked(lab), pytest.raises(LockedError), state.locked(lab):
        pass


def test_a_reused_pid_is_not_taken_for_the_lab_s_process():
    me = processes.started(os.getpid())
    other = processes.Started(me.pid, me.start + 1)
    assert me.alive()
    assert not other.alive()
    assert processes.send(other, 9) is False  # this test would not go on otherwise
