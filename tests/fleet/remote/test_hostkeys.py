"""known_hosts lines as sshd(8) defines them."""

import subprocess
from pathlib import Path

import pytest

from kvctl.fleet.remote.hostkeys import has_markers, key_name, recorded

from .conftest import keygen

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFBlr3vXHwRSMoYu9PYyvBlZTMdOJkmGYPOFMOFv1mLG"


def known(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "known"
    path.write_text(text)
    return [str(path)]


@pytest.mark.parametrize(
    ("names", "name", "found"),
    [
        ("node1", "node1", True),
        ("node1,192.0.2.1", "192.0.2.1", True),
        ("*.example.org", "a.example.org", True),
        ("*.example.org,!b.example.org", "b.example.org", False),
        ("node?", "node7", True),
        ("[192.0.2.1]:2222", "[192.0.2.1]:2222", True),
        ("[192.0.2.1]:2222", "192.0.2.1", False),
        ("node1", "node11", False),
        ("NODE1", "node1", True),
    ],
)
def test_names(tmp_path: Path, names: str, name: str, found: bool) -> None:
    assert bool(recorded(known(tmp_path, f"# text\n\n{names} {KEY} comment\n"), name)) is found


def test_hashed_lines_of_openssh_are_found(tmp_path: Path) -> None:
    files = known(tmp_path, f"[192.0.2.1]:2222 {KEY}\n")
    subprocess.run(["ssh-keygen", "-H", "-f", files[0]], check=True, capture_output=True)
    assert "192.0.2.1" not in Path(files[0]).read_text()
    assert recorded(files, key_name("192.0.2.1", 2222))
    assert not recorded(files, key_name("192.0.2.2", 2222))


def test_fingerprint_is_ssh_keygens(tmp_path: Path) -> None:
    public = keygen(tmp_path / "key").with_suffix(".pub")
    shown = subprocess.run(["ssh-keygen", "-lf", str(public)], check=True, capture_output=True, text=True).stdout
    (key,) = recorded(known(tmp_path, f"n {' '.join(public.read_text().split()[:2])}\n"), "n")
    assert key.fingerprint == shown.split()[1]


def test_missing_file_and_broken_lines_hold_no_key(tmp_path: Path) -> None:
    assert recorded([str(tmp_path / "none")], "n") == ()
    assert recorded(known(tmp_path, "n ssh-ed25519 %%%\nn ssh-ed25519\n|1|x n k\n"), "n") == ()


def test_markers_are_seen(tmp_path: Path) -> None:
    assert has_markers(known(tmp_path, f"@cert-authority * {KEY}\n"))
