"""One authenticated connector's session: a thread, its connection, and the requests on it, one after the other.

A chunk's bytes are received straight into the store's memory and sent straight out of it. What a peer does wrong ends
its session with a reason; what the store does wrong ends the session too, and never the daemon.
"""

import json
import secrets
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from kvctl.connector import wire
from kvctl.connector.capability import Capability, CapabilityError, Operation, verify_token
from kvctl.connector.wire import Frame, GetStatus, PutStatus, Refusal, Type, WireError
from kvctl.store.api import ReadError, Reading
from kvctl.store.buffers import NoRoomError
from kvctl.store.peer import Part, Peer, PeerGone
from kvctl.store.service import Service
from kvctl.types.chunks import KEY_BYTES, SUBJECT_BYTES, Scope

HEAD = wire.HEADER.size


class Refused(Exception):
    """This request fails; the session goes on."""

    def __init__(self, refusal: Refusal, why: str) -> None:
        super().__init__(f"{refusal.name.lower()}: {why}")
        self.refusal = refusal
        self.why = why


@dataclass(frozen=True, slots=True)
class Attached:
    """A capability in a slot, as verified against the controllers of `generation`."""

    capability: Capability
    scope: Scope
    token: bytes
    generation: int


class Session:
    """`run` serves until the connection ends; `end` breaks it from another thread."""

    def __init__(self, service: Service, peer: Peer, connector: bytes, name: str) -> None:
        self._service = service
        self._peer = peer
        self._connector = connector
        self._name = name
        self._header = memoryview(bytearray(HEAD))
        self._put_head = memoryview(bytearray(wire.PUT_HEAD.size))
        self._body = bytearray()  # of control frames; as long as the longest so far
        self._slots: dict[int, Attached] = {}
        self._generation = service.live.generation
        self.id = secrets.token_bytes(16)

    def end(self) -> None:
        self._peer.end()

    def run(self) -> None:
        words = b""
        try:
            while self._serve():
                pass
        except PeerGone as gone:
            self._service.log.refused("session lost", "closed by peer", why=str(gone), **self._who())
        except WireError as bad:
            words = self._refuse(bad.refusal, bad.why)
        except ReadError as bad:
            # Part of the chunk is on its way, so nothing but the end can follow it.
            self._service.log.error("chunk not read to its end", why=str(bad), **self._who())
            self._service.metrics.count("kvstored_refusals_total", reason="read_error")
        except Exception:  # noqa: BLE001  told to the peer and logged with an id; the daemon lives on
            number = self._service.fault("session fault", traceback.format_exc(), **self._who())
            words = error_frame(Refusal.INTERNAL, f"a fault of the store, logged as {number}")
        finally:
            self._peer.close(words)
            self._service.leave(self)

    def _who(self) -> dict[str, str]:
        return {"peer": self._peer.name, "connector": self._name}

    def _refuse(self, refusal: Refusal, why: str) -> bytes:
        """The frame that ends this session, logged and counted."""
        reason = refusal.name.lower()
        self._service.metrics.count("kvstored_refusals_total", reason=reason)
        self._service.log.refused("session refused", reason, why=why, **self._who())
        return error_frame(refusal, why)

    def _serve(self) -> bool:
        """One request; False when the connector has closed."""
        if not self._await_frame():
            return False
        began = time.monotonic()
        frame = wire.unpack(self._header)
        handler = HANDLERS.get(frame.type)
        if handler is None:
            raise WireError(Refusal.MALFORMED, f"{frame.type.name} within a session")
        until = began + self._service.live.config.limits.frame_seconds
        op = OPERATIONS[frame.type]
        try:
            status = handler(self, frame, until)
        except Refused as no:
            status = no.refusal.name.lower()
            self._service.metrics.count("kvstored_refusals_total", reason=status)
            self._service.log.refused("request refused", status, op=op, why=no.why, **self._who())
            self._answer(frame, Type.ERROR, wire.pack_error(no.refusal, no.why))
        self._service.metrics.request(op, status, time.monotonic() - began)
        return True

    def _await_frame(self) -> bool:
        """Wait for the next header. A session may sit idle; a frame that has begun must come in time."""
        while True:
            count = self._peer.begin(self._header)
            self._recheck()
            if count is None:
                continue
            if count and count < HEAD:
                until = time.monotonic() + self._service.live.config.limits.frame_seconds
                self._peer.fill(self._header[count:], until)
            return bool(count)

    def _recheck(self) -> None:
        """WireError when the daemon drains, or when a reload took this connector off the list."""
        if self._service.draining:
            raise WireError(Refusal.DRAINING, "this store is draining")
        live = self._service.live
        if live.generation != self._generation and self._connector not in live.connectors:
            raise WireError(Refusal.UNKNOWN_CONNECTOR, "this connector is not in the store's list any more")
        self._generation = live.generation

    def _control(self, frame: Frame, until: float) -> memoryview:
        """The body of a frame that carries no chunk."""
        if len(self._body) < frame.length:
            self._body = bytearray(frame.length)
        body = memoryview(self._body)[: frame.length]
        self._peer.fill(body, until)
        return body

    def _send(self, parts: Sequence[Part]) -> None:
        self._peer.send(parts, time.monotonic() + self._service.live.config.limits.send_seconds)

    def _answer(self, frame: Frame, kind: Type, body: bytes) -> None:
        self._send([wire.pack(kind, len(body), slot=frame.slot, request=frame.request) + body])

    def _attached(self, frame: Frame, operation: Operation) -> Attached:
        """What the slot's capability allows right now; Refused when not this."""
        held = self._slots.get(frame.slot)
        if held is None:
            raise Refused(Refusal.NOT_ATTACHED, f"no capability in slot {frame.slot}")
        live, now = self._service.live, time.time()
        if held.generation != live.generation:
            held = self._slots[frame.slot] = self._verify(held.token)
        if now >= held.capability.expires_at:
            raise Refused(Refusal.EXPIRED, f"the capability in slot {frame.slot} is over")
        if held.capability.id in live.revoked:
            raise Refused(Refusal.REVOKED, f"the capability in slot {frame.slot} was revoked")
        if not held.capability.allows(operation):
            raise Refused(Refusal.NOT_ALLOWED, f"the capability in slot {frame.slot} does not allow {operation}")
        return held

    def _verify(self, token: bytes) -> Attached:
        live = self._service.live
        try:
            capability = verify_token(token, live.controllers, now=time.time(), holder=self._connector)
        except CapabilityError as bad:
            raise Refused(bad.refusal, bad.why) from bad
        if capability.id in live.revoked:
            raise Refused(Refusal.REVOKED, "this capability was revoked")
        if unserved := live.served.refusal(capability.tenant):
            raise Refused(Refusal.REVOKED, unserved)
        return Attached(capability, capability.scope, token, live.generation)

    def _attach(self, frame: Frame, until: float) -> str:
        token = bytes(self._control(frame, until))
        self._slots.pop(frame.slot, None)  # a refused token leaves the slot empty, not with what was there before
        held = self._slots[frame.slot] = self._verify(token)
        self._answer(frame, Type.ATTACHED, wire.ATTACHED.pack(held.capability.expires_at))
        return "ok"

    def _keyed(self, frame: Frame, until: float, operation: Operation) -> tuple[Scope, int, list[bytes]]:
        """(scope, lease or deadline in ms, keys) of a HAS, GET or TOUCH."""
        most = self._service.live.config.limits.request_keys
        if frame.length > wire.KEYED_HEAD[frame.type] + most * KEY_BYTES:
            raise WireError(Refusal.TOO_LARGE, f"{frame.type.name} of more than {most} keys")
        number, keys = wire.unpack_keys(frame.type, self._control(frame, until))
        held = self._attached(frame, operation)
        own = held.capability.limits.keys
        if own is not None and len(keys) > own:
            raise Refused(Refusal.NOT_ALLOWED, f"{len(keys)} keys; this capability allows {own} a request")
        return held.scope, number, keys

    def _has(self, frame: Frame, until: float) -> str:
        scope, lease_ms, keys = self._keyed(frame, until, Operation.HAS)
        present = self._service.store.has(scope, keys, lease_ms)
        found = sum(present)
        self._service.metrics.count("kvstored_chunks_total", found, op="has", status="there")
        self._service.metrics.count("kvstored_chunks_total", len(keys) - found, op="has", status="absent")
        self._answer(frame, Type.BITMAP, wire.pack_bitmap(present))
        return "ok"

    def _touch(self, frame: Frame, until: float) -> str:
        scope, _, keys = self._keyed(frame, until, Operation.TOUCH)
        self._answer(frame, Type.TOUCHED, wire.NUMBER.pack(self._service.store.touch(scope, keys)))
        return "ok"

    def _lineage(self, frame: Frame, until: float) -> str:
        scope, number, keys = self._keyed(frame, until, Operation.TOUCH)
        if not number:
            raise WireError(Refusal.MALFORMED, "LINEAGE names no subject")
        there = self._service.store.lineage(scope, number.to_bytes(SUBJECT_BYTES, "little"), keys)
        self._answer(frame, Type.TOUCHED, wire.NUMBER.pack(there))
        return "ok"

    def _stat(self, frame: Frame, until: float) -> str:
        held = self._attached(frame, Operation.STAT)
        self._answer(frame, Type.STATS, json.dumps(self._service.store.tenant_stat(held.scope)).encode())
        return "ok"

    def _get(self, frame: Frame, until: float) -> str:
        scope, within_ms, keys = self._keyed(frame, until, Operation.GET)
        deadline = time.monotonic() + within_ms / 1000 if within_ms else None
        counts = [0] * len(GetStatus)
        waiting = bytearray()  # frames of keys without a chunk: they go out with the next chunk, or at the end
        with closing(self._readings(scope, keys, deadline)) as readings:
            for index, found in enumerate(readings):
                status = found if isinstance(found, GetStatus) else self._chunk(frame, index, found, waiting)
                counts[status] += 1
                if status is not GetStatus.HIT:
                    waiting += chunk_frame(frame, index, status, 0)
        if waiting:
            self._send([waiting])
        for number, count in enumerate(counts):
            if count:
                self._service.metrics.count("kvstored_chunks_total", count, op="get", status=GET_STATUSES[number])
        return "ok"

    def _readings(self, scope: Scope, keys: list[bytes], deadline: float | None) -> Generator[Reading | GetStatus]:
        """One entry a key, in order. The next key's chunk is read while this one is sent."""
        ahead = self._start(scope, keys[0], deadline)
        try:
            for key in keys[1:]:
                current = ahead
                ahead = GetStatus.MISS  # what `current` is stays with it alone, also when starting fails
                try:
                    ahead = self._start(scope, key, deadline)
                    yield current
                finally:
                    _close(current)
            yield ahead
        finally:
            _close(ahead)

    def _start(self, scope: Scope, key: bytes, deadline: float | None) -> Reading | GetStatus:
        if deadline is not None and time.monotonic() >= deadline:
            return GetStatus.DEADLINE
        try:
            found = self._service.store.get(scope, key)
        except NoRoomError:
            return GetStatus.BUSY
        return GetStatus.MISS if found is None else found

    def _chunk(self, frame: Frame, index: int, reading: Reading, waiting: bytearray) -> GetStatus:
        """Send one chunk behind what waits. MISS or BUSY when its first piece cannot be had: nothing was sent then."""
        pieces = reading.pieces()
        try:
            first = next(pieces)
        except NoRoomError:
            return GetStatus.BUSY
        except (ReadError, StopIteration) as bad:
            self._service.log.refused("chunk not readable", "read_error", tier=reading.tier, why=str(bad))
            return GetStatus.MISS
        until = time.monotonic() + self._service.live.config.limits.send_seconds
        head = bytes(waiting) + chunk_frame(frame, index, GetStatus.HIT, reading.length)
        waiting.clear()
        self._peer.send([head, first], until)
        sent = len(first)
        for piece in pieces:
            self._peer.send([piece], until)
            sent += len(piece)
        if sent != reading.length:
            raise ReadError(f"{sent} bytes of a chunk of {reading.length}")
        self._service.metrics.count("kvstored_bytes_total", sent, op="get")
        return GetStatus.HIT

    def _put(self, frame: Frame, until: float) -> str:
        limits = self._service.live.config.limits
        length = frame.length - wire.PUT_HEAD.size
        if length > limits.chunk:
            raise WireError(Refusal.TOO_LARGE, f"a chunk of {length} bytes; this store takes {limits.chunk}")
        self._peer.fill(self._put_head, until)
        until += length / limits.put_rate
        key, meta, ack = wire.unpack_put(self._put_head)
        try:
            scope = self._may_put(frame, length)
        except Refused:
            self._peer.discard(length, until)
            raise
        slot = self._service.store.reserve(scope, key, length, meta)
        if isinstance(slot, PutStatus):
            self._peer.discard(length, until)
            status = slot
        else:
            try:
                self._peer.fill(slot.body, until)
            except BaseException:
                slot.abort()
                raise
            status = slot.commit(ack)
        self._service.metrics.count("kvstored_chunks_total", op="put", status=status.name.lower())
        if status is PutStatus.STORED:
            self._service.metrics.count("kvstored_bytes_total", length, op="put")
        self._answer(frame, Type.PUT_DONE, wire.NUMBER.pack(status))
        return "ok"

    def _may_put(self, frame: Frame, length: int) -> Scope:
        held = self._attached(frame, Operation.PUT)
        own = held.capability.limits.chunk
        if own is not None and length > own:
            raise Refused(Refusal.NOT_ALLOWED, f"a chunk of {length} bytes; this capability allows {own}")
        return held.scope


OPERATIONS = {kind: kind.name.lower() for kind in Type}
GET_STATUSES = [status.name.lower() for status in GetStatus]
Handler = Callable[[Session, Frame, float], str]
HANDLERS: dict[Type, Handler] = {
    Type.ATTACH: Session._attach,
    Type.HAS: Session._has,
    Type.GET: Session._get,
    Type.PUT: Session._put,
    Type.TOUCH: Session._touch,
    Type.LINEAGE: Session._lineage,
    Type.STAT: Session._stat,
}


def error_frame(refusal: Refusal, why: str) -> bytes:
    """A fatal ERROR: the session ends with it."""
    body = wire.pack_error(refusal, why)
    return wire.pack(Type.ERROR, len(body), flags=wire.FATAL) + body


def chunk_frame(frame: Frame, index: int, status: GetStatus, length: int) -> bytes:
    """Header and head of a CHUNK; `length` sealed bytes follow."""
    header = wire.pack(Type.CHUNK, wire.CHUNK_HEAD.size + length, slot=frame.slot, request=frame.request)
    return header + wire.CHUNK_HEAD.pack(index, status)


def _close(found: Reading | GetStatus) -> None:
    if not isinstance(found, GetStatus):
        found.close()
