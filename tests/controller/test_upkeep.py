"""How the controller stands, and backups that come back as they were."""

import json
import stat
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvctl.client.offline import export_master_key, restore
from kvctl.controller.core import Controller, opened
from kvctl.controller.restore import answers
from kvctl.controller.settings import ControllerSettings
from kvctl.state import records
from kvctl.types import requests as r
from kvctl.types.errors import KvctlError, LockedError, RefusedError, UsageError
from kvctl.types.principals import Principal, Role
from tests.controller import policy_site

ROOT = Principal("unix:root", frozenset({Role.OPERATOR, Role.ADMIN}), fresh=True)
REMOTE = Principal("local:olga", frozenset({Role.OPERATOR}), fresh=True)


def settings(state: Path) -> ControllerSettings:
    return ControllerSettings("local", "", "", state / "local", state_dir=state)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def ctl(state: Path) -> Iterator[Controller]:
    with opened(settings(state)) as found:
        yield found


def create(ctl: Controller, *names: str) -> None:
    for name in names:
        ctl.call("tenant.create", ROOT, r.TenantCreate(name, "Example"))


def names(ctl: Controller) -> list[str]:
    return [row["tenant"] for row in ctl.call("tenant.ls", ROOT, r.TenantScope())["tenants"]]


def backup(ctl: Controller, file: Path, **more: Any) -> dict[str, Any]:
    return ctl.call("controller.backup", ROOT, r.BackupMake(str(file), **more))


def put_back(state: Path, file: Path, **more: Any) -> dict[str, Any]:
    return restore(None, state, file, **{"master": None, "force": "", "dry_run": False, **more})


def test_a_backup_comes_back_with_the_same_answers(state: Path, tmp_path: Path):
    file, master = tmp_path / "b", tmp_path / "m"
    with opened(settings(state)) as ctl:
        create(ctl, *(f"t{number}" for number in range(20)))
        ctl.call("account.create", ROOT, r.AccountCreate("olga", ["operator"]))
        told = backup(ctl, file, label="weekly", days=7)
        size, before = ctl.books.log.size, answers(ctl.books.state)
        fingerprints = [ctl.keystore.fingerprint(scope) for scope in ctl.keystore.scopes()]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    export_master_key(None, state, master)
    elsewhere = tmp_path / "elsewhere"
    found = put_back(elsewhere, file, master=master)
    assert (found["same"], found["differences"], found["events"]) == (True, [], told["size"])
    assert found["aside"] is None, "nothing was there"
    with opened(settings(elsewhere)) as again:
        assert names(again) == sorted(f"t{number}" for number in range(20))
        assert [again.keystore.fingerprint(scope) for scope in again.keystore.scopes()] == fingerprints
        kinds = [event.kind for event in again.books.recorded(told["size"])]
        assert kinds == ["decision.made"] * 20 + ["backup.restored"]
        after = answers(again.books.state)
        changed = {name for name in before if before[name] != after[name]}
        assert changed <= {"applied", "events", "decisions", "backups"}
        assert size == told["size"] + 1, "the backup itself was recorded behind what it holds"
        again.call("tenant.create", ROOT, r.TenantCreate("later", "Example"))


def test_a_backup_alone_opens_nothing(ctl: Controller, tmp_path: Path):
    create(ctl, "acme")
    ctl.call("account.create", ROOT, r.AccountCreate("olga", ["operator"]))
    backup(ctl, tmp_path / "b")
    data = (tmp_path / "b").read_bytes()
    for name in ("site.key", "keys/master.key", "accounts.json"):
        secret = (ctl.directory / name).read_bytes()
        assert secret not in data, name
    with tarfile.open(tmp_path / "b") as tar:
        assert not [name for name in tar.getnames() if "master" in name or name.endswith(("site.key", "ca.key"))]
    with pytest.raises(UsageError) as caught:
        put_back(tmp_path / "new", tmp_path / "b")
    assert caught.value.code == "KV-CTL-053"
    (tmp_path / "m").write_bytes(b"\1" * 32)
    (tmp_path / "m").chmod(0o600)
    with pytest.raises(RefusedError) as refused:
        put_back(tmp_path / "new", tmp_path / "b", master=tmp_path / "m")
    assert refused.value.code == "KV-CTL-054"
    assert not (tmp_path / "new" / "local" / "governance.duckdb").exists()


