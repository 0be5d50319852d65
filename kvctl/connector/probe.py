"""Whether an engine on this node stores what it computes and takes it back: `python3 -m kvctl.connector.probe`.

On stdin, as JSON, a lease of a scope that nobody else has and the handle to it. The prompt is computed, the engine's
own caches are emptied, and the same prompt must come from the stores. What was seen is printed as JSON; exit code 0
when all of it went well. Runs as the engine's user: leases are its own.
"""

import argparse
import http.client
import json
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from kvctl.connector.handle import PARAMETER
from kvctl.connector.renew import remove
from kvctl.connector.secretfile import write_secret
from kvctl.connector.unixhttp import UnixConnection
from kvctl.types.errors import KvctlError

FILE = "kvctl-canary.lease"  # not *.json: what keeps the other leases fresh leaves it alone
SECONDS = 120.0  # for one answer
PATIENCE = 60.0  # for chunks to be stored, and to be counted
POLL = 0.1
OUTPUT = 8  # tokens


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the controller sends. `lease` is the text of a lease's file."""

    lease: str
    handle: str
    salt: str
    model: str
    tokens: int  # of the prompt
    vocabulary: int  # token ids below this one are used
    seed: str


class ProbeError(Exception):
    """A step that did not go well."""

    def __init__(self, step: str, why: str) -> None:
        super().__init__(f"{step}: {why}")
        self.step = step
        self.why = why


class Probe:
    """One engine on its socket."""

    def __init__(self, socket: Path, asked: Asked) -> None:
        self._socket = socket
        self._asked = asked
        chance = random.Random(asked.seed)
        self._prompt = [chance.randrange(6, asked.vocabulary) for _ in range(asked.tokens)]

    def run(self) -> dict[str, Any]:
        """Seconds, tokens and bytes of both answers. ProbeError names the step that failed."""
        before = self.sum("kvctl_tier_stored_chunks_total")
        first, computed = self.complete("generate")
        self.until("store", lambda: self.sum("kvctl_tier_stored_chunks_total") > before, self.reasons)
        self.settle()
        self.forget()
        used = self.sum("kvctl_tier_used_bytes_total")
        again, restored = self.complete("restore")
        self.until("restore", lambda: self.sum("kvctl_tier_used_bytes_total") > used, self.reasons)
        return {
            "tokens": len(first), "same": first == again, "computed_s": round(computed, 3),
            "restored_s": round(restored, 3), "restored_bytes": int(self.sum("kvctl_tier_used_bytes_total") - used),
            "stored_chunks": int(self.sum("kvctl_tier_stored_chunks_total") - before),
        }  # fmt: skip

    def complete(self, step: str) -> tuple[list[int], float]:
        """Greedy tokens for the prompt, and the seconds it took."""
        body = {
            "model": self._asked.model, "prompt": self._prompt, "max_tokens": OUTPUT, "temperature": 0,
            "ignore_eos": True, "return_token_ids": True, "cache_salt": self._asked.salt,
            "kv_transfer_params": {PARAMETER: self._asked.handle},
        }  # fmt: skip
        begun = time.monotonic()
        status, data = self.ask(step, "POST", "/v1/completions", body)
        if status != http.client.OK:
            raise ProbeError(step, f"status {status}: {data[:300].decode(errors='replace')}")
        tokens: list[int] = json.loads(data)["choices"][0]["token_ids"]
        if not tokens:
            raise ProbeError(step, "the engine gave no token")
        return tokens, time.monotonic() - begun

    def settle(self) -> None:
        """Until no more chunks are on their way: what is emptied too soon is not stored."""
        count = self.sum("kvctl_tier_stored_chunks_total")
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            time.sleep(POLL)
            now = self.sum("kvctl_tier_stored_chunks_total")
            if now != count:
                count, until = now, time.monotonic() + 1.0

    def forget(self) -> None:
        status, data = self.ask("forget", "POST", "/reset_prefix_cache?reset_external=true")
        if status != http.client.OK:
            raise ProbeError("forget", f"status {status}: {data[:300].decode(errors='replace')}")

    def until(self, step: str, true: Callable[[], bool], why: Callable[[], str]) -> None:
        end = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > end:
                raise ProbeError(step, why() or "no reason was counted")
            time.sleep(POLL)

    def reasons(self) -> str:
        names = ("kvctl_tier_unstored_chunks_total{", "kvctl_tier_misses_total{", "kvctl_tier_failed_chunks_total{")
        rows = [row for row in self.metrics().splitlines() if row.startswith((*names, "kvctl_tier_store_up{"))]
        return "; ".join(row for row in rows if "_up{" in row or not row.endswith(" 0.0"))[:600]

    def sum(self, name: str) -> float:
        """Over its labels. ProbeError when the engine does not count it: it runs without the tier."""
        text = self.metrics()
        if f"# TYPE {name} " not in text:
            raise ProbeError("tier", f"the engine has no metric {name}: it runs without kvctl's tier")
        rows = (row for row in text.splitlines() if row.startswith((name + "{", name + " ")))
        return sum(float(row.rpartition(" ")[2]) for row in rows)

    def metrics(self) -> str:
        return self.ask("metrics", "GET", "/metrics")[1].decode()

    def ask(self, step: str, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = UnixConnection(self._socket, SECONDS)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ProbeError(step, f"the engine does not answer: {error or type(error).__name__}") from error
        finally:
            connection.close()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m kvctl.connector.probe", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--leases", type=Path, required=True)
    given = parser.parse_args(argv)
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    file = given.leases / FILE
    try:
        write_secret(file, asked.lease.encode())
        seen = {"well": True, **Probe(given.socket, asked).run()}
    except ProbeError as error:
        seen = {"well": False, "step": error.step, "why": error.why}
    except KvctlError as error:
        seen = {"well": False, "step": "lease", "why": f"{error.code}: {error.what}: {error.why}"}
    finally:
        with suppress(OSError):
            remove(file)
    print(json.dumps(seen))  # noqa: T201
    return 0 if seen["well"] else 1


if __name__ == "__main__":
    sys.exit(main())
