import fcntl
from pathlib import Path

import pytest

from kvctl.bench.hosts import MARKER, claimed, environment
from kvctl.types.errors import LockedError, UsageError


def test_no_setting_of_the_user_reaches_a_contestant(tmp_path: Path) -> None:
    user = {"PATH": "/bin", "KVCTL_TIMEOUT": "1", "ANSIBLE_FORKS": "1", "PYTHONPROFILEIMPORTTIME": "1", "HOME": "/h"}
    found = environment(tmp_path, user)
    assert found["PATH"] == "/bin"
    assert found["HOME"] == "/h"
    assert not {"KVCTL_TIMEOUT", "ANSIBLE_FORKS", "PYTHONPROFILEIMPORTTIME", "KVCTL_LAB_CACHE"} & set(found)
    own = ("KVCTL_LAB_DIR", "KVCTL_STATE_DIR", "KVCTL_INVENTORY", "XDG_CONFIG_HOME")
    assert all(found[name].startswith(str(tmp_path)) for name in own)
    assert found["KVCTL_LAB_NAME"] != "kvctl-lab"  # somebody's own lab is left alone


def test_the_cache_of_the_root_file_system_is_shared(tmp_path: Path) -> None:
    assert environment(tmp_path, {"KVCTL_LAB_CACHE": "/c"})["KVCTL_LAB_CACHE"] == "/c"


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "bench"
    with claimed(directory), pytest.raises(LockedError) as caught, claimed(directory):
        pass
    assert caught.value.code == "KV-BENCH-005"
    with claimed(directory), open(directory / MARKER) as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_directory_with_other_files_is_never_taken(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(UsageError) as caught, claimed(tmp_path):
        pass
    assert caught.value.code == "KV-BENCH-008"
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
