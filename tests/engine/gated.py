"""A real `vllm serve` on CPU behind a real kvgated, in processes of their own, and what the engine itself counted."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvctl.connector.keys import Identity
from kvctl.connector.snapshotfile import write_snapshot
from kvctl.types.snapshot import Snapshot, TenantView
from tests.engine.serving import ROOT, START, engine_home, environment, free_port, tiny_model
from tests.gateway.site import tenant

CONTEXT = 16384  # tokens
# Of the tiny model's own, but for tools and their results.
TEMPLATE = """{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] or '' }}
{%- for call in message.get('tool_calls') or [] %}<tool_call>{{ call['function'] | tojson }}</tool_call>{% endfor %}
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""


class Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass
class Gated:
    """`url`: of the gateway, without a path."""

    folder: Path
    url: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    number: int = 0
    controller: Identity = field(default_factory=Identity.generate)

    def publish(self, *tenants: TenantView) -> None:
        self.number += 1
        now = int(time.time())
        snapshot = Snapshot(site="fra1", number=self.number, issued_at=now - 10, expires_at=now + 7200, tenants=tenants)
        write_snapshot(self.folder / "snapshot", snapshot, self.controller)

    def start(self, name: str, command: list[str], ready: Callable[[], bool]) -> None:
        log = self.folder / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment(), stdout=out, stderr=out, start_new_session=True
            )
        self.processes.append(process)
        end = time.monotonic() + START
        while not ready():
            text = log.read_text(errors="replace")[-6000:]
            assert process.poll() is None, f"{name} ended:\n{text}"
            assert time.monotonic() < end, f"{name} is not ready:\n{text}"
            time.sleep(0.2)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def ask(self, name: str, target: str) -> tuple[int, bytes]:
        """GET over the socket `name`; 0 when nobody listens."""
        connection = Connection(self.folder / f"{name}.sock")
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def usage(self) -> list[dict[str, Any]]:
        status, data = self.ask("admin", "/v1/usage?limit=5000")
        assert status == 200
        return list(json.loads(data)["records"])

    def counted(self) -> dict[str, int]:
        """Tokens that the engine has counted since it started, and the requests that it computes now."""
        lines = self.ask("engine", "/metrics")[1].decode().splitlines()
        names = {"prompt": "vllm:prompt_tokens_total{", "output": "vllm:generation_tokens_total{"}
        names["running"] = "vllm:num_requests_running{"
        return {
            kind: int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)))
            for kind, name in names.items()
        }


ACME = tenant("acme", "acme-1", "acme-2", max_concurrent=64)
GLOBEX = tenant("globex", "globex-1", max_concurrent=64)


def start(folder: Path) -> Gated:
    """Both, ready; `stop` ends them. Skips where there is no engine."""
    home = engine_home()
    model = folder / "tiny"
    tiny_model(home, model)
    (folder / "chat.jinja").write_text(TEMPLATE)
    port = free_port()
    gated = Gated(folder, f"http://127.0.0.1:{port}")
    gated.publish(ACME, GLOBEX)
    Identity.generate().save(folder / "gate.key")
    (folder / "gate.yaml").write_text(json.dumps(settings(folder, port, gated.controller)))
    try:
        gated.start("engine", serve(home, model, folder), lambda: gated.ask("engine", "/health")[0] == 200)
        command = [sys.executable, "-m", "kvctl.gateway.main", "--config", str(folder / "gate.yaml")]
        gated.start("gate", command, lambda: gated.ask("admin", "/healthz")[0] == 200)
    except BaseException:
        gated.stop()
        raise
    return gated


def serve(home: Path, model: Path, folder: Path) -> list[str]:
    return [
        *(str(home / "bin" / "vllm"), "serve", str(model), "--served-model-name", "tiny"),
        *("--uds", str(folder / "engine.sock"), "--max-model-len", str(CONTEXT), "--max-num-seqs", "16"),
        *("--dtype", "float32", "--enforce-eager", "--shutdown-timeout", "10"),
        *("--enable-prompt-tokens-details", "--prefix-caching-hash-algo", "sha256_cbor"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "granite4", "--chat-template", str(folder / "chat.jinja")),
        *("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}'),
    ]


def settings(folder: Path, port: int, controller: Identity) -> dict[str, Any]:
    engine = {"name": "cpu1", "url": f"unix:{folder}/engine.sock", "models": ["tiny"], "country": "DE", "slots": 16}
    return {
        "schema": "1",
        "gateway": "gate1",
        "site": "fra1",
        "listen": [f"tcp:127.0.0.1:{port}"],
        "admin": f"{folder}/admin.sock",
        "identity": f"{folder}/gate.key",
        "snapshot": {"path": f"{folder}/snapshot", "controllers": {"fra1": controller.public.hex()}},
        "engines": [engine],
        "usage": {"directory": f"{folder}/usage"},
    }
