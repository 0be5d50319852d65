"""What a configuration may say, and what is said about a wrong one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kvctl.bench.stub_engine import StubEngine
from kvctl.connector.keys import Identity
from kvctl.gateway.config import parse
from kvctl.types.errors import UsageError
from tests.gateway.site import settings


def written(**changes: Any) -> bytes:
    base = settings(Path("/run/kvctl"), {"e1": StubEngine()}, Identity.generate())
    return yaml.safe_dump(base | changes, sort_keys=False).encode()


def engine(**changes: Any) -> dict[str, Any]:
    return {"name": "e1", "url": "unix:/run/e1.sock", "models": ["m"], "country": "DE"} | changes


TLS = {"certificate": "/c", "key": "/k", "ca": "/a"}


def test_what_is_written_is_read():
    config = parse(written(limits={"body": "1MiB", "queue_seconds": 2}, engines=[engine(slots=8)]), "f")
    assert (config.limits.body, config.limits.queue_seconds, config.engines[0].slots) == (1 << 20, 2, 8)
    assert config.engines[0].path == "/run/e1.sock"
    assert parse(written(engines=[engine(url="https://e1:8443", **TLS)]), "f").engines[0].path is None


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        ({"colour": "red"}, "KV-GATE-003", "colour"),
        ({"limits": {"bodies": 1}}, "KV-GATE-003", "limits.bodies"),
        ({"engines": [engine(colour=1)]}, "KV-GATE-003", "engines[0].colour"),
        ({"engines": []}, "KV-GATE-004", "engines"),
        ({"engines": [engine(), engine()]}, "KV-GATE-004", "engines[1].name"),
        ({"engines": [engine(country="Germany")]}, "KV-GATE-004", "engines[0].country"),
        ({"engines": [engine(url="http://e1:8000")]}, "KV-GATE-004", "engines[0].url"),
        ({"engines": [engine(url="https://e1:8443")]}, "KV-GATE-004", "engines[0].url"),
        ({"engines": [engine(**TLS)]}, "KV-GATE-004", "engines[0].certificate"),
        ({"engines": [engine(role="cook")]}, "KV-GATE-004", "engines[0].role"),
        ({"listen": ["tcp:1"]}, "KV-GATE-004", "listen[0]"),
        ({"listen": ["unix:/a", "unix:/a"]}, "KV-GATE-004", "listen"),
        ({"limits": {"held": "1MiB"}}, "KV-GATE-004", "limits.held"),
        ({"limits": {"held": "15MiB"}}, "KV-GATE-004", "limits.held"),
        ({"snapshot": {"path": "/s", "controllers": {}}}, "KV-GATE-004", "snapshot.controllers"),
        ({"snapshot": {"path": "/s", "controllers": {"a": "12"}}}, "KV-GATE-004", "snapshot.controllers"),
        ({"schema": "2"}, "KV-GATE-004", "schema"),
        ({"classes": {"gold": 0}}, "KV-GATE-004", "classes.gold"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(changes: dict[str, Any], code: str, where: str):
    raw = written(**changes)
    with pytest.raises(UsageError) as wrong:
        parse(raw, "f.yaml")
    assert wrong.value.code == code
    assert wrong.value.what.startswith(where)
    line = int(wrong.value.where.removeprefix("f.yaml:"))
    assert 1 <= line <= len(raw.splitlines())


@pytest.mark.parametrize("raw", [b"", b"a: [", b"a: &x 1\nb: *x", b"a: 1\na: 2", b"\xff"])
def test_what_is_no_plain_yaml(raw: bytes):
    with pytest.raises(UsageError, match=r".") as wrong:
        parse(raw, "f.yaml")
    assert wrong.value.code == "KV-GATE-002"
    assert "kvgated" in wrong.value.fix
