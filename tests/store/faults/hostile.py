"""Peers that send what no peer of the block protocol sends; seeded, so that a run can be had again."""

import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from threading import Thread

from kvctl.connector import wire
from kvctl.connector.capability import NO_LIMITS
from kvctl.connector.keys import Identity
from kvctl.connector.wire import GetStatus, Refusal, Type, WireError
from kvctl.types.chunks import Ack, Meta
from tests.store.daemon import Raw
from tests.store.faults.rig import ACME, ZEN, Kvstored

PATIENCE = 20.0  # seconds for the store's answer to anything
HUGE = (2**32, 2**32 + 84, 2**31, 2**63, 2**64 - 1, 65 << 20)


class Attacks:
    """Threads that attack until `seconds` are over. `said`: what the store answered; `wrong`: what it must not do.

    `secret` are keys of ZEN's chunks, which no attacker has a capability for.
    """

    def __init__(self, daemon: Kvstored, secret: list[bytes], seconds: float, seed: int) -> None:
        self.daemon = daemon
        self.secret = secret
        self.said: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._end = time.monotonic() + seconds
        self._threads = [Thread(target=self._run, args=(random.Random(seed + number),)) for number in range(3)]

    def __enter__(self) -> "Attacks":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join()

    def _run(self, rng: random.Random) -> None:
        attacks: list[Callable[[random.Random], None]] = [
            self.noise, self.mutated, self.cut, self.huge, self.replay, self.stolen, self.foreign, self.over,
        ]  # fmt: skip
        while time.monotonic() < self._end:
            attack = rng.choice(attacks)
            try:
                attack(rng)
            except TimeoutError:
                self.wrong.append(f"{attack.__name__}: no answer and no end within {PATIENCE:.0f} s")
            except (ConnectionError, EOFError):
                self.said["closed"] += 1
            except Exception as error:  # noqa: BLE001  shown by the test
                self.wrong.append(f"{attack.__name__}: {error!r}")

    def noise(self, rng: random.Random) -> None:
        """Random bytes, before a proof or behind it."""
        raw = self._session(rng) if rng.random() < 0.5 else self._raw(rng)
        self._send(raw, rng.randbytes(rng.choice((1, 19, 20, 100, 5000, 200_000))))
        self._drain(raw)

    def mutated(self, rng: random.Random) -> None:
        """Valid frames with bytes changed, in a session or as its beginning."""
        hello = wire.pack(Type.HELLO, 68) + wire.pack_hello(self.daemon.connector.public, rng.randbytes(32))
        inside = rng.random() < 0.7
        raw = self._session(rng) if inside else self._raw(rng)
        data = bytearray(b"".join(rng.choices(self._frames(rng), k=rng.randrange(1, 5))) if inside else hello)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(min(len(data), 24))
            data[at] = rng.randrange(256)
        self._send(raw, bytes(data))
        self._drain(raw)

    def cut(self, rng: random.Random) -> None:
        """A frame that ends anywhere; half of them by a reset."""
        frame = rng.choice(self._frames(rng))
        raw = self._session(rng)
        self._send(raw, frame[: rng.randrange(1, len(frame))])
        if rng.random() < 0.5:
            raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.sock.close()
        else:
            self._drain(raw)

    def huge(self, rng: random.Random) -> None:
        """Lengths that nobody may allocate, with some bytes behind them."""
        inside = rng.random() < 0.7
        raw = self._session(rng) if inside else self._raw(rng)
        kind = rng.choice(list(Type)) if inside else Type.HELLO
        self._send(raw, struct.pack("<2sBBHHIQ", b"kv", 1, kind, 0, 0, 1, rng.choice(HUGE)) + rng.randbytes(1000))
        self._refused(raw, {Refusal.TOO_LARGE, Refusal.MALFORMED})

    def replay(self, rng: random.Random) -> None:
        """HELLO and PROVE of a session that was seen go by."""
        seen = self._raw(rng)
        proof = seen.greet(self.daemon)
        raw = self._raw(rng)
        self._send(raw, wire.pack(Type.HELLO, 68) + wire.pack_hello(self.daemon.connector.public, bytes(32)))
        raw.frame()
        self._send(raw, wire.pack(Type.PROVE, 64) + proof)
        self._refused(raw, {Refusal.BAD_PROOF})
        seen.sock.close()

    def stolen(self, rng: random.Random) -> None:
        """A capability of another connector, of no controller, that is over, or that was changed."""
        token = rng.choice((self._theft, self._forgery, self._old, self._changed))(rng)
        raw = self._session(rng)
        self._attach_refused(raw, token)
        raw.send(Type.GET, wire.pack_keys(Type.GET, self.secret[:4]), slot=3)
        self._refused(raw, {Refusal.NOT_ATTACHED}, ends=False)
        raw.sock.close()

    def _theft(self, rng: random.Random) -> bytes:
        return self.daemon.token(scope=ZEN, holder=Identity.generate().public)

    def _forgery(self, rng: random.Random) -> bytes:
        return self.daemon.token(scope=ZEN, signer=rng.choice((Identity.generate(), self.daemon.connector)))

    def _old(self, rng: random.Random) -> bytes:
        return self.daemon.token(scope=ZEN, lasts=-rng.uniform(1, 1e6))

    def _changed(self, rng: random.Random) -> bytes:
        token = bytearray(self.daemon.token(scope=ZEN, limits=NO_LIMITS))
        token[rng.randrange(len(token))] ^= 1 << rng.randrange(8)
        return bytes(token)

    def foreign(self, rng: random.Random) -> None:
        """Another tenant's keys under one's own capability are not there."""
        raw = self._session(rng)
        for status, data in raw.get(*self.secret[:8]).values():
            self.said[f"foreign_{status.name.lower()}"] += 1
            if status is not GetStatus.MISS or data:
                self.wrong.append(f"another tenant's chunk: {status.name}, {len(data)} bytes")
        raw.sock.close()

    def over(self, rng: random.Random) -> None:
        """Many keys, many slots, a PUT with bytes behind its end."""
        raw = self._session(rng)
        keys = [rng.randbytes(32) for _ in range(4096)]
        raw.send(Type.HAS, wire.pack_keys(Type.HAS, keys) + (bytes(32) if rng.random() < 0.5 else b""))
        self._drain(raw)

    def _frames(self, rng: random.Random) -> list[bytes]:
        keys = [rng.randbytes(32), *self.secret[:2]]
        body = wire.pack_put(rng.randbytes(32), Meta(), rng.choice(list(Ack))) + rng.randbytes(rng.randrange(1, 9000))
        bodies = {
            Type.HAS: wire.pack_keys(Type.HAS, keys, 100), Type.GET: wire.pack_keys(Type.GET, keys, 100),
            Type.TOUCH: wire.pack_keys(Type.TOUCH, keys), Type.PUT: body, Type.STAT: b"",
            Type.ATTACH: self.daemon.token(),
        }  # fmt: skip
        return [wire.pack(kind, len(data), request=7) + data for kind, data in bodies.items()]

    def _raw(self, rng: random.Random) -> Raw:
        raw = Raw(self.daemon.raw(rng.choice((self.daemon.tcp, self.daemon.unix))))
        raw.sock.settimeout(PATIENCE)
        return raw

    def _session(self, rng: random.Random) -> Raw:
        raw = self._raw(rng)
        raw.greet(self.daemon)
        raw.ask(Type.ATTACH, self.daemon.token(scope=ACME))
        return raw

    @staticmethod
    def _send(raw: Raw, data: bytes) -> None:
        try:
            raw.sock.sendall(data)
        except ConnectionError:
            return  # it was refused before its end; the answer is read all the same

    def _attach_refused(self, raw: Raw, token: bytes) -> None:
        raw.send(Type.ATTACH, token, slot=3)
        self._refused(raw, {Refusal.BAD_CAPABILITY, Refusal.EXPIRED}, ends=False)

    def _refused(self, raw: Raw, among: set[Refusal], *, ends: bool = True) -> None:
        refusal, fatal = raw.refusal()
        self.said[refusal.name.lower()] += 1
        if refusal not in among or fatal is not ends:
            self.wrong.append(f"refused with {refusal.name}, fatal: {fatal}; expected one of {among}")
        if ends and not raw.closed():
            self.wrong.append(f"{refusal.name}, and the connection goes on")

    def _drain(self, raw: Raw) -> None:
        """End our side and read what the store says; no chunk may be among it."""
        try:
            raw.sock.shutdown(socket.SHUT_WR)
            while True:
                frame, body = raw.frame()
                self._judge(frame.type, body)
        except WireError as bad:
            self.wrong.append(f"the store sent what is no frame: {bad}")
        except OSError as broken:
            if isinstance(broken, TimeoutError):
                raise
            self.said["reset"] += 1
        except EOFError:
            self.said["closed"] += 1
        finally:
            raw.sock.close()

    def _judge(self, kind: Type, body: bytes) -> None:
        if kind is Type.ERROR:
            self.said[wire.unpack_error(body).refusal.name.lower()] += 1
            if wire.unpack_error(body).refusal is Refusal.INTERNAL:
                self.wrong.append(f"a fault of the store: {wire.unpack_error(body).why}")
        elif kind is Type.CHUNK and wire.CHUNK_HEAD.unpack(body[: wire.CHUNK_HEAD.size])[1] == GetStatus.HIT:
            self.said["own_hit"] += 1
            if any(key in body for key in self.secret):
                self.wrong.append("a chunk of another tenant was sent")
        else:
            self.said[kind.name.lower()] += 1
