"""kvstored on real hosts: deployed, judged by a sealed chunk, deployed again without a change."""

import json

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
STORE = "storage1"


@pytest.fixture(scope="module")
def deployed(lab):
    lab.kvctl("provision", "--yes", "-l", STORE, ok=None)
    yield lab.json("deploy", "storage", "--yes", "-l", STORE, ok=(0,))
    lab.on(STORE, "systemctl disable --now kvstored")  # others format its drives


def test_the_store_gives_back_a_sealed_chunk(deployed):
    (store,) = deployed["stores"]
    assert (store["store"], store["put"], store["read"], store["well"]) == (STORE, "stored", "hit", True)


def test_the_chunk_it_was_judged_by_is_gone(lab, deployed):
    listed = lab.on(
        STORE,
        "python3 -c '"
        'import http.client, socket; c = http.client.HTTPConnection("s"); s = socket.socket(socket.AF_UNIX);'
        ' s.connect("/run/kvctl/store-admin.sock"); c.sock = s; c.request("GET", "/v1/ls");'
        " print(c.getresponse().read().decode())'",
    )
    assert json.loads(listed) == {"chunks": []}


def test_a_second_deployment_changes_nothing(lab, deployed):
    again = lab.json("deploy", "storage", "--yes", "-l", STORE, ok=(0,))
    assert [run["changed"] for run in again["runs"]] == [0, 0]
    assert again["stores"][0]["well"]


def test_a_dry_run_does_nothing(lab, deployed):
    before = lab.on(STORE, "ls -la --time-style=full-iso /etc/kvctl /opt/kvctl; systemctl show -p MainPID kvstored")
    lab.kvctl("deploy", "storage", "--dry-run", "-l", STORE)
    after = lab.on(STORE, "ls -la --time-style=full-iso /etc/kvctl /opt/kvctl; systemctl show -p MainPID kvstored")
    assert after == before


def test_private_keys_stay_on_the_node_and_are_the_daemons_alone(lab, deployed):
    listed = lab.on(STORE, "stat -c '%U %a %n' /etc/kvctl/store.key /etc/kvctl/store-tls.key")
    assert listed.split("\n")[:2] == ["kvctl 600 /etc/kvctl/store.key", "kvctl 600 /etc/kvctl/store-tls.key"]
    secret = lab.on(STORE, "sed -n 2p /etc/kvctl/store.key").strip()
    held = [path for path in lab.state.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert len(secret) > 40
    assert held == []


def test_the_unit_is_confined_and_comes_back_by_itself(lab, deployed):
    shown = lab.on(STORE, "systemctl show kvstored -p User,NoNewPrivileges,ProtectSystem,UnitFileState,ActiveState")
    assert set(shown.split()) >= {
        "User=kvctl", "NoNewPrivileges=yes", "ProtectSystem=strict", "UnitFileState=enabled", "ActiveState=active",
    }  # fmt: skip
    lab.on(STORE, "kill -9 $(systemctl show -p MainPID --value kvstored); sleep 0.5")
    again = lab.json("deploy", "storage", "--yes", "-l", STORE, ok=(0,))
    assert again["stores"][0]["well"]


def test_a_drive_that_is_not_mounted_is_refused_by_name(lab):
    lab.on("storage2", "for m in /srv/kvctl/*; do mountpoint -q $m && umount $m; done; true")
    done = lab.kvctl("deploy", "storage", "--dry-run", "-l", "storage2", "-o", "json", ok=(4,))
    assert "not mounted" in done.stderr
    assert "kvctl provision" in done.stderr
    lab.kvctl("provision", "--yes", "-l", "storage2", ok=None)


def test_a_gpu_node_is_no_storage_node(lab):
    done = lab.kvctl("deploy", "storage", "--dry-run", "-l", "gpu1", ok=(2,))
    assert "gpu1" in done.stderr


def test_the_controller_knows_the_store(lab, deployed):
    settings = (lab.state / "controller.yaml").read_text()
    assert STORE in settings
    assert json.dumps(deployed).count("PRIVATE") == 0