def test_a_backup_is_whole_while_changes_go_on(ctl: Controller, state: Path, tmp_path: Path):
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            create(ctl, f"n{number}")
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(3):
            told = backup(ctl, tmp_path / f"b{number}")
            export_master_key(None, state, tmp_path / "m")
            found = put_back(tmp_path / f"s{number}", tmp_path / f"b{number}", master=tmp_path / "m")
            assert (found["same"], found["events"]) == (True, told["size"])
    finally:
        stop.set()
        thread.join()


def test_a_backup_is_on_record_with_its_end_and_a_decision_each_tenant(ctl: Controller, tmp_path: Path):
    create(ctl, "acme", "zen")
    before = ctl.books.log.size
    told = backup(ctl, tmp_path / "b", label="weekly")
    events = list(ctl.books.recorded(before))
    assert [(e.kind, e.tenant) for e in events] == [
        ("decision.made", "acme"), ("decision.made", "zen"), ("backup.created", None),
    ]  # fmt: skip
    assert {e.data["ref"] for e in events[:2]} == {told["backup"]}
    assert events[2].data["label"] == "weekly"
    assert events[2].data["expires_at"] == told["expires_at"]
    with ctl.books.state.reading() as db:
        assert [row["id"] for row in records.backups(db, events[2].at)] == [told["backup"]]
        assert records.backups(db, told["expires_at"]) == []


def test_residency_refuses_a_backup_elsewhere(ctl: Controller, tmp_path: Path):
    create(ctl, "acme")
    with pytest.raises(RefusedError) as caught:
        backup(ctl, tmp_path / "b", site="nowhere1")
    assert caught.value.code == "KV-CTL-056"
    assert not (tmp_path / "b").exists()
    assert list(ctl.books.recorded(0))[-1].outcome == "refused"


def test_an_undeclared_site_keeps_its_own_backups_and_takes_them_back(state: Path, tmp_path: Path):
    """A policy speaks of the places of stores; where the controller is may be none of them."""
    with opened(settings(state)) as ctl:
        create(ctl, "acme", "zen")
        policy_site.apply(ctl)
        backup(ctl, tmp_path / "b")
        export_master_key(None, state, tmp_path / "m")
    assert put_back(tmp_path / "new", tmp_path / "b", master=tmp_path / "m")["same"] is True


def test_a_policy_that_names_the_controllers_site_binds_its_backups(state: Path, tmp_path: Path):
    with opened(settings(state)) as ctl:
        create(ctl, "acme")
        policy_site.apply(
            ctl, policy_site.POLICY.replace("name: dallas,", "name: local,").replace("site: dallas", "site: local")
        )
        with pytest.raises(RefusedError, match="residency refuses this backup") as caught:
            backup(ctl, tmp_path / "b")
        assert "US is not in storage_countries [DE, FR]" in (caught.value.why or "")


def test_a_rehearsal_writes_nothing(ctl: Controller, tmp_path: Path):
    create(ctl, "acme")
    before = ctl.books.log.size
    told = backup(ctl, tmp_path / "b", dry_run=True)["would"]
    assert told["file"] == str(tmp_path / "b")
    assert (ctl.books.log.size, (tmp_path / "b").exists()) == (before, False)


def test_a_caller_elsewhere_names_no_file_of_this_machine(ctl: Controller, tmp_path: Path):
    with pytest.raises(RefusedError) as caught:
        ctl.call("controller.backup", REMOTE, r.BackupMake(str(tmp_path / "b")))
    assert caught.value.code == "KV-CTL-057"
    told = ctl.call("controller.backup", REMOTE, r.BackupMake())
    assert Path(told["file"]).parent == ctl.directory / "backups"


def test_a_file_that_is_there_is_not_written_over(ctl: Controller, tmp_path: Path):
    (tmp_path / "b").write_text("precious")
    with pytest.raises(UsageError) as caught:
        backup(ctl, tmp_path / "b")
    assert caught.value.code == "KV-CTL-051"
    assert (tmp_path / "b").read_text() == "precious"
    assert list((ctl.directory / "backups").glob(".staging*")) == [] if (ctl.directory / "backups").exists() else True


