"""A real sshd on a loopback port, hung peers, and the assertion that no process of a test is left."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from getpass import getuser
from pathlib import Path

import pytest

from kvctl.fleet.inventory.model import Access, Inventory, Node, Role, Site
from kvctl.fleet.remote.netns import in_namespace
from kvctl.fleet.remote.target import Target, resolve

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
MARKER = "KVCTL_TEST_MARKER"


@dataclass(frozen=True)
class Sshd:
    """A running sshd. `marker` stands in the environment of every command that it runs."""

    port: int
    directory: Path
    identity: Path
    known_hosts: Path
    marker: str
    pid: int

    def inventory(self, *names: str, **access: object) -> Inventory:
        return make_inventory(self.port, self.identity, self.known_hosts, *names, **access)

    def target(self, state: Path, **access: object) -> Target:
        return resolve(self.inventory("n1", **access), state)["n1"]


def make_inventory(port: int, identity: Path, known: Path, *names: str, **access: object) -> Inventory:
    values: dict[str, object] = {"identity_file": str(identity), "known_hosts": str(known), **access}
    return Inventory(
        site=Site(name="test"),
        access=Access.model_validate(values),
        roles={"s": Role(kind="storage")},
        nodes=tuple(
            Node(name=name, address=f"127.0.0.{i}", role="s", port=port, user=getuser())
            for i, name in enumerate(names or ("n1",), 1)
        ),
    )


def keygen(path: Path, kind: str = "ed25519") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(path)], check=True)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_true(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        pause.wait(0.05)


def marked(marker: str, *, name: str = MARKER) -> list[tuple[int, str]]:
    """Live processes whose environment holds name=marker."""
    wanted = f"{name}={marker}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                argv = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if argv:
                    found.append((int(entry.name), argv[:160]))
    return found


@contextlib.contextmanager
def run_sshd(
    directory: Path, *extra: str, own_run: bool = False, prefix: Sequence[str] = (), netns: str = ""
) -> Iterator[Sshd]:
    """`own_run` gives it a /run of its own, as a node has, in a private mount namespace (needs root)."""
    assert SSHD is not None
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    marker = uuid.uuid4().hex
    host_key, identity = directory / "host_key", directory / "id"
    for path in (host_key, identity):
        if not path.exists():
            keygen(path)
    authorized = directory / "authorized_keys"
    authorized.write_text(identity.with_suffix(".pub").read_text())
    port = free_port()
    known = directory / "known_hosts"
    hosts = ",".join(f"[127.0.0.{i}]:{port}" for i in range(1, 9))
    known.write_text(f"{hosts} {' '.join(host_key.with_suffix('.pub').read_text().split()[:2])}\n")
    config = directory / "sshd_config"
    lines = [
        f"Port {port}",
        *(f"ListenAddress 127.0.0.{i}" for i in range(1, 9)),
        f"HostKey {host_key}",
        *([] if any(line.startswith("AuthorizedKeysFile") for line in extra) else [f"AuthorizedKeysFile {authorized}"]),
        f"PidFile {directory / 'pid'}",
        f"SetEnv {MARKER}={marker}",
        "UsePAM no",
        "StrictModes no",
        "PasswordAuthentication no",
        "PermitRootLogin yes",
        "Subsystem sftp internal-sftp",
        "MaxStartups 100:30:200",
        "MaxSessions 50",
        *extra,
    ]
    config.write_text("\n".join(lines) + "\n")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with open(directory / "log", "w") as log:
        argv = [SSHD, "-D", "-e", "-f", str(config)]
        if own_run:
            prepare = 'mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && exec "$@"'
            argv = ["unshare", "--mount", "sh", "-c", prepare, "sh", *argv]
        if netns:
            argv = ["ip", "netns", "exec", netns, *argv]
        process = subprocess.Popen([*prefix, *argv], stderr=log, stdin=subprocess.DEVNULL)
    try:
        await_true(lambda: listening(port, netns) or process.poll() is not None, 10, "sshd to listen")
        assert process.poll() is None, (directory / "log").read_text()
        yield Sshd(port, directory, identity, known, marker, process.pid)
    finally:
        process.terminate()
        process.wait(10)


def listening(port: int, netns: str = "") -> bool:
    with in_namespace(netns, socket.socket) if netns else socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def sshd_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    if SSHD is None:
        pytest.skip("there is no sshd: apt-get install openssh-server, then run this test again")
    with run_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def sshd(sshd_session: Sshd) -> Iterator[Sshd]:
    """The shared sshd; after the test no command that it ran may be alive."""
    yield sshd_session
    await_true(lambda: not marked(sshd_session.marker), 30, f"no process left: {marked(sshd_session.marker)}")


@pytest.fixture
def target(sshd: Sshd, tmp_path: Path) -> Target:
    return sshd.target(tmp_path / "state")


@dataclass(frozen=True)
class Fleet:
    """Nodes n1, n2 ... each with its own sshd and its own /run."""

    servers: dict[str, Sshd]
    targets: dict[str, Target]

    def commands(self) -> list[tuple[int, str]]:
        return [one for server in self.servers.values() for one in marked(server.marker)]


@pytest.fixture(scope="session")
def fleet_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sshd]]:
    if SSHD is None or os.getuid() != 0:
        pytest.skip("needs root and an sshd (nodes get a /run of their own): run as root with openssh-server installed")
    with contextlib.ExitStack() as stack:
        names = ("n1", "n2", "n3")
        root = tmp_path_factory.mktemp("fleet")
        yield {name: stack.enter_context(run_sshd(root / name, own_run=True)) for name in names}


@pytest.fixture
def fleet(fleet_servers: dict[str, Sshd], tmp_path: Path) -> Iterator[Fleet]:
    """Three nodes; after the test no command of theirs may be alive."""
    known = tmp_path / "known_hosts"
    known.write_text("".join(server.known_hosts.read_text() for server in fleet_servers.values()))
    made = {}
    for name, server in fleet_servers.items():
        inventory = make_inventory(server.port, server.identity, known, name)
        made[name] = resolve(inventory, tmp_path / "state" / name)[name]
    # one configuration for all, as an inventory with different ports has
    config = tmp_path / "ssh_config"
    config.write_text("\n".join(Path(target.config).read_text() for target in made.values()))
    config.chmod(0o600)
    fleet = Fleet(fleet_servers, {name: replace(target, config=str(config)) for name, target in made.items()})
    yield fleet
    await_true(lambda: not fleet.commands(), 30, f"no process left on a node: {fleet.commands()}")


class Peer:
    """A TCP server that says `greeting` once and then nothing, for as long as the test lasts."""

    def __init__(self, greeting: bytes = b"") -> None:
        self._greeting = greeting
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._kept: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._server.accept()
                self._kept.append(peer)
                if self._greeting:
                    peer.sendall(self._greeting)

    def close(self) -> None:
        self._server.close()
        for peer in self._kept:
            peer.close()


@pytest.fixture
def hung(target: Target) -> Iterator[Callable[..., Target]]:
    """Make a target whose peer accepts and never goes on."""
    peers: list[Peer] = []

    def make(greeting: bytes = b"") -> Target:
        peers.append(Peer(greeting))
        return replace(target, port=peers[-1].port)

    yield make
    for peer in peers:
        peer.close()
