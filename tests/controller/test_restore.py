"""Destroyed keys do not come back with a backup, however often and of whichever log it is put back."""

import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvctl.controller import backup as archive
from kvctl.controller.books import Books
from kvctl.controller.checks import checks, run
from kvctl.controller.core import Controller
from kvctl.controller.destroyed_keys import LEFT_OUT
from kvctl.controller.keystore import KeyStore
from kvctl.controller.restore import Restored, restore
from kvctl.controller.settings import ControllerSettings
from kvctl.types.errors import RefusedError
from kvctl.types.events import Event
from kvctl.types.requests import BackupMake, EpochRotate, TenantCreate, TenantOffboard, TenantScope
from tests.controller.people import OPERATOR, controller


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path


def create(ctl: Controller, *names: str) -> None:
    for name in names:
        ctl.call("tenant.create", OPERATOR, TenantCreate(name, "Acme SAS", "FR"))


def backup(ctl: Controller, name: str) -> Path:
    file = str(ctl.directory.parent / name)
    return Path(ctl.call("controller.backup", OPERATOR, BackupMake(file))["file"])


def destroy(ctl: Controller, tenant: str) -> str:
    """Rotate, and destroy what was there; the file that is gone."""
    before = set(files(ctl.directory))
    ctl.call("key.rotate", OPERATOR, EpochRotate(tenant, "user", destroy_old=True))
    (gone,) = before - set(files(ctl.directory))
    return gone


def offboard(ctl: Controller, tenant: str) -> None:
    ctl.call("tenant.offboard", OPERATOR, TenantOffboard(tenant, tenant))


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "keys").iterdir())


def put_back(site: Path, file: Path, force: str = "paris", **more: Any) -> Restored:
    settings = ControllerSettings("paris", "FR", "Acme SAS", site / "paris")
    return restore(settings, file, OPERATOR, force=force, **more)


def judged(ctl: Controller, *names: str) -> dict[str, tuple[str, list[str]]]:
    found = run(ctl, [check for check in checks() if check.id in names])
    return {one.check.id: (str(one.verdict), [str(row.get("what")) for row in one.rows]) for one in found}


def killed(site: Path, what: Callable[[Controller], Any]) -> None:
    """Do something in a controller whose process then ends without another word: its files as they were before."""
    at = site / "paris"
    with controller(site) as ctl:
        ctl.books.log.checkpoint()
        published = (at / archive.LOG / "checkpoint").read_bytes()
        shutil.copytree(at / archive.LOG / "tile", site / "tile")
        what(ctl)
        shutil.copytree(at / archive.LOG / "tail", site / "tail")
    for name in ("tile", "tail"):
        shutil.rmtree(at / archive.LOG / name)
        shutil.move(site / name, at / archive.LOG / name)
    (at / archive.LOG / "checkpoint").write_bytes(published)


def test_a_destroyed_key_stays_away_at_the_second_restore_too(site: Path):
    with controller(site) as ctl:
        create(ctl, "acme")
        file = backup(ctl, "b")
        gone = destroy(ctl, "acme")
    for _ in range(3):
        assert put_back(site, file).keys_left_out == [gone]
        assert gone not in files(site / "paris")
    with controller(site) as ctl:
        assert judged(ctl, "E4", "X2", "L1") == {name: ("PASS", []) for name in ("E4", "L1", "X2")}


def test_what_one_backup_did_not_have_is_remembered_for_the_next(site: Path):
    """The first backup put back has not the second key; its log does not tell of it but for what the restore wrote."""
    with controller(site) as ctl:
        create(ctl, "acme")
        first = backup(ctl, "first")
        create(ctl, "zen")
        second = backup(ctl, "second")
        gone = destroy(ctl, "zen")
    assert put_back(site, first).keys_left_out == []
    for aside in (site / "paris").glob("before-restore-*"):
        shutil.rmtree(aside)
    assert put_back(site, second).keys_left_out == [gone]
    assert gone not in files(site / "paris")


def test_a_restore_that_was_cut_off_forgets_nothing(site: Path):
    """It ended when what was there had been moved away, and nothing was in its place."""
    with controller(site) as ctl:
        create(ctl, "acme")
        file = backup(ctl, "b")
        gone = destroy(ctl, "acme")
    master = Path(shutil.copy(site / "paris" / "keys" / "master.key", site / "master"))
    aside = site / "paris" / "before-restore-20260101-000000"
    (aside / "ledger").mkdir(parents=True)
    (site / "paris" / archive.LOG).rename(aside / archive.LOG)
    assert put_back(site, file, force="", master=master).keys_left_out == [gone]


