"""One authenticated session with a store: the connector's side of the block protocol over one stream.

Each side proves its Ed25519 key over both keys and both nonces; the caller pins the store's key. One request is under
way at a time. Whatever leaves the stream out of step (a frame that does not belong here, an end in the middle, a
deadline) closes the connection: nothing that comes later on it could be trusted to answer the right question.
"""

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self

from kvctl.connector import wire
from kvctl.connector.failures import DeadlineExceeded, StoreError, StoreRefused, StoreUnavailable, TooLarge
from kvctl.connector.keys import Identity, verify
from kvctl.connector.stream import Stream, dial, left
from kvctl.connector.wire import Frame, GetStatus, PutStatus, Refusal, Type, WireError
from kvctl.types.chunks import Ack, Meta, Scope

HEAD = wire.HEADER.size
LAST_REQUEST = 2**32 - 1


class Sink(Protocol):
    """Where the chunks of one GET go. Called in the order in which the store answers, which may be any."""

    def room(self, index: int, length: int) -> memoryview:
        """Memory for the `length` sealed bytes of key `index`."""

    def filled(self, index: int, sealed: memoryview) -> None:
        """`room`'s memory now holds the chunk."""

    def absent(self, index: int, status: GetStatus) -> None:
        """The store has no bytes for this key, and why."""


