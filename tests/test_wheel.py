"""The wheel outside any checkout: package data is found, and the command works."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the wheel's content and nothing of the checkout."""
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (wheel,) = place.glob("*.whl")
    target = place / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    return target


def run(installed, *argv):
    """A python that sees the wheel first; the virtual environment's packages serve as its dependencies."""
    done = subprocess.run(
        [sys.executable, *argv],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        check=False,
        env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("playbooks", "step.yml"),
        ("playbooks", "roles/roce/meta/argument_specs.yml"),
        ("web", "README.md"),
        ("audits", "README.md"),
        ("inventory.example.yaml", ""),
    ],
)
def test_package_data_is_found(installed, name, inside):
    code = f"from kvctl.types.resources import resource; print(resource({name!r}))"
    path = Path(run(installed, "-c", code).strip())
    assert path.is_relative_to(installed)
    assert (path / inside).exists() if inside else path.is_file()


def test_the_command_works(installed):
    assert "Commands:" in run(installed, "-m", "kvctl", "--help")
    example = installed / "kvctl" / "data" / "inventory.example.yaml"
    run(installed, "-m", "kvctl", "config", "validate", str(example))


def test_the_probe_can_be_sent_from_it(installed):
    code = "from kvctl.fleet.probe.bundle import zip_bytes; print(len(zip_bytes()))"
    assert int(run(installed, "-c", code)) > 10_000


def test_nothing_of_the_tests_or_of_this_machine_is_in_it(installed):
    assert not (installed / "tests").exists()
    for file in installed.rglob("*.py"):
        assert str(ROOT) not in file.read_text()