def test_the_key_behind_pseudonyms_stays_away(site: Path):
    with controller(site) as ctl:
        create(ctl, "acme", "bye")
        file = backup(ctl, "b")
        kept = (ctl.directory / "keys" / "bye.subject").read_bytes()
        offboard(ctl, "bye")
    for _ in range(2):
        left_out = put_back(site, file).keys_left_out
        assert [(name.split(".")[0], name.split(".")[-1]) for name in left_out] == [("bye", "subject"), ("bye", "root")]
        assert "bye.subject" not in files(site / "paris")
        assert "acme.subject" in files(site / "paris")
    with controller(site) as ctl:
        assert judged(ctl, "E4", "X2") == {"E4": ("PASS", []), "X2": ("PASS", [])}
        (ctl.directory / "keys" / "bye.subject").write_bytes(kept)
        assert judged(ctl, "E4")["E4"] == (
            "FAIL", ["it was destroyed before a backup was put back, which left it out, and is in the key store"],
        )  # fmt: skip


def test_a_tenant_of_the_same_name_keeps_its_own_key(site: Path):
    """In a log from before the first one was taken in, the name is free again."""
    with controller(site) as ctl:
        before = backup(ctl, "before")
        create(ctl, "acme")
        offboard(ctl, "acme")
    put_back(site, before)
    with controller(site) as ctl:
        create(ctl, "acme")
        again = backup(ctl, "again")
        fingerprint = ctl.keystore.subject_fingerprint("acme")
    assert put_back(site, again).keys_left_out == []
    with controller(site) as ctl:
        assert ctl.keystore.subject_fingerprint("acme") == fingerprint
        assert judged(ctl, "E4", "X2") == {"E4": ("PASS", []), "X2": ("PASS", [])}


def test_what_is_to_be_done_about_keys_that_were_left_out(site: Path):
    with controller(site) as ctl:
        create(ctl, "acme", "bye")
        file = backup(ctl, "b")
        destroy(ctl, "acme")
        offboard(ctl, "bye")
    put_back(site, file)
    with controller(site) as ctl:
        ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user"))
        offboard(ctl, "bye")
        assert {name.split(".")[0] for name in files(ctl.directory)} == {"acme", "master"}
        assert len(ctl.keystore.scopes("acme")) == 1
        assert judged(ctl, "E4", "X2", "L1") == {name: ("PASS", []) for name in ("E4", "L1", "X2")}


def test_what_only_the_journal_has_counts(site: Path):
    """A key is destroyed, and the process killed before a checkpoint covers it."""
    with controller(site) as ctl:
        create(ctl, "acme")
        file = backup(ctl, "b")
    gone: list[str] = []
    killed(site, lambda ctl: gone.append(destroy(ctl, "acme")))
    with pytest.raises(RefusedError, match="KV-CTL-061"):
        put_back(site, file, force="")
    assert put_back(site, file).keys_left_out == gone


def test_a_key_that_is_destroyed_later_is_destroyed_where_a_restore_put_it_aside_too(site: Path):
    with controller(site) as ctl:
        create(ctl, "acme", "zen")
        file = backup(ctl, "b")
    aside = put_back(site, file).aside
    assert aside
    with controller(site) as ctl:
        gone = destroy(ctl, "acme")
        offboard(ctl, "zen")
    left = {path.name for path in (aside / "keys").iterdir()}
    assert gone not in left
    assert {name.split(".")[0] for name in left} == {"acme", "master"}


@pytest.mark.parametrize("left", [".restoring-0123456789ab", "backups/.staging-0123456789ab"])
def test_what_a_killed_process_left_of_keys_goes_with_the_next(site: Path, left: str):
    with controller(site) as ctl:
        create(ctl, "acme")
        shutil.copytree(ctl.directory / "keys", ctl.directory / left / "keys")
        file = backup(ctl, "b")
    put_back(site, file)
    assert not (site / "paris" / left).exists()


class Crash(BaseException):
    """The process ends here."""


def test_a_key_whose_destruction_has_begun_does_not_come_back(site: Path, monkeypatch: pytest.MonkeyPatch):
    def crash(*_: object) -> str:
        raise Crash

    with controller(site) as ctl:
        create(ctl, "acme")
        file = backup(ctl, "b")
        (doomed,) = (name for name in files(ctl.directory) if name.endswith(".root"))
        with monkeypatch.context() as patch:
            patch.setattr(KeyStore, "destroy", crash)
            with pytest.raises(Crash):
                ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user", destroy_old=True))
        begun = backup(ctl, "begun")
    with tarfile.open(begun) as tar:
        assert f"keys/{doomed}" not in tar.getnames()
    assert put_back(site, file).keys_left_out == [doomed]


def test_a_log_of_fewer_events_is_not_given_up_unasked_either(site: Path):
    """After a restore, the log that is there is shorter than a newer backup's, and no part of it."""
    with controller(site) as ctl:
        create(ctl, "acme")
        first = backup(ctl, "first")
        create(ctl, *(f"t{number}" for number in range(3)))
        second = backup(ctl, "second")
    put_back(site, first)
    with controller(site) as ctl:
        gone = destroy(ctl, "acme")
    with pytest.raises(RefusedError) as caught:
        put_back(site, second, force="")
    assert caught.value.code == "KV-CTL-061"
    assert gone in put_back(site, second).keys_left_out


