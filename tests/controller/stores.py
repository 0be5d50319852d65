"""A store's admin side in this process: it keeps chunks in memory and counts deltas as kvstored does."""

import contextlib
import hashlib
import json
import socketserver
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kvctl.controller.settings import StoreSettings

EPOCH = "ee" * 16
MODEL = "0f" * 16
ALICE, BOB = "a1" * 16, "b0" * 16
COPY = ("tier", "tenant", "domain", "epoch", "key")


def key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def chunk(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "tier": "flash", "tenant": "acme", "domain": "user", "epoch": EPOCH, "key": key(name), "length": 100,
        "subject": ALICE, "model": MODEL, "kind": "private", "position": 0, "stored_at": int(time.time()) - 10,
        "expires_at": None, **fields,
    }  # fmt: skip


class Store:
    """`most`: rows of one answer, as small as a test wants. `ahead`: seconds that its clock is ahead."""

    def __init__(self, socket: Path) -> None:
        self.settings = StoreSettings(admin=f"unix:{socket}")
        self.chunks: dict[tuple[str, ...], dict[str, Any]] = {}
        self.deltas: list[dict[str, Any]] = []
        self.boot, self.first, self.last = "boot1", 1, 0
        self.most, self.ahead = 10_000, 0.0
        self.holds: dict[str, Any] = {"version": 0, "holds": []}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.broken: set[str] = set()  # verbs that fail
        self.not_reached: list[str] = []

    # --- what happens at a store
    def put(self, name: str, **fields: Any) -> dict[str, Any]:
        row = chunk(name, **fields)
        self.chunks[tuple(row[c] for c in COPY)] = row
        self.tell("put", row)
        return row

    def lose(self, row: dict[str, Any], why: str = "evicted", *, silently: bool = False) -> None:
        del self.chunks[tuple(row[c] for c in COPY)]
        if not silently:
            self.tell("removed", row, why)

    def seen(self, row: dict[str, Any], subject: str) -> None:
        plain = {name: row[name] for name in ("tenant", "domain", "epoch", "key")}
        self.tell("seen", plain | {"tier": None, "subject": subject})

    def tell(self, op: str, row: dict[str, Any], why: str | None = None) -> None:
        self.last += 1
        self.deltas.append({**row, "n": self.last, "op": op, "at": round(time.time() + self.ahead, 3), "why": why})

    def forget(self) -> None:
        """Let its deltas go, as a ring that is full does."""
        self.deltas, self.first = [], self.last + 1

    def restart(self) -> None:
        self.deltas, self.first, self.last = [], 1, 0
        self.boot += "+"

    def held(self, row: dict[str, Any]) -> bool:
        return any(
            all(hold.get(n) in (None, row[n]) for n in ("tenant", "domain", "subject", "model"))
            for hold in self.holds["holds"]
        )

    # --- its admin side
    def get_deltas(self, q: dict[str, str]) -> dict[str, Any]:
        after, limit = int(q["after"]), min(int(q["limit"]), self.most)
        about = {"boot": self.boot, "first": self.first, "now": time.time() + self.ahead}
        if q.get("boot") != self.boot or not self.first - 1 <= after <= self.last:
            return {**about, "next": self.last, "gap": True, "deltas": []}
        found = [d for d in self.deltas if d["n"] > after][:limit]
        return {**about, "next": found[-1]["n"] if found else after, "gap": False, "deltas": found}

    def get_ls(self, q: dict[str, str]) -> dict[str, Any]:
        names = sorted(name for name in self.chunks if "|".join(name) > q.get("after", ""))
        page = names[: min(int(q["limit"]), self.most)]
        return {"chunks": [self.chunks[name] | {"cursor": "|".join(name)} for name in page]}

    def post_remove(self, body: dict[str, Any]) -> dict[str, Any]:
        wanted = [
            row
            for row in list(self.chunks.values())
            if row["key"] in body["keys"] and all(row[n] == body[n] for n in ("tenant", "domain", "epoch"))
        ]
        held = [row for row in wanted if self.held(row)]
        for row in wanted:
            if row not in held:
                self.lose(row, {"retention": "removed"}.get(body["why"], body["why"]))
        there = {row["key"] for row in wanted}
        return {
            "removed": len({row["key"] for row in wanted if row not in held}),
            "bytes": sum(row["length"] for row in wanted if row not in held),
            "held": sorted(row["key"] for row in held), "absent": len(set(body["keys"]) - there),
            "not_reached": self.not_reached,
        }  # fmt: skip

    def post_erase(self, body: dict[str, Any]) -> dict[str, Any]:
        by = "epoch" if body.get("epoch") else "subject"
        wanted = [
            row
            for row in list(self.chunks.values())
            if row["tenant"] == body["tenant"] and body.get("domain") in (None, row["domain"]) and row[by] == body[by]
        ]
        held = [row for row in wanted if self.held(row)]
        removed: dict[str, int] = {"ram": 0}
        for row in wanted:
            if row not in held:
                removed[row["tier"]] = removed.get(row["tier"], 0) + 1
                self.lose(row, "erased")
        return {"removed": removed, "held": len(held)}

    def post_probe(self, body: dict[str, Any]) -> dict[str, Any]:
        scope = tuple(body[n] for n in ("tenant", "domain", "epoch"))
        rows = []
        for one in body["keys"]:
            places = {row["tier"]: "live" for name, row in self.chunks.items() if name[1:] == (*scope, one)}
            held = any(self.held(row) for name, row in self.chunks.items() if name[1:] == (*scope, one))
            rows.append({"key": one, "places": places, "held": held, "frozen": held})
        present = sum(bool(row["places"]) for row in rows)
        return {
            "present": present, "absent": len(rows) - present, "keys": rows, "not_reached": self.not_reached
        }  # fmt: skip

    def post_tenants(self, body: dict[str, Any]) -> dict[str, Any]:
        return {}

    def post_revoke(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"revoked": len(body["ids"])}

    def post_holds(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["version"] < self.holds["version"]:
            raise ValueError("older")
        self.holds = body
        return {"holds": {"version": body["version"], "count": len(body["holds"])}}


class Gateway:
    """A gateway's admin side: engines that answer a flush or not, and usage records."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.broken: set[str] = set()
        self.engines = {"engine1": True}
        self.records: list[dict[str, Any]] = []

    def post_flush(self, body: dict[str, Any]) -> dict[str, Any]:
        said = [{"engine": name, "success": ok, "why": "" if ok else "timeout"} for name, ok in self.engines.items()]
        return {"schema": "kvctl.flush/1", "complete": all(self.engines.values()), "engines": said}

    def get_usage(self, q: dict[str, str]) -> dict[str, Any]:
        found = [r for r in self.records if not q.get("after") or f"{r['boot']}:{r['counter']:09}" > _place(q["after"])]
        found = found[: int(q["limit"])]
        after = f"{found[-1]['boot']}:{found[-1]['counter']}" if found else q.get("after")
        return {"schema": "kvctl.usage-page/1", "boot": "20260301000000-00000001", "records": found, "after": after}

    def post_collected(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"removed": 0}


def _place(text: str) -> str:
    boot, _, counter = text.partition(":")
    return f"{boot}:{int(counter):09}"


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    thing: Any


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self._answer(f"get_{url.path[4:]}", dict(parse_qsl(url.query)))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(f"post_{self.path[4:]}", body)

    def _answer(self, verb: str, given: dict[str, Any]) -> None:
        thing = self.server.thing
        thing.asked.append((verb.partition("_")[2], given))
        if verb.partition("_")[2] in thing.broken:
            self.connection.close()
            return
        data = json.dumps(getattr(thing, verb)(given)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read what was asked in `asked`."""


@contextlib.contextmanager
def serving(thing: Any, socket: Path) -> Iterator[Any]:
    server = Server(str(socket), Handler)
    server.thing = thing
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield thing
    finally:
        server.shutdown()
        server.server_close()
        socket.unlink()
