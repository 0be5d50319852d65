"""kvstored's configuration: what it says, and what is wrong with it, with the line."""

import re
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.daemon.fields import Size
from kvctl.store.config import Admin, Config, Limits, Policy, load, parse, read_revoked, restart_needed
from kvctl.types.errors import KvctlError
from kvctl.types.resources import PACKAGE

MANUAL = (PACKAGE.parent / "docs/kvstored.md").read_text()
KEY = "5" * 64  # digits alone: no reader may take it for a number
WHOLE = f"""\
schema: 1
node: storage1
listen: ["tcp:10.0.0.5:7740", "unix:/run/kvctl/store.sock"]
admin:
  socket: /run/kvctl/store-admin.sock
  metrics: tcp:127.0.0.1:7741
identity: /etc/kvctl/store.key
connectors:
  gpu1: {KEY}
controllers: {{site: {"ab" * 32}}}
ram: 8GiB
tiers:
  flash:
    mounts:
      - path: /srv/kvctl/A1
        capacity: 3.5TiB
  object:
    s3: {{bucket: kvs, endpoint: "http://10.0.0.9:8333", credentials: /etc/kvctl/s3.json}}
    capacity: 100TiB
policy: {{eviction: lru, second_touch_above: 0.9, high: 0.95, low: 0.90}}
quotas: {{tenant-a: 500GiB}}
default_quota: null
limits: {{sessions: 512, hello_seconds: 2.5, chunk: 64MiB}}
"""


def read(text: str) -> Config:
    return parse(text.encode(), "kvstored.yaml")


def test_everything_is_read_as_it_is_meant():
    config = read(WHOLE)
    assert config.connectors["gpu1"] == b"\x55" * 32
    assert config.ram == 8 << 30
    assert config.tiers.flash is not None
    assert config.tiers.flash.mounts[0].capacity == 7 << 39
    assert config.tiers.object is not None
    assert config.tiers.object.s3.region == "us-east-1"
    assert config.quotas == {"tenant-a": 500 << 30}
    assert config.default_quota is None
    assert config.limits.hello_seconds == 2.5
    assert config.limits.frame_seconds == 30
    assert config.listen[0].address == ("10.0.0.5", 7740)
    assert config.listen[1].path == "/run/kvctl/store.sock"


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("node: storage1", "node: storage1\nnode: b", 3, "'node' stands twice"),
        ("ram: 8GiB", "ram: 8GiB\ncolour: red", 12, "colour is no key"),
        ("capacity: 3.5TiB", "capacity: 3.5TiB\n        size: 1", 17, "tiers.flash.mounts[0].size is no key"),
        ("3.5TiB", "3.5 parsecs", 16, "tiers.flash.mounts[0].capacity is wrong"),
        ("3.5TiB", "0.3B", 16, "not a whole number of bytes"),
        ("node: storage1\n", "", 1, "node is missing"),
        (KEY, "zz", 9, "connectors.gpu1 is wrong"),
        (KEY, "ab" * 32 + f"\n  gpu2: {'ab' * 32}", 10, "has the key of gpu1"),
        ("500GiB", "much", 21, "quotas.tenant-a is wrong"),
        ("sessions: 512", "sessions: 0", 23, "limits.sessions is wrong"),
        ("sessions: 512", "sessions: many", 23, "limits.sessions is wrong"),
        ("low: 0.90", "low: 0.97", 20, "policy.low is wrong"),
        ("low: 0.90", "low: nan", 20, "policy.low is wrong"),
        ("eviction: lru", "eviction: dice", 20, "policy.eviction is wrong"),
        ("chunk: 64MiB", "chunk: 1GiB", 23, "limits.chunk is wrong"),
        ("ram: 8GiB", "ram: 1MiB", 11, "at least two chunks"),
        ("ram: 8GiB", "ram: [8]", 11, "ram is wrong"),
        ("ram: 8GiB", "ram:", 11, "ram is wrong"),
        ("tcp:10.0.0.5:7740", "udp:10.0.0.5:7740", 3, "listen[0] is wrong"),
        ("tcp:10.0.0.5:7740", "tcp:10.0.0.5:99999", 3, "listen[0] is wrong"),
        ("schema: 1", "schema: 2", 1, "schema is wrong"),
        ("ram: 8GiB", "ram: &a 8GiB", 11, "anchors"),
        ("ram: 8GiB", "ram: !!int 8", 11, "tag"),
        ("ram: 8GiB", "ram: " + "[" * 40 + "]" * 40, 11, "levels"),
        ("mounts:", "mounts: []\n    x:", 14, "tiers.flash.mounts is wrong"),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, line: int, said: str):
    assert old in WHOLE
    with pytest.raises(KvctlError) as caught:
        read(WHOLE.replace(old, new, 1))
    assert said in str(caught.value)
    assert f"kvstored.yaml:{line}" == caught.value.where


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "[]",
        "5",
        "ram: {{{{{{{{{{{{{{{{{{{{",
        "a: 1\n---\nb: 2\n",
        "\0",
        "a: \ud800".encode("utf-8", "surrogatepass"),
    ],
)
def test_what_is_no_configuration_is_refused(text: str | bytes):
    raw = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(KvctlError) as caught:
        parse(raw, "f")
    assert caught.value.code in ("KV-STORE-003", "KV-STORE-006")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_code(text: str):
    with pytest.raises(KvctlError):
        read(text)