def test_a_damaged_log_is_replaced_only_by_its_name_and_tells_what_it_can(site: Path):
    with controller(site) as ctl:
        create(ctl, "acme", "zen")
        file = backup(ctl, "b")
        gone = destroy(ctl, "acme")
        ctl.books.log.checkpoint()
    (tile,) = (site / "paris" / archive.LOG / "tile" / "entries" / "000.p").iterdir()
    tile.unlink()  # the journal has its entries
    assert put_back(site, file, dry_run=True).keys_left_out == [gone]
    for segment in (site / "paris" / archive.LOG / "tail").iterdir():
        segment.write_bytes(b"nothing")
    with pytest.raises(RefusedError) as caught:
        put_back(site, file, force="")
    assert "cannot be read: keys whose destruction they tell of would come back" in (caught.value.why or "")
    put_back(site, file)
    with controller(site) as ctl:
        told = next(event for event in ctl.books.recorded(0) if event.kind == "backup.restored")
        assert told.data["unread"] > 0


def test_more_keys_than_one_event_takes(site: Path):
    with controller(site) as ctl:
        create(ctl, "acme")
        file = backup(ctl, "b")
        names = [f"{number:032x}" for number in range(1000)]
        gone = [Event("epoch.destroying", {"domain": "user", "epoch": name}, "acme") for name in names]
        ctl.books.commit(OPERATOR, gone)
    put_back(site, file)
    with controller(site) as ctl:
        told = [event for event in ctl.books.recorded(0) if event.kind == LEFT_OUT]
        assert {event.tenant for event in told} == {"acme"}
        assert [key["file"] for event in told for key in event.data["keys"]] == [f"acme.user.{n}.root" for n in names]


# --- what is in an archive is what was decided on -------------------------------------------------------------------
@pytest.fixture
def ctl(site: Path) -> Iterator[Controller]:
    with controller(site) as made:
        create(made, "acme")
        yield made


def tenants_in(file: Path) -> set[str]:
    with tarfile.open(file) as tar:
        return {name.split("/")[1].split(".")[0] for name in tar.getnames() if name.startswith("keys/")}


def decided(ctl: Controller) -> set[str | None]:
    return {e.tenant for e in ctl.books.recorded(0) if e.kind == "decision.made" and e.data["action"] == "backup"}


@pytest.mark.parametrize("when", ["copy_log", "copy_keys", "copy_tables", "pack"])
def test_a_tenant_that_comes_while_a_backup_is_made(ctl: Controller, monkeypatch: pytest.MonkeyPatch, when: str):
    """Beside each step somebody takes in a tenant, in a thread of its own; it waits, or is before or behind it."""
    real, threads = getattr(archive, when), []

    def beside(*given: Any, **more: Any) -> Any:
        if not threads:
            threads.append(threading.Thread(target=create, args=(ctl, "late")))
            threads[0].start()
            threads[0].join(0.5 if when == "copy_keys" else None)  # then changes wait
        return real(*given, **more)

    monkeypatch.setattr(archive, when, beside)
    file = backup(ctl, "b")
    threads[0].join()
    assert tenants_in(file) == decided(ctl) == ({"acme", "late"} if when == "copy_log" else {"acme"})
    assert ctl.call("tenant.ls", OPERATOR, TenantScope())["tenants"][-1]["tenant"] == "late"
    assert judged(ctl, "R5") == {"R5": ("PASS", [])}


def test_changes_go_on_while_an_archive_is_written(ctl: Controller, monkeypatch: pytest.MonkeyPatch):
    real = archive.pack

    def slow(*given: Any) -> None:
        thread = threading.Thread(target=create, args=(ctl, "meanwhile"))
        thread.start()
        thread.join(30)
        assert not thread.is_alive(), "it waits for the archive"
        real(*given)

    monkeypatch.setattr(archive, "pack", slow)
    backup(ctl, "b")


def test_a_tenant_in_an_archive_without_a_decision_is_found(ctl: Controller):
    create(ctl, "zen")
    backup(ctl, "b")
    with ctl.books.state.writing() as db:
        db.execute("DELETE FROM decisions WHERE tenant = 'zen'")
    assert judged(ctl, "R5")["R5"][0] == "FAIL"


def test_keys_of_no_event_are_in_no_archive(ctl: Controller, monkeypatch: pytest.MonkeyPatch):
    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Books, "commit", crash)
        with pytest.raises(Crash):
            create(ctl, "stray")
    assert ctl.keystore.scopes("stray")
    assert tenants_in(backup(ctl, "b")) == {"acme"}
