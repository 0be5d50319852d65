import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.connector import wire
from kvctl.connector.wire import Refusal, Type, WireError
from kvctl.types.chunks import Ack, Kind, Meta

keys = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=70)
metas = st.builds(
    Meta,
    expires_at=st.integers(0, 2**64 - 1),
    subject=st.binary(min_size=16, max_size=16),
    model=st.binary(min_size=16, max_size=16),
    kind=st.sampled_from(Kind),
    position=st.integers(0, 2**32 - 1),
    recompute_us=st.integers(0, 2**32 - 1),
)


def refused(header: bytes) -> Refusal:
    with pytest.raises(WireError) as bad:
        wire.unpack(header)
    return bad.value.refusal


class TestHeader:
    @given(st.data(), st.sampled_from(Type), st.integers(0, wire.MAX_SLOTS - 1), st.integers(0, 2**32 - 1))
    def test_what_is_packed_comes_back(self, data: st.DataObject, kind: Type, slot: int, request: int) -> None:
        length = data.draw(st.integers(*wire.LIMITS[kind]))
        flags = data.draw(st.sampled_from([0, wire.FATAL])) if kind is Type.ERROR else 0
        header = wire.pack(kind, length, slot=slot, flags=flags, request=request)
        assert wire.unpack(header) == wire.Frame(kind, slot, flags, request, length)

    @given(st.binary(min_size=20, max_size=20))
    def test_any_bytes_are_a_frame_within_its_limits_or_refused(self, header: bytes) -> None:
        try:
            frame = wire.unpack(b"kv\1" + header[3:])
        except WireError:
            return
        low, high = wire.LIMITS[frame.type]
        assert low <= frame.length <= high
        assert frame.slot < wire.MAX_SLOTS

    @pytest.mark.parametrize("kind", Type)
    def test_one_byte_outside_its_limits_is_refused(self, kind: Type) -> None:
        low, high = wire.LIMITS[kind]
        assert refused(wire.pack(kind, high + 1)) is Refusal.TOO_LARGE
        if low:
            assert refused(wire.pack(kind, low - 1)) is Refusal.MALFORMED

    def test_what_is_no_frame(self) -> None:
        good = wire.pack(Type.STAT, 0)
        assert refused(b"HT" + good[2:]) is Refusal.MALFORMED
        assert refused(good[:2] + b"\2" + good[3:]) is Refusal.VERSION
        assert refused(good[:3] + b"\x63" + good[4:]) is Refusal.MALFORMED
        assert refused(wire.pack(Type.STAT, 0, slot=wire.MAX_SLOTS)) is Refusal.MALFORMED
        assert refused(wire.pack(Type.STAT, 0, flags=1)) is Refusal.MALFORMED
        assert refused(wire.pack(Type.ERROR, 2, flags=3)) is Refusal.MALFORMED

    def test_every_type_has_its_limits(self) -> None:
        assert set(wire.LIMITS) == set(Type)


class TestBitmap:
    @given(st.lists(st.booleans(), min_size=1, max_size=wire.MAX_KEYS))
    def test_what_is_packed_comes_back(self, present: list[bool]) -> None:
        body = wire.pack_bitmap(present)
        assert len(body) == (len(present) + 7) // 8
        assert wire.unpack_bitmap(body, len(present)) == present

    @given(st.lists(st.booleans(), min_size=1, max_size=100))
    def test_key_by_key(self, present: list[bool]) -> None:
        body = wire.pack_bitmap(present)
        assert [bool(body[at // 8] >> at % 8 & 1) for at in range(len(present))] == present

    @given(st.binary(max_size=20), st.integers(0, 170))
    def test_another_length_or_bits_of_no_key_are_refused(self, body: bytes, count: int) -> None:
        try:
            present = wire.unpack_bitmap(body, count)
        except WireError:
            return
        assert len(present) == count
        assert (wire.pack_bitmap(present) if count else b"") == body


class TestKeys:
    @given(st.sampled_from([Type.HAS, Type.GET]), keys, st.integers(0, 2**32 - 1))
    def test_what_is_packed_comes_back(self, kind: Type, some: list[bytes], number: int) -> None:
        assert wire.unpack_keys(kind, wire.pack_keys(kind, some, number)) == (number, some)

    @given(keys)
    def test_a_touch_has_no_number(self, some: list[bytes]) -> None:
        body = wire.pack_keys(Type.TOUCH, some)
        assert body == b"".join(some)
        assert wire.unpack_keys(Type.TOUCH, body) == (0, some)

    @given(keys, st.integers(1, 31))
    def test_half_a_key_is_refused(self, some: list[bytes], short: int) -> None:
        with pytest.raises(WireError, match="whole keys"):
            wire.unpack_keys(Type.GET, wire.pack_keys(Type.GET, some)[:-short])

    def test_no_key_is_refused(self) -> None:
        with pytest.raises(WireError, match="whole keys"):
            wire.unpack_keys(Type.GET, bytes(4))

    def test_what_is_no_key_is_not_packed(self) -> None:
        with pytest.raises(ValueError, match="32 bytes"):
            wire.pack_keys(Type.GET, [bytes(31), bytes(33)])


class TestBodies:
    @given(st.binary(min_size=32, max_size=32), metas, st.sampled_from(Ack))
    def test_a_put_comes_back(self, key: bytes, meta: Meta, ack: Ack) -> None:
        assert wire.unpack_put(wire.pack_put(key, meta, ack)) == (key, meta, ack)

    @pytest.mark.parametrize(("at", "value"), [(32, 2), (33, 2), (34, 1), (35, 1)])
    def test_a_put_with_numbers_of_no_meaning_is_refused(self, at: int, value: int) -> None:
        head = bytearray(wire.pack_put(bytes(32), Meta(), Ack.VISIBLE))
        head[at] = value
        with pytest.raises(WireError, match="PUT"):
            wire.unpack_put(head)

    @given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
    def test_a_hello_comes_back(self, public: bytes, nonce: bytes) -> None:
        assert wire.unpack_hello(wire.pack_hello(public, nonce)) == (public, nonce)

    @pytest.mark.parametrize("head", [b"\2\3\1\0", b"\0\0\1\0", b"\1\1\2\0", b"\1\1\1\1"])
    def test_a_hello_of_nothing_in_common_is_refused(self, head: bytes) -> None:
        with pytest.raises(WireError):
            wire.unpack_hello(head + bytes(64))

    def test_a_newer_connector_that_speaks_version_1_too_is_let_in(self) -> None:
        assert wire.unpack_hello(b"\1\7\1\0" + bytes(64)) == (bytes(32), bytes(32))

    @given(st.sampled_from(Refusal), st.text(max_size=300))
    def test_an_error_comes_back(self, refusal: Refusal, why: str) -> None:
        error = wire.unpack_error(wire.pack_error(refusal, why))
        assert (error.refusal, error.why) == (refusal, why)

    @given(st.binary(min_size=2, max_size=50))
    def test_any_error_is_read(self, body: bytes) -> None:
        assert wire.unpack_error(body).refusal in Refusal

    def test_a_long_reason_fits_its_frame(self) -> None:
        assert len(wire.pack_error(Refusal.INTERNAL, "é" * 20_000)) <= wire.LIMITS[Type.ERROR][1]

    def test_each_side_signs_another_text(self) -> None:
        parts = (b"s" * 32, b"n" * 32, b"c" * 32, b"m" * 32)
        assert wire.proof_text(wire.HELLO_LABEL, *parts) != wire.proof_text(wire.WELCOME_LABEL, *parts)