def test_a_newer_log_is_replaced_only_by_its_name(state: Path, tmp_path: Path):
    with opened(settings(state)) as ctl:
        create(ctl, "acme")
        backup(ctl, tmp_path / "b")
        create(ctl, "later")
    with pytest.raises(RefusedError) as caught:
        put_back(state, tmp_path / "b")
    assert caught.value.code == "KV-CTL-061"
    with pytest.raises(RefusedError):
        put_back(state, tmp_path / "b", force="yes")
    told = put_back(state, tmp_path / "b", force="local", dry_run=True)["would"]
    assert told["aside"] is None
    with opened(settings(state)) as ctl:
        assert names(ctl) == ["acme", "later"], "a rehearsal changed it"
    with pytest.raises(RefusedError):
        put_back(state, tmp_path / "b")
    found = put_back(state, tmp_path / "b", force="local")
    with opened(settings(state)) as ctl:
        assert names(ctl) == ["acme"]
    assert (Path(found["aside"]) / "ledger" / "control" / "checkpoint").exists()


def test_a_key_that_was_destroyed_since_stays_destroyed(state: Path, tmp_path: Path):
    with opened(settings(state)) as ctl:
        create(ctl, "acme", "zen")
        gone = next(s for s in ctl.keystore.scopes("acme") if s.domain == "user")
        backup(ctl, tmp_path / "b")
        ctl.call("key.rotate", ROOT, r.EpochRotate("acme", "user", destroy_old=True))
        assert gone not in ctl.keystore.scopes("acme")
    found = put_back(state, tmp_path / "b", force="local")
    assert found["keys_left_out"] == [f"acme.user.{gone.epoch.hex()}.root"]
    with opened(settings(state)) as ctl:
        assert gone not in ctl.keystore.scopes("acme")
        assert ctl.keystore.scopes("zen")


def test_nothing_is_put_back_under_a_running_controller(ctl: Controller, state: Path, tmp_path: Path):
    create(ctl, "acme")
    backup(ctl, tmp_path / "b")
    with pytest.raises(LockedError) as caught:
        put_back(state, tmp_path / "b")
    assert caught.value.code == "KV-CTL-010"
    assert names(ctl) == ["acme"]


def changed(source: Path, target: Path, name: str, how: Any) -> None:
    """The archive with one of its files changed."""
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        for member in old.getmembers():
            file = old.extractfile(member)
            assert file
            data = file.read()
            if member.name == name:
                data = how(data)
            member.size = len(data)
            import io

            new.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("name", ["ledger/control/checkpoint", "governance.duckdb", "secrets.sealed", "manifest.sig"])
def test_an_archive_that_was_changed_is_refused(state: Path, tmp_path: Path, name: str):
    with opened(settings(state)) as ctl:
        create(ctl, "acme")
        backup(ctl, tmp_path / "b")
    changed(tmp_path / "b", tmp_path / "c", name, lambda data: data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
    with pytest.raises(KvctlError) as caught:
        put_back(state, tmp_path / "c")
    assert caught.value.code == "KV-CTL-060"
    with opened(settings(state)) as ctl:
        assert names(ctl) == ["acme"]


def test_a_manifest_that_was_made_to_fit_is_refused(state: Path, tmp_path: Path):
    with opened(settings(state)) as ctl:
        create(ctl, "acme")
        backup(ctl, tmp_path / "b")

    def other(data: bytes) -> bytes:
        return json.dumps(json.loads(data) | {"expires_at": "2999-01-01T00:00:00Z"}).encode()

    changed(tmp_path / "b", tmp_path / "c", "manifest.json", other)
    with pytest.raises(UsageError, match="no whole backup") as caught:
        put_back(state, tmp_path / "c")
    assert "not signed" in caught.value.why


@pytest.mark.parametrize("data", [b"", b"not a tar", b"\0" * 10240])
def test_a_file_that_is_no_archive(state: Path, tmp_path: Path, data: bytes):
    (tmp_path / "b").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        put_back(state, tmp_path / "b")
    assert caught.value.code == "KV-CTL-060"
    assert [path.name for path in (state / "local").glob(".restoring*")] == []


def test_a_member_outside_of_the_archive_is_refused(state: Path, tmp_path: Path):
    with tarfile.open(tmp_path / "b", "w") as tar:
        info = tarfile.TarInfo("../../evil")
        tar.addfile(info)
    with pytest.raises(UsageError):
        put_back(state, tmp_path / "b")
    assert not (tmp_path / "evil").exists()


def test_how_it_stands_in_a_process_of_one_call(ctl: Controller):
    create(ctl, "acme")
    found = ctl.call("controller.status", ROOT, r.Nothing())
    assert (found["daemon"], found["jobs"], found["uptime_seconds"]) == (False, [], None)
    assert found["log_size"] == found["applied"] > 0
