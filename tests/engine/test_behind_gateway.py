"""Real engines behind a real kvgated over a real store: who finds what was stored, and prefill apart from decode."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import Identity
from kvctl.connector.snapshotfile import write_snapshot
from kvctl.types.snapshot import DomainView, Snapshot, TenantView
from tests.engine.serving import (
    BLOCK,
    DOMAIN,
    ROOT,
    ROW,
    Answered,
    Connection,
    Engine,
    Site,
    completion,
    engine_home,
    prompt,
    streamed,
    tiny_model,
)
from tests.gateway.site import change, tenant

pytestmark = pytest.mark.engine

WHOLE = 1024  # tokens of a prompt that are whole chunks
TAIL = 57
PATIENCE = 60.0


class Gate:
    """kvgated in a process of its own, whose tenants have the scopes of the site's leases. Engines by name and role."""

    def __init__(self, site: Site, engines: dict[str, tuple[Engine, str]]) -> None:
        self.folder = site.folder
        self.socket = site.folder / "gate.sock"
        controller = Identity.generate()
        site.gateway.save(self.folder / "gate.key")
        now = int(time.time())
        tenants = tuple(view(site, name) for name in site.leases)
        snapshot = Snapshot(site="fra1", number=1, issued_at=now - 10, expires_at=now + 7200, tenants=tenants)
        write_snapshot(self.folder / "snapshot", snapshot, controller)
        (self.folder / "gate.yaml").write_text(json.dumps(self.settings(engines, controller)))
        command = [sys.executable, "-m", "kvctl.gateway.main", "--config", str(self.folder / "gate.yaml")]
        with (self.folder / "gate.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        self._until_ready(set(engines))

    def settings(self, engines: dict[str, tuple[Engine, str]], controller: Identity) -> dict[str, object]:
        written = [
            {"name": name, "url": f"unix:{engine.socket}", "models": ["tiny"], "country": "DE", "role": role}
            for name, (engine, role) in engines.items()
        ]
        return {
            "schema": "1",
            "gateway": "gate1",
            "site": "fra1",
            "listen": [f"unix:{self.socket}"],
            "admin": f"{self.folder}/gate-admin.sock",
            "identity": f"{self.folder}/gate.key",
            "snapshot": {"path": f"{self.folder}/snapshot", "controllers": {"fra1": controller.public.hex()}},
            "engines": written,
            "usage": {"directory": f"{self.folder}/usage"},
            "routing": {"await_seconds": 60},
        }

    def _until_ready(self, engines: set[str]) -> None:
        end = time.monotonic() + PATIENCE
        while not self._serves():
            assert self.process.poll() is None, (self.folder / "gate.log").read_text()
            assert time.monotonic() < end, (self.folder / "gate.log").read_text()
            time.sleep(0.1)

    def _serves(self) -> bool:
        connection = Connection(self.socket)
        try:
            connection.request("GET", "/v1/models", headers={"Authorization": "Bearer acme-1"})
            return b"tiny" in connection.getresponse().read()
        except OSError:
            return False
        finally:
            connection.close()

    def complete(self, ids: list[int], key: str, subject: str = "alice") -> Answered:
        headers = {"Authorization": f"Bearer {key}", "x-kvctl-subject": subject}
        return streamed(self.socket, completion(ids), headers)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def view(site: Site, name: str) -> TenantView:
    """A tenant with two keys, `NAME-1` and `NAME-2`, of one domain."""
    key = site.leases[name].key
    domain = DomainView(name=DOMAIN, epoch=key.scope.epoch, salt_key=key.salt_key)
    return change(tenant(name, f"{name}-1", f"{name}-2"), domains=(domain,))


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("gated") / "site")
    tiny_model(engine_home(), made.folder / "model")
    made.daemon.start()
    yield made
    made.daemon.stop()


def engine(site: Site, name: str, **options: object) -> Engine:
    """Patient: what is judged here is what is found, and two engines on few processors are slow to answer."""
    patient = {"deadline_ms": 5000, "max_wait_share": 1.0, **options}
    return Engine(engine_home(), site.folder / "model", site.folder, site.options(**patient), name=name)


