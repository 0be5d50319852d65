"""`kvctl init`: what it writes is valid, and it neither overwrites nor hangs."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvctl.cli.init import command
from kvctl.fleet.inventory.load import load, load_text
from kvctl.types.errors import UsageError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, list(args), input=stdin, standalone_mode=False)


def refused(*args: str, stdin: str | None = None) -> UsageError:
    error = run(*args, stdin=stdin).exception
    assert isinstance(error, UsageError)
    assert error.exit_code == 2
    return error


def test_it_writes_a_valid_inventory(here: Path) -> None:
    result = run("store1=10.0.0.11:storage", "gpu1=admin@gpu1.example:gpu", "--site", "oslo", "--country", "NO")
    assert result.exception is None
    assert result.stdout == ""
    inventory = load(here / "inventory.yaml").inventory
    assert (inventory.site.name, inventory.site.country) == ("oslo", "NO")
    assert [(n.name, n.address, n.role, n.user) for n in inventory.nodes] == [
        ("store1", "10.0.0.11", "storage", "root"),
        ("gpu1", "gpu1.example", "gpu", "admin"),
    ]
    assert "# " in (here / "inventory.yaml").read_text()


@pytest.mark.parametrize("address", ["fd00::11", "[fd00::11]"])
def test_ipv6(here: Path, address: str) -> None:
    run(f"a={address}:storage")
    assert load(here / "inventory.yaml").inventory.nodes[0].address == "fd00::11"


def test_names_that_yaml_would_misread(here: Path) -> None:
    run("no=10.0.0.1:storage", "123=10.0.0.2:gpu", "1e5=10.0.0.3:gpu", "--site", "on")
    inventory = load(here / "inventory.yaml").inventory
    assert [n.name for n in inventory.nodes] == ["no", "123", "1e5"]
    import yaml

    assert [n["name"] for n in yaml.safe_load((here / "inventory.yaml").read_text())["nodes"]] == ["no", "123", "1e5"]


def test_what_is_commented_out_is_valid_too(here: Path) -> None:
    text = run("a=a:storage", "b=b:gpu", "--dry-run").stdout
    head, _, tail = text.partition("# The lossless class")
    blocks = ("# The lossless class" + tail).split("\n\n")
    bare = "\n".join(
        line.removeprefix("# ") for block in blocks for line in block.strip().splitlines()[1:] if line.startswith("# ")
    )
    inventory = load_text(head + bare.replace("A definition", "# A definition")).inventory
    assert inventory.fabric.cnp_priority == 6
    assert inventory.roles["storage"].nic.firmware
    assert inventory.waivers
    assert not (here / "inventory.yaml").exists()


def test_it_does_not_overwrite(here: Path) -> None:
    (here / "inventory.yaml").write_text("mine")
    assert refused("a=a:gpu").code == "KV-INIT-002"
    assert (here / "inventory.yaml").read_text() == "mine"
    assert run("a=a:gpu", "--force").exception is None
    assert load(here / "inventory.yaml").inventory.nodes[0].name == "a"
    assert [p.name for p in here.iterdir()] == ["inventory.yaml"]


def test_the_list_of_nodes_from_a_file(here: Path) -> None:
    (here / "nodes").write_text("# two\na=10.0.0.1:storage\n\nb=10.0.0.2:gpu  # new\n")
    assert run("--nodes", "nodes").exception is None
    assert len(load(here / "inventory.yaml").inventory.nodes) == 2
    assert run("--nodes", "-", "-o", "b.yaml", stdin="c=10.0.0.3:gpu\n").exception is None
    assert load(here / "b.yaml").inventory.nodes[0].name == "c"
    (here / "nodes").write_text("# none\n")
    assert refused("--nodes", "nodes", "-o", "c.yaml").code == "KV-INIT-001"
    assert refused("--nodes", "absent", "-o", "c.yaml").code == "KV-INIT-004"


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        (["a"], "'a' is not a node"),
        (["a=10.0.0.1"], "is not a node"),
        (["a=10.0.0.1:tape"], "there is no role 'tape'; allowed: gpu | storage"),
        (["A=10.0.0.1:gpu"], "'A=10.0.0.1:gpu': 'A'"),
        (["a=-oProxyCommand=id:gpu"], "'-oProxyCommand=id'"),
        (["a=b:gpu", "a=c:gpu"], "'a=c:gpu': node 'a' is listed twice"),
    ],
)
def test_nodes_that_are_none(here: Path, specs: list[str], says: str) -> None:
    error = refused("--", *specs)
    assert error.code == "KV-INIT-003"
    assert says in error.what
    assert not (here / "inventory.yaml").exists()


def test_no_directory_to_write_to(here: Path) -> None:
    assert refused("a=a:gpu", "-o", str(here / "absent" / "x.yaml")).code == "KV-INIT-004"


def test_without_a_terminal_it_does_not_ask() -> None:
    assert refused(stdin="").code == "KV-INIT-001"


def test_on_a_terminal_it_asks(here: Path) -> None:
    """A real pseudo-terminal; a wrong answer is explained and asked again."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kvctl", "init"],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), "HOME": str(here), "PATH": os.environ["PATH"]},
    )
    os.close(follower)
    os.write(leader, b"oslo\na=10.0.0.1:tape\na=10.0.0.1:gpu\n\n")
    out, err = process.communicate(timeout=60)
    os.close(leader)
    assert process.returncode == 0, err
    assert out == b""
    assert b"there is no role 'tape'" in err
    inventory = load(here / "inventory.yaml").inventory
    assert (inventory.site.name, len(inventory.nodes)) == ("oslo", 1)