class Connection:
    """Not thread-safe: one caller at a time. Deadlines are values of `time.monotonic()`.

    Every method raises StoreUnavailable, StoreRefused or DeadlineExceeded; only after a refusal that is not fatal is
    the connection still `usable`.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._request = 0
        self._slots: dict[Scope, tuple[int, bytes]] = {}
        self._head = bytearray(HEAD)
        self._front = bytearray(HEAD + wire.CHUNK_HEAD.size)
        self._read_ahead = b""  # the beginning of a body that came with its header
        self._usable = True
        self.session = b""
        self.max_chunk = wire.MAX_CHUNK
        self.max_keys = wire.MAX_KEYS

    @classmethod
    def open(cls, address: str, identity: Identity, store_key: bytes, deadline: float) -> Self:
        """Connect and authenticate; StoreUnavailable when the peer is not the store of this key."""
        made = cls(dial(address, deadline))
        try:
            made._greet(identity, store_key, deadline)
        except BaseException as error:
            made._out_of_step(error)
            raise
        return made

    @property
    def usable(self) -> bool:
        return self._usable

    @property
    def idle(self) -> bool:
        """Whether it can carry a request: still open, and nothing came that nobody asked for."""
        return self._usable and self._stream.idle

    def close(self) -> None:
        self._usable = False
        self._stream.close()

    def attach(self, scope: Scope, token: bytes, deadline: float) -> int:
        """The slot of the scope's capability; the store is asked once a token.

        A newer token takes its slot over; when all slots are taken, a scope takes that of the one used longest ago.
        """
        slot, known = self._slots.pop(scope, (len(self._slots), b""))
        if slot == wire.MAX_SLOTS:
            slot, known = self._slots.pop(next(iter(self._slots)))[0], b""
        self._slots[scope] = (slot, known)  # last in the dict: used last
        if known == token:
            return slot
        self.forget(scope)
        with self._asking(Type.ATTACH, slot, [token], deadline) as request:
            self._answer(Type.ATTACHED, request, deadline)
        self._slots[scope] = (slot, token)
        return slot

    def forget(self, scope: Scope) -> None:
        """The store does not take the scope's token any more: attach anew the next time."""
        if scope in self._slots:
            self._slots[scope] = (self._slots[scope][0], b"")

    def has(self, slot: int, keys: Sequence[bytes], lease_ms: int, deadline: float) -> list[bool]:
        """Which chunks the store has; it keeps those for `lease_ms`. At most `max_keys`."""
        body = wire.pack_keys(Type.HAS, keys, lease_ms)
        with self._asking(Type.HAS, slot, [body], deadline) as request:
            return wire.unpack_bitmap(self._answer(Type.BITMAP, request, deadline), len(keys))

    def get(self, slot: int, keys: Sequence[bytes], sink: Sink, deadline: float) -> None:
        """Ask for chunks and receive each into the sink. What the sink was told stays true when this raises."""
        body = wire.pack_keys(Type.GET, keys, grant_ms(left(deadline)))
        with self._asking(Type.GET, slot, [body], deadline) as request:
            waiting = set(range(len(keys)))
            while waiting:
                self._chunk(request, waiting, sink, deadline)

    def put(self, slot: int, key: bytes, sealed: memoryview, meta: Meta, ack: Ack, deadline: float) -> PutStatus:
        """Send one sealed chunk. TooLarge when it is longer than the store takes."""
        if not 0 < sealed.nbytes <= self.max_chunk:
            raise TooLarge(f"a sealed chunk of {sealed.nbytes} bytes; this store takes 1 to {self.max_chunk}")
        head = wire.pack_put(key, meta, ack)
        with self._asking(Type.PUT, slot, [head, sealed], deadline) as request:
            number = wire.NUMBER.unpack(self._answer(Type.PUT_DONE, request, deadline))[0]
            try:
                return PutStatus(number)
            except ValueError:
                raise WireError(Refusal.MALFORMED, f"no PUT ends with {number}") from None

    def touch(self, slot: int, keys: Sequence[bytes], deadline: float) -> int:
        """Mark chunks as just used; how many of them the store has."""
        with self._asking(Type.TOUCH, slot, [wire.pack_keys(Type.TOUCH, keys)], deadline) as request:
            return int(wire.NUMBER.unpack(self._answer(Type.TOUCHED, request, deadline))[0])

    def lineage(self, slot: int, subject: bytes, keys: Sequence[bytes], deadline: float) -> int:
        """Say that a subject used chunks that were stored for another; how many of them the store has.

        An older store does not know this frame: it refuses with MALFORMED and closes.
        """
        with self._asking(Type.LINEAGE, slot, [wire.pack_lineage(subject, keys)], deadline) as request:
            return int(wire.NUMBER.unpack(self._answer(Type.TOUCHED, request, deadline))[0])

    def stat(self, slot: int, deadline: float) -> dict[str, Any]:
        """What the store says about the slot's scope."""
        with self._asking(Type.STAT, slot, [], deadline) as request:
            try:
                told = json.loads(self._answer(Type.STATS, request, deadline))
            except ValueError:
                raise WireError(Refusal.MALFORMED, "STATS is not JSON") from None
            if not isinstance(told, dict):
                raise WireError(Refusal.MALFORMED, "STATS is no object")
            return told

    def _greet(self, identity: Identity, store_key: bytes, deadline: float) -> None:
        nonce = secrets.token_bytes(wire.NONCE_BYTES)
        self._send(Type.HELLO, 0, 0, [wire.pack_hello(identity.public, nonce)], deadline)
        challenge = self._answer(Type.CHALLENGE, 0, deadline)
        store, store_nonce = challenge[: wire.PUBLIC_KEY_BYTES], challenge[wire.PUBLIC_KEY_BYTES :]
        if store != store_key:
            raise StoreUnavailable(f"the peer has another key than this store: {store.hex()}")
        nonces = (store_key, store_nonce, identity.public, nonce)
        self._send(Type.PROVE, 0, 0, [identity.sign(wire.proof_text(wire.HELLO_LABEL, *nonces))], deadline)
        welcome = self._answer(Type.WELCOME, 0, deadline)
        proof = welcome[: wire.SIGNATURE_BYTES]
        if not verify(store_key, proof, wire.proof_text(wire.WELCOME_LABEL, *nonces)):
            raise StoreUnavailable("the peer does not hold this store's key")
        self.session, chunk, keys = wire.WELCOME.unpack(welcome[wire.SIGNATURE_BYTES :])
        self.max_chunk, self.max_keys = min(chunk, wire.MAX_CHUNK), max(min(keys, wire.MAX_KEYS), 1)

    @contextmanager
    def _asking(self, kind: Type, slot: int, body: Sequence[bytes | memoryview], deadline: float) -> Iterator[int]:
        """Send a request and give its number to the block, which receives the answer."""
        if not self._usable:
            raise StoreUnavailable("the connection is closed")
        self._request = self._request % LAST_REQUEST + 1
        try:
            self._send(kind, slot, self._request, body, deadline)
            yield self._request
        except BaseException as error:
            self._out_of_step(error)
            raise

    def _out_of_step(self, error: BaseException) -> None:
        """Close on whatever leaves the stream in a place that nobody knows."""
        if isinstance(error, StoreRefused):
            return  # _refusal closed it where the store does
        self.close()
        if isinstance(error, WireError):
            raise StoreUnavailable(f"the peer does not keep to the protocol: {error}") from error

    def _send(self, kind: Type, slot: int, request: int, body: Sequence[bytes | memoryview], deadline: float) -> None:
        parts = [memoryview(part).cast("B") for part in body]
        head = wire.pack(kind, sum(part.nbytes for part in parts), slot=slot, request=request)
        try:
            self._stream.send([memoryview(head), *parts], deadline)
        except StoreUnavailable:
            self._last_words(deadline)
            raise

    def _last_words(self, deadline: float) -> None:
        """A store that hangs up while we send may have said why: raise that."""
        try:
            frame = self._receive(deadline)
            if frame.type is not Type.ERROR:
                return
            refusal = self._refusal(frame, deadline)
        except (StoreUnavailable, DeadlineExceeded, WireError):
            return  # it did not; the caller raises what broke
        self.close()
        raise refusal

    def _receive(self, deadline: float) -> Frame:
        self._stream.receive(memoryview(self._head), deadline)
        return wire.unpack(self._head)

    def _expect(self, kind: Type, request: int, deadline: float) -> Frame:
        """The next frame, which is an answer to this request; the store's refusal is raised."""
        frame = self._receive(deadline)
        self._due(frame, kind, request, deadline)
        return frame

    def _due(self, frame: Frame, kind: Type, request: int, deadline: float) -> None:
        if frame.type is Type.ERROR and frame.request in (request, 0):
            raise self._refusal(frame, deadline)
        if frame.type is not kind or frame.request != request:
            raise WireError(Refusal.MALFORMED, f"{frame.type.name} {frame.request} where {kind.name} {request} is due")

    def _answer(self, kind: Type, request: int, deadline: float) -> bytes:
        return self._body(self._expect(kind, request, deadline).length, deadline)

    def _body(self, length: int, deadline: float) -> bytes:
        body = bytearray(length)
        ahead, self._read_ahead = self._read_ahead[:length], b""
        body[: len(ahead)] = ahead
        self._stream.receive(memoryview(body)[len(ahead) :], deadline)
        return bytes(body)

    def _refusal(self, frame: Frame, deadline: float) -> StoreError:
        """What an ERROR frame says; its session ends where the frame says so."""
        error = wire.unpack_error(self._body(frame.length, deadline))
        if frame.flags & wire.FATAL or not frame.request:
            self.close()
        return StoreRefused(error.refusal, error.why)

    def _chunk(self, request: int, waiting: set[int], sink: Sink, deadline: float) -> None:
        length = self._chunk_head(request, deadline)
        index, number = wire.CHUNK_HEAD.unpack_from(self._front, wire.HEADER.size)
        if index not in waiting:
            raise WireError(Refusal.MALFORMED, f"chunk {index} was not asked for, or came twice")
        if number >= len(GetStatus) or (number == GetStatus.HIT) != bool(length):
            raise WireError(Refusal.MALFORMED, f"a chunk of status {number} with {length} bytes")
        waiting.remove(index)
        if not length:
            sink.absent(index, GetStatus(number))
            return
        view = sink.room(index, length)
        self._stream.receive(view, deadline)
        sink.filled(index, view)

    def _chunk_head(self, request: int, deadline: float) -> int:
        """Header and head of a CHUNK in one call where both are there; how many sealed bytes follow.

        No CHUNK is shorter, and nothing follows the only other answer, an ERROR: no byte of another frame is taken.
        """
        front = memoryview(self._front)
        there = self._stream.receive_some(front, wire.HEADER.size, deadline)
        frame = wire.unpack(front[: wire.HEADER.size])
        self._read_ahead = bytes(front[wire.HEADER.size : there])
        self._due(frame, Type.CHUNK, request, deadline)
        self._read_ahead = b""
        self._stream.receive(front[there:], deadline)
        return frame.length - wire.CHUNK_HEAD.size


def grant_ms(seconds: float) -> int:
    """How long the store may take, ms: a little less than the caller gives, so that its word comes in time."""
    whole = int(seconds * 1000)
    return min(max(whole - min(whole // 10, 50), 1), 2**32 - 1)