def until_stored(site: Site, chunks: int) -> list[bytes]:
    """The store's chunks, by their keys, once it has so many."""
    end = time.monotonic() + PATIENCE
    while True:
        status, told = site.daemon.admin("GET", "/v1/ls?limit=1000")
        assert status == 200, told
        if len(told["chunks"]) >= chunks:
            return [bytes.fromhex(chunk["key"]) for chunk in told["chunks"]]
        assert time.monotonic() < end, told
        time.sleep(0.1)


def test_another_tenant_finds_nothing_and_another_key_of_the_same_finds_all(site: Site):
    only = engine(site, "only")
    gate = None
    try:
        only.start()
        gate = Gate(site, {"only": (only, "both")})
        ids = prompt(WHOLE + TAIL, "secret")
        first = gate.complete(ids, "acme-1")
        assert first.cached == 0
        keys = until_stored(site, WHOLE // BLOCK)
        theirs = gate.complete(ids, "globex-1")  # the engine itself and the store have all of it
        assert (theirs.cached, theirs.tokens) == (0, first.tokens)
        only.forget()
        again = gate.complete(ids, "acme-2", subject="bob")
        assert (again.cached, again.tokens) == (WHOLE, first.tokens)
        unreadable(site, keys)
        lineage(site, keys)
    finally:
        if gate is not None:
            gate.stop()
        only.stop()


def unreadable(site: Site, keys: list[bytes]) -> None:
    """With the other tenant's capability and keys, no chunk is there; with its own names under it, none opens."""
    theirs = site.leases["globex"]
    with StoreClient(site.daemon.unix, site.daemon.connector, site.daemon.identity.public) as client:
        assert client.has(theirs, keys) == [False] * len(keys)
        targets = [(key, memoryview(bytearray(ROW))) for key in keys]
        assert not any(result.hit for result in client.get_into(theirs, targets))
        assert all(target == bytes(ROW) for _, target in targets)


def lineage(site: Site, keys: list[bytes]) -> None:
    """The store knows that a second user used what was stored for the first."""
    end = time.monotonic() + PATIENCE
    boot = site.daemon.admin("GET", "/v1/deltas")[1]["boot"]
    seen: set[str] = set()
    while len(seen) < WHOLE // BLOCK:
        assert time.monotonic() < end, seen
        status, told = site.daemon.admin("GET", f"/v1/deltas?boot={boot}")
        assert status == 200, told
        seen = {delta["key"] for delta in told["deltas"] if delta["op"] == "seen"}
        time.sleep(0.1)
    assert seen <= {key.hex() for key in keys}


def test_a_decoding_engine_computes_at_most_the_tail_of_what_another_prefilled(site: Site):
    prefill, decode = engine(site, "prefill", role="producer"), engine(site, "decode", role="consumer")
    gate = None
    try:
        prefill.start()
        decode.start()
        gate = Gate(site, {"prefill": (prefill, "prefill"), "decode": (decode, "decode")})
        for length, tail in ((WHOLE, TAIL), (4096, TAIL), (WHOLE, 0)):
            ids = prompt(length + tail, os.urandom(4).hex())
            found = gate.complete(ids, "acme-1")
            assert found.cached == length, decode.told
            # The same prompt, computed by nobody but the engine itself.
            prefill.forget()
            alone = prefill.complete(ids, {})
            assert (alone.cached, alone.tokens) == (0, found.tokens)
        assert decode.metric("kvctl_tier_stored_chunks_total{") == 0
        assert prefill.metric("kvctl_tier_restored_requests_total{") == 0
        assert decode.metric("kvctl_tier_restored_requests_total{") == 3
        for one in (prefill, decode):
            assert one.metric("kvctl_tier_defects_total{") == 0
    finally:
        if gate is not None:
            gate.stop()
        decode.stop()
        prefill.stop()


def test_a_decoding_engine_whose_prefill_is_gone_computes_the_prompt_itself(site: Site):
    prefill, decode = engine(site, "prefill", role="producer"), engine(site, "decode", role="consumer")
    decode.start()
    gate = None
    try:
        gate = Gate(site, {"prefill": (prefill, "prefill"), "decode": (decode, "decode")})
        ids = prompt(WHOLE, "alone")
        found = gate.complete(ids, "acme-1")
        assert (found.cached, len(found.tokens)) == (0, 8)
        assert decode.complete(ids, {}).tokens == found.tokens
    finally:
        if gate is not None:
            gate.stop()
        decode.stop()
