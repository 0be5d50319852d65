import json
import os
import subprocess
import sys
from pathlib import Path

from kvctl.fleet.inventory.ansible import ansible_inventory
from kvctl.fleet.inventory.load import load

EXAMPLE = Path(__file__).parents[3] / "inventory.example.yaml"


def test_ansible_reads_it(tmp_path: Path) -> None:
    """ansible-inventory itself says what it makes of our document."""
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps(ansible_inventory(load(EXAMPLE).inventory)))
    run = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(file), "--list"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path), "ANSIBLE_HOME": str(tmp_path)},
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert seen["role_storage"]["hosts"] == ["storage1", "storage2", "storage3"]
    assert seen["pool_decode"]["hosts"] == ["gpu2"]
    host = seen["_meta"]["hostvars"]["gpu2"]
    assert (host["ansible_host"], host["ansible_port"], host["ansible_user"]) == ("10.10.0.22", 2222, "kvctl")
    assert host["ansible_become"] is True
    assert seen["_meta"]["hostvars"]["storage1"]["ansible_become"] is False


def test_it_holds_no_secret() -> None:
    text = json.dumps(ansible_inventory(load(EXAMPLE).inventory))
    assert "credentials" not in text
    assert "/etc/kvctl/bmc" not in text
