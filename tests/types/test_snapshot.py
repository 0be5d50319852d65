"""A snapshot is read as it was written, by those who trust its writer, and shows no key to anybody else."""

import time
from pathlib import Path

import msgspec
import pytest

from kvctl.connector.keys import Identity
from kvctl.connector.pseudonym import pseudonym
from kvctl.connector.signed import SignatureError, sign_text, verify_text
from kvctl.connector.snapshotfile import read_snapshot, write_snapshot
from kvctl.types.errors import KvctlError
from kvctl.types.snapshot import DomainView, KeyView, Snapshot, TenantView, from_text, to_text

NOW = int(time.time())
DOMAIN = DomainView(name="user", epoch=bytes(16), salt_key=b"k" * 32)
KEY = KeyView(id="k1", sha256="ab" * 32, domain="user", scopes=("inference",), expires_at=NOW)
TENANT = TenantView(
    name="acme", state="active", sla="gold", processing_countries=("DE",), subject_key=b"s" * 32,
    retention={"conversation": 60, "common": None}, domains=(DOMAIN,), keys=(KEY,), common=("cd" * 32,),
)  # fmt: skip
SNAPSHOT = Snapshot(site="fra1", number=3, issued_at=NOW, expires_at=NOW + 60, tenants=(TENANT,))


@pytest.fixture
def controller() -> Identity:
    return Identity.generate()


def code(path: Path, trusted: list[bytes], **how) -> str:
    with pytest.raises(KvctlError) as refused:
        read_snapshot(path, trusted, **({"now": NOW} | how))
    return refused.value.code


def test_it_is_read_as_it_was_written(tmp_path: Path, controller: Identity):
    path = tmp_path / "snapshot"
    write_snapshot(path, SNAPSHOT, controller)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_snapshot(path, [controller.public], now=NOW, newest=3) == SNAPSHOT
    assert path.read_bytes().count(b"\n") == 1


def test_who_signed_and_when_matters(tmp_path: Path, controller: Identity):
    path = tmp_path / "snapshot"
    write_snapshot(path, SNAPSHOT, controller)
    trusted = [controller.public]
    assert code(path, [Identity.generate().public]) == "KV-GATE-010"
    assert code(path, []) == "KV-GATE-010"
    assert code(path, trusted, newest=4) == "KV-GATE-012"
    assert code(path, trusted, now=NOW + 60) == "KV-GATE-013"
    text = path.read_bytes()
    path.write_bytes(text.replace(b"acme", b"acmE"))
    assert code(path, trusted) == "KV-GATE-010"
    path.write_bytes(text[:-20])
    assert code(path, trusted) == "KV-GATE-010"
    path.chmod(0o644)
    assert code(path, trusted) == "KV-CONN-011"


def test_a_field_of_a_later_version_is_refused(tmp_path: Path, controller: Identity):
    path = tmp_path / "snapshot"
    later = to_text(SNAPSHOT).replace('"sla":', '"limit_of_a_later_version":1,"sla":')
    path.write_bytes(sign_text(later, b"kvctl snapshot 1\0", controller))
    path.chmod(0o600)
    assert code(path, [controller.public]) == "KV-GATE-011"


def test_a_signature_is_of_its_label(controller: Identity):
    line = sign_text("text", b"one\0", controller)
    assert verify_text(line, b"one\0", [controller.public]) == "text"
    with pytest.raises(SignatureError):
        verify_text(line, b"two\0", [controller.public])


def test_many_tenants_fit(tmp_path: Path, controller: Identity):
    many = tuple(msgspec.structs.replace(TENANT, name=f"t{number}") for number in range(2000))
    big = msgspec.structs.replace(SNAPSHOT, tenants=many)
    write_snapshot(tmp_path / "snapshot", big, controller)
    assert read_snapshot(tmp_path / "snapshot", [controller.public], now=NOW) == big


@pytest.mark.parametrize(
    "change",
    [
        '"weight":0', '"subject_key":"AAAA"', '"max_concurrent":0', '"sla":"tin"', '"state":"off"',
        '"require_subject":"no"',
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(change: str):
    fields = msgspec.json.decode(to_text(SNAPSHOT))
    fields["tenants"][0] |= msgspec.json.decode("{" + change + "}")
    with pytest.raises(ValueError, match=r".+"):
        from_text(msgspec.json.encode(fields).decode())


def test_a_key_of_no_domain_is_refused():
    with pytest.raises(ValueError, match="k1"):
        TenantView(name="x", state="active", sla="gold", subject_key=b"s" * 32, keys=(KEY,))


def test_nothing_shows_a_key():
    shown = repr(SNAPSHOT) + repr(TENANT) + repr(DOMAIN) + repr(KEY) + repr([TENANT])
    assert "kkkk" not in shown
    assert "ssss" not in shown
    assert KEY.sha256 not in shown


def test_pseudonyms():
    one = pseudonym(b"s" * 32, "user@example.org")
    assert len(one) == 16
    assert one == pseudonym(b"s" * 32, "user@example.org") != pseudonym(b"t" * 32, "user@example.org")
    for bad in ("", "x" * 513):
        with pytest.raises(ValueError, match="512"):
            pseudonym(b"s" * 32, bad)
