"""Prometheus metrics (text format 0.0.4) and the HTTP server on the loopback that shows them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable

ADDRESS = ("127.0.0.1", 9780)
Labels = tuple[tuple[str, str], ...]
# name -> (type, help)
FAMILIES = {
    "kvctl_noded_info": ("gauge", "Version and archive of kvnoded; always 1."),
    "kvctl_noded_start_time_seconds": ("gauge", "Unix time at which kvnoded started."),
    "kvctl_link_up": ("gauge", "1 when the interface's operational state is up."),
    "kvctl_link_flaps_total": ("counter", "Times the interface went down while kvnoded watched."),
    "kvctl_class_ok": ("gauge", "1 when the interface has its owned class, 0 when it has not or cannot be read."),
    "kvctl_class_drift_total": ("counter", "Times the interface was found to differ from its owned class."),
    "kvctl_class_reapplied_total": ("counter", "Re-applications of the owned class, by result."),
    "kvctl_class_last_check_timestamp_seconds": ("gauge", "Unix time of the last check of the class."),
    "kvctl_class_check_duration_seconds": ("gauge", "Seconds that the last check of the class took."),
    "kvctl_device_events_total": ("counter", "Devices that came or went, by subsystem and action."),
    "kvctl_history_events": ("gauge", "Events kept in the history file."),
}


class Metrics:
    """Values by family and labels; a family without a value is not shown, so nothing unknown reads as zero."""

    def __init__(self) -> None:
        self._values: dict[str, dict[Labels, float]] = {name: {} for name in FAMILIES}
        self._lock = threading.Lock()

    def set(self, family: str, value: float, **labels: str) -> None:
        with self._lock:
            self._values[family][tuple(sorted(labels.items()))] = value

    def add(self, family: str, amount: float = 1, **labels: str) -> None:
        with self._lock:
            values, key = self._values[family], tuple(sorted(labels.items()))
            values[key] = values.get(key, 0) + amount

    def forget(self, family: str, **labels: str) -> None:
        with self._lock:
            self._values[family].pop(tuple(sorted(labels.items())), None)

    def text(self) -> str:
        lines = []
        with self._lock:
            for name, (kind, meaning) in FAMILIES.items():
                if self._values[name]:
                    lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
                    lines += [
                        f"{name}{labelled(key)} {value:.15g}" for key, value in sorted(self._values[name].items())
                    ]
        return "\n".join(lines) + "\n"


def labelled(labels: Labels) -> str:
    if not labels:
        return ""
    escaped = ((name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for name, value in labels)
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


def server(
    metrics: Metrics,
    health: Callable[[], dict[str, Any]],
    facts: Callable[[], dict[str, Any]],
    address: tuple[str, int] = ADDRESS,
) -> ThreadingHTTPServer:
    """Serve /metrics, /healthz (503 when not ok) and /facts in a thread of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self.answer(200, metrics.text().encode(), "text/plain; version=0.0.4")
            elif self.path == "/healthz":
                state = health()
                self.answer(200 if state["ok"] else 503, json.dumps(state).encode(), "application/json")
            elif self.path == "/facts":
                self.answer(200, json.dumps(facts()).encode(), "application/json")
            else:
                self.answer(404, b'{"error": "not found"}', "application/json")

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not logged: a scraper would fill the journal."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        allow_reuse_address = True

    made = Server(address, Handler)
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True, name="http").start()
    return made