@given(st.sampled_from(WHOLE.splitlines()), st.text(max_size=10), st.integers(0, 30))
def test_a_damaged_line_is_read_or_refused_with_a_code(line: str, noise: str, at: int):
    with suppress(KvctlError):
        read(WHOLE.replace(line, line[:at] + noise + line[at:], 1))


def test_what_a_reload_cannot_change():
    old = read(WHOLE)
    new = read(WHOLE.replace("8GiB", "9GiB").replace("sessions: 512", "sessions: 5").replace("gpu1", "gpu2"))
    assert restart_needed(old, new) == ["ram"]


def test_revoked_ids_are_read_with_comments_and_judged(tmp_path):
    file = tmp_path / "revoked"
    config = msgspec.structs.replace(read(WHOLE), revoked=str(file))
    file.write_text(f"# since Monday\n{'ab' * 16}  # gpu7\n\n")
    assert read_revoked(config) == {b"\xab" * 16}
    file.write_text(f"{'ab' * 16}\nnope\n")
    with pytest.raises(KvctlError) as caught:
        read_revoked(config)
    assert caught.value.where.endswith("revoked:2")


def test_a_file_of_revoked_ids_that_is_named_must_be_there(tmp_path):
    with pytest.raises(KvctlError) as caught:
        read_revoked(msgspec.structs.replace(read(WHOLE), revoked=str(tmp_path / "revoked")))
    assert caught.value.code == "KV-STORE-002"
    assert read_revoked(msgspec.structs.replace(read(WHOLE), revoked=None, state=str(tmp_path))) == frozenset()


def test_a_missing_file_has_its_own_code(tmp_path):
    with pytest.raises(KvctlError) as caught:
        load(tmp_path / "nothing")
    assert caught.value.code == "KV-STORE-001"


def test_the_manual_shows_a_configuration_that_is_in_order():
    example = MANUAL.split("```yaml\n")[1].split("```")[0]
    assert read(example).node == "storage1"


@pytest.mark.parametrize("section", [Config, Admin, Policy, Limits])
def test_the_manual_names_every_key(section: type[msgspec.Struct]):
    prefix = "" if section is Config else section.__name__.lower() + "."
    for name in section.__struct_fields__:
        assert f"`{prefix}{name}" in MANUAL, f"{prefix}{name} is not in docs/kvstored.md"


def test_the_manual_gives_the_defaults_in_force():
    rows = dict(re.findall(r"^\| `limits\.(\w+)` \| (\S+) \|", MANUAL, re.MULTILINE))
    for name, written in rows.items():
        default = getattr(Limits(), name)
        assert (Size.parse(written) if isinstance(default, Size) else float(written)) == default, name
