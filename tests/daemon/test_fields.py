"""What a configuration's fields may be, and msgspec's sentences about wrong ones."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.daemon.fields import ANY_KEY, Endpoint, PublicKey, Size, Strict, custom, field_name, place, unknown_field


class Mount(Strict, frozen=True):
    capacity: Size


class Whole(Strict, frozen=True):
    mounts: tuple[Mount, ...] = ()
    keys: dict[str, PublicKey] = msgspec.field(default_factory=dict)
    listen: Endpoint | None = None


def complaint(data: object) -> str:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(data, Whole, strict=False, dec_hook=custom)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("4096", 4096), ("1KiB", 1024), ("1kB", None), ("1KB", 1000), ("1.5 MiB", 3 << 19), ("2PiB", 2 << 50)],
)
def test_sizes(text: str, size: int | None):
    if size is None:
        with pytest.raises(ValueError, match="not a size"):
            Size.parse(text)
    else:
        assert Size.parse(text) == size


def test_an_address_of_version_6_is_in_brackets():
    assert Endpoint.parse("tcp:[::1]:7740").address == ("::1", 7740)


@pytest.mark.parametrize(
    "text", ["tcp:host", "tcp::1", "tcp:host:65536", "tcp:host:²", "unix:here", "unix:/" + "a" * 107, "udp:h:1"]
)
def test_what_is_no_address(text: str):
    with pytest.raises(ValueError, match="is neither"):
        Endpoint.parse(text)


@given(st.binary(min_size=32, max_size=32))
def test_a_key_is_read_as_it_is_shown(key: bytes):
    assert PublicKey.parse(key.hex().upper()) == key


@pytest.mark.parametrize(
    ("data", "path", "said"),
    [
        ({"mounts": [{"capacity": "1"}, {"capacity": "x"}]}, ("mounts", 1, "capacity"), "is not a size"),
        ({"mounts": [{"capacity": None}]}, ("mounts", 0, "capacity"), "got nothing"),
        ({"mounts": [{"capacity": ["1"]}]}, ("mounts", 0, "capacity"), "got a list or a mapping"),
        ({"keys": {"a.b[0]": "12"}}, ("keys", ANY_KEY), "64 hexadecimal digits"),
        ([], (), "Expected `object`"),
    ],
)
def test_a_wrong_field_has_a_path_and_a_reason(data: object, path: tuple[str | int, ...], said: str):
    found, why = place(complaint(data))
    assert found == path
    assert said in why
    assert unknown_field(why) is None


def test_a_key_too_many_is_told_from_a_wrong_value():
    path, why = place(complaint({"mounts": [{"capacity": "1", "colour": "red"}]}))
    assert (path, unknown_field(why)) == (("mounts", 0), "colour")


def test_a_path_is_written_as_one_would():
    assert field_name(("tiers", "flash", "mounts", 0, "path")) == "tiers.flash.mounts[0].path"
    assert field_name(()) == ""
