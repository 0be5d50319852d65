"""Secret files: what is not kept secret is not used, and a reader never sees half of one."""

import os
import stat

import pytest

from kvctl.connector.secretfile import MAX_BYTES, read_secret, write_secret
from kvctl.types.errors import ExitCode, KvctlError


def refused(action, *arguments) -> KvctlError:
    with pytest.raises(KvctlError) as caught:
        action(*arguments)
    return caught.value


def test_what_is_written_is_read_and_has_mode_0600(tmp_path):
    path = tmp_path / "key"
    previous = os.umask(0)
    try:
        write_secret(path, b"first")
        write_secret(path, b"second")
    finally:
        os.umask(previous)
    assert read_secret(path) == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_an_open_reader_keeps_the_old_file_whole(tmp_path):
    path = tmp_path / "key"
    write_secret(path, b"old" * 1000)
    with path.open("rb") as file:
        assert file.read(3) == b"old"
        write_secret(path, b"new")
        assert file.read() == b"old" * 999


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o610, 0o644])
def test_a_file_that_others_have_a_way_to_is_refused(tmp_path, mode):
    path = tmp_path / "key"
    write_secret(path, b"secret")
    path.chmod(mode)
    error = refused(read_secret, path)
    assert (error.code, error.exit_code, error.where) == ("KV-CONN-011", ExitCode.REFUSED, str(path))
    assert f"{mode:04o}" in error.why


def test_a_stricter_mode_is_fine(tmp_path):
    path = tmp_path / "key"
    write_secret(path, b"secret")
    path.chmod(0o400)
    assert read_secret(path) == b"secret"


def test_a_symbolic_link_is_neither_read_nor_replaced(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    write_secret(target, b"secret")
    link.symlink_to(target)
    assert refused(read_secret, link).code == "KV-CONN-011"
    assert refused(write_secret, link, b"other").code == "KV-CONN-011"
    assert read_secret(target) == b"secret"


def test_a_pipe_in_the_files_place_does_not_hold_the_reader(tmp_path):
    os.mkfifo(tmp_path / "key", 0o600)
    assert refused(read_secret, tmp_path / "key").code == "KV-CONN-011"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user; run as root")
def test_another_users_file_is_refused(tmp_path):
    path = tmp_path / "key"
    write_secret(path, b"secret")
    os.chown(path, 65534, 65534)
    assert "65534" in refused(read_secret, path).why


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path):
    error = refused(read_secret, tmp_path / "key")
    assert (error.code, error.exit_code) == ("KV-CONN-010", ExitCode.USAGE)


def test_a_file_without_end_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "key"
    write_secret(path, bytes(MAX_BYTES + 1))
    assert refused(read_secret, path).code == "KV-CONN-010"


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "key"
    path.mkdir()
    (path / "inside").write_text("")
    error = refused(write_secret, path, b"secret")
    assert error.code == "KV-CONN-012"
    assert [file.name for file in tmp_path.iterdir()] == ["key"]
    assert refused(write_secret, tmp_path / "no" / "key", b"secret").code == "KV-CONN-012"


def test_a_directory_is_no_secret_file(tmp_path):
    assert refused(read_secret, tmp_path).code == "KV-CONN-011"
