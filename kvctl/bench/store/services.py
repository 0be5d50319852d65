"""Servers of the contestants: on free loopback ports, with files in one private directory."""

import importlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvctl.bench.store.cells import GIB, Settings
from kvctl.bench.store.contestants import needed
from kvctl.bench.store.lanes.s3 import client
from kvctl.bench.store.processes import Child, await_line, await_true, free_ports, listens, module, running

HOST = "127.0.0.1"
BUCKET = "bench"


@dataclass(frozen=True, slots=True)
class Service:
    """A server that answers. `addresses`: what each of its contestants is told, by contestant."""

    children: tuple[Child, ...]
    addresses: Mapping[str, dict[str, str]]

    def pids(self) -> tuple[int, ...]:
        return tuple(pid for child in self.children for pid in child.tree())


@contextmanager
def none(settings: Settings, directory: Path) -> Iterator[Service]:
    """For contestants without a server."""
    yield Service((), {"memcpy": {}})


@contextmanager
def raw(settings: Settings, directory: Path) -> Iterator[Service]:
    port, path = free_ports(1)[0], directory / "raw.sock"
    argv = module("kvctl.bench.store.rawserver", str(port), str(path), str(settings.set_bytes))
    with running("raw", argv, directory, pipes=True) as child:
        await_line(child, b"ready")
        yield Service((child,), {"raw-tcp": {"address": f"{HOST}:{port}"}, "raw-unix": {"address": str(path)}})


@contextmanager
def redis(settings: Settings, directory: Path, *, durable: bool = False) -> Iterator[Service]:
    """In memory; `durable`: every write is in the append-only file, and flushed, before it is answered."""
    label = "redis-aof" if durable else "redis"
    port = free_ports(1)[0]
    private = directory / label
    private.mkdir()
    config = private / "redis.conf"
    log = ["appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0"] if durable else ["appendonly no"]
    lines = [f"bind {HOST}", f"port {port}", f"dir {private}", 'save ""', "daemonize no", *log]
    config.write_text("\n".join(lines) + "\n")
    with running(label, [needed("redis-server"), str(config)], private) as child:
        address = f"{HOST}:{port}"
        await_true(child, f"{address} answers", lambda: listens(address))
        yield Service((child,), {label: {"address": address}})


@contextmanager
def redis_aof(settings: Settings, directory: Path) -> Iterator[Service]:
    with redis(settings, directory, durable=True) as service:
        yield service


NGINX = """
{user}
daemon off;
pid {private}/nginx.pid;
error_log stderr error;
worker_processes auto;
events {{ worker_connections 256; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  client_max_body_size 64m;
  client_body_buffer_size 256k;
  client_body_temp_path {private}/body;
  proxy_temp_path {private}/proxy;
  fastcgi_temp_path {private}/fastcgi;
  uwsgi_temp_path {private}/uwsgi;
  scgi_temp_path {private}/scgi;
  default_type application/octet-stream;
  server {{
    listen {host}:{port};
    root {private}/files;
    dav_methods PUT DELETE;
  }}
}}
"""


@contextmanager
def nginx(settings: Settings, directory: Path) -> Iterator[Service]:
    """Static files by sendfile, PUT by its WebDAV module into the page cache."""
    port, private = free_ports(1)[0], directory / "nginx"
    (private / "files").mkdir(parents=True)
    # as root, workers would run as another user, who cannot reach a private directory
    user = "user root;" if os.geteuid() == 0 else ""
    config = private / "nginx.conf"
    config.write_text(NGINX.format(user=user, private=private, host=HOST, port=port))
    argv = [needed("nginx"), "-c", str(config), "-p", str(private), "-e", "stderr"]
    with running("nginx", argv, private) as child:
        address = f"{HOST}:{port}"
        await_true(child, f"{address} answers", lambda: listens(address))
        yield Service((child,), {"nginx": {"address": address}})


@contextmanager
def mooncake(settings: Settings, directory: Path) -> Iterator[Service]:
    """Its master, and a process that holds the bytes; both are the server's side."""
    private = directory / "mooncake"
    private.mkdir()
    rpc, metrics = free_ports(2)
    master = f"{HOST}:{rpc}"
    argv = [needed("mooncake_master"), f"-rpc_address={HOST}", f"-rpc_port={rpc}", f"-metrics_host={HOST}",
            f"-metrics_port={metrics}", "-default_kv_lease_ttl=60000"]  # fmt: skip
    with running("master", argv, private) as child:
        await_true(child, f"{master} answers", lambda: listens(master))
        held = str(2 * GIB + 3 * settings.set_bytes)
        with running("holder", module("kvctl.bench.store.holder", HOST, master, held), private, pipes=True) as holder:
            await_line(holder, b"ready")
            yield Service((child, holder), {"mooncake": {"host": HOST, "master": master}})


@contextmanager
def seaweedfs(settings: Settings, directory: Path) -> Iterator[Service]:
    """Master, volume server, filer and S3 gateway in one process, with signed requests."""
    private = directory / "seaweedfs"
    (private / "data").mkdir(parents=True)
    access, secret = secrets.token_hex(8), secrets.token_hex(16)
    identity = {"name": "bench", "credentials": [{"accessKey": access, "secretKey": secret}], "actions": ["Admin"]}
    config = private / "s3.json"
    config.touch(mode=0o600)
    config.write_text(json.dumps({"identities": [identity]}))
    ports = dict(zip(WEED_PORTS, free_ports(len(WEED_PORTS)), strict=True))
    argv = [
        needed("weed"), "-logtostderr=true", "server", f"-dir={private / 'data'}", f"-ip={HOST}", f"-ip.bind={HOST}",
        "-filer", "-s3", f"-s3.config={config}", "-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
        f"-filer.localSocket={private / 'filer.sock'}", f"-s3.localSocket={private / 's3.sock'}", "-s3.iam=false",
        "-volume.max=64", "-master.volumeSizeLimitMB=1024", "-volume.preStopSeconds=0",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]  # fmt: skip
    with running("weed", argv, private) as child:
        address = {"endpoint": f"http://{HOST}:{ports['s3.port']}", "access": access, "secret": secret,
                   "bucket": BUCKET}  # fmt: skip
        await_true(child, "an object can be stored", lambda: s3_stores(address))
        yield Service((child,), {"seaweedfs": address})


WEED_PORTS = (
    "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port",
    "s3.port.grpc",
)  # fmt: skip


def s3_stores(address: dict[str, str]) -> bool:
    """Volume servers register some time after the gateway listens: only a PUT tells."""
    errors = importlib.import_module("botocore.exceptions")
    if not listens(address["endpoint"].removeprefix("http://")):
        return False
    made: Any = None
    try:
        made = client(address, 1)
        made.put_object(Bucket=address["bucket"], Key="ready", Body=b"ready")
    except (errors.BotoCoreError, errors.ClientError):
        return False
    finally:
        if made is not None:
            made.close()
    return True
