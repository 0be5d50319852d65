"""Where a node is and how to get in: the inventory over the user's own SSH configuration, resolved by `ssh -G`."""

import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from kvctl.fleet.inventory.model import Access, Inventory, Node
from kvctl.fleet.remote import failures, sshconfig
from kvctl.fleet.remote.hostkeys import has_markers, key_name

# What paramiko does not do, and the value of `ssh -G` that means "not asked for".
_SYSTEM_ONLY = {
    "certificatefile": "",
    "pkcs11provider": "none",
    "knownhostscommand": "none",
    "revokedhostkeys": "none",
    "identityagent": "SSH_AUTH_SOCK",
    "bindaddress": "",
    "bindinterface": "",
    "addressfamily": "any",
    "proxyusefdpass": "no",
    "hostbasedauthentication": "no",
}


@dataclass(frozen=True, slots=True)
class Target:
    """One node to connect to. `config` is the rendered OpenSSH file in which the node's name is a Host."""

    node: str
    host: str
    port: int = 22
    user: str = "root"
    identity_files: tuple[str, ...] = ()  # existing private key files
    use_agent: bool = True
    known_hosts: tuple[str, ...] = ()  # the first is kvctl's to write
    key_name: str = ""  # the name in known_hosts
    proxy_command: str = ""  # %h, %p, %r and %n already filled in
    netns: str = ""
    transport: str = "paramiko"  # paramiko | system
    note: str = ""  # why the transport is not the one asked for
    config: str = ""
    connect_timeout: float = 10.0

    def netns_prefix(self) -> tuple[str, ...]:
        """What an argv starts with so that its process is in the node's network namespace."""
        return ("nsenter", f"--net=/run/netns/{self.netns}", "--") if self.netns else ()

    def ssh_argv(self) -> tuple[str, ...]:
        """The ssh binary for this node, without a command."""
        return (*self.netns_prefix(), "ssh", "-F", self.config, "-T", "--", self.node)


def resolve(
    inventory: Inventory,
    state_dir: Path,
    *,
    nodes: Iterable[str] | None = None,
    transport: str | None = None,
) -> dict[str, Target]:
    """Targets by node name, and the OpenSSH configuration they share, written into `state_dir`/ssh (0700).

    `nodes` limits the result; `transport` overrides the inventory's. Raises UsageError KV-SSH-011 for a
    configuration that ssh refuses.
    """
    access = inventory.access
    wanted = None if nodes is None else set(nodes)
    chosen = [node for node in inventory.nodes if wanted is None or node.name in wanted]
    directory = state_dir / "ssh"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = access.known_hosts or str(directory.resolve() / "known_hosts")
    own = str(Path(own).expanduser().absolute())
    wrapper = sshconfig.write(directory, "resolve", sshconfig.wrapper(access.ssh_config))
    jump = sshconfig.write(directory, "jump", sshconfig.jump(access.ssh_config, own))
    defaults = _ssh_g(sshconfig.write(directory, "empty", ""), [], "localhost")

    def one(node: Node) -> tuple[Target, str]:
        options = _ssh_g(wrapper, _overrides(node, access), node.address.strip("[]"))
        return _target(node, access, options, own, jump), sshconfig.pass_through(options, defaults)

    with ThreadPoolExecutor(min(8, len(chosen) or 1)) as pool:
        made = list(pool.map(one, chosen))
    config = sshconfig.write(directory, "config", sshconfig.render(made))
    return {target.node: _transport(replace(target, config=config), transport) for target, _ in made}


def _overrides(node: Node, access: Access) -> list[str]:
    args: list[str] = []
    if "port" in node.model_fields_set:
        args += ["-p", str(node.port)]
    if "user" in node.model_fields_set:
        args += ["-l", node.user]
    if access.identity_file:
        args += ["-o", f'IdentityFile="{Path(access.identity_file).expanduser()}"', "-o", "IdentitiesOnly=yes"]
    return args


def _ssh_g(config: str, args: list[str], host: str) -> dict[str, list[str]]:
    argv = ["ssh", "-F", config, "-T", *args, "-G", "--", host]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, check=False)
    if done.returncode != 0:
        raise failures.bad_ssh_config(
            f"ssh does not accept the configuration for {host}", failures.tail(done.stderr), place=config
        )
    options: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        options.setdefault(name.lower(), []).append(value)
    return options


def _target(node: Node, access: Access, options: dict[str, list[str]], own: str, jump: str) -> Target:
    def first(name: str, default: str = "") -> str:
        return options.get(name, [default])[0]

    host, port, user = first("hostname", node.address), int(first("port", "22")), first("user", node.user)
    tokens = {"h": host, "p": str(port), "r": user, "n": node.address, "%": "%"}
    files = [own]
    if not access.known_hosts:
        for name in ("userknownhostsfile", "globalknownhostsfile"):
            files += [
                sshconfig.expand(part, tokens) for part in first(name).split() if part not in ("none", "/dev/null")
            ]
    identities = [sshconfig.expand(text, tokens) for text in options.get("identityfile", [])]
    present = tuple(path for path in identities if Path(path).is_file())
    if access.identity_file and not present:
        raise failures.bad_ssh_config(
            f"identity file {access.identity_file} does not exist", "it is not a file", place="access.identity_file"
        )
    alias = first("hostkeyalias")
    target = Target(
        node=node.name,
        host=host,
        port=port,
        user=user,
        identity_files=present,
        use_agent=first("identityagent") != "none" and (first("identitiesonly") != "yes" or not present),
        known_hosts=tuple(dict.fromkeys(files)),
        key_name=alias.lower() if alias not in ("", "none") else key_name(host, port),
        proxy_command=_proxy(options, tokens, jump),
        netns=access.netns,
        transport=access.transport,
        connect_timeout=access.connect_timeout,
    )
    return replace(target, note=_system_only(options, target))


def _proxy(options: dict[str, list[str]], tokens: dict[str, str], jump: str) -> str:
    jumps = options.get("proxyjump", ["none"])[0]
    if jumps not in ("", "none"):
        *via, last = jumps.split(",")
        through = f"-J {','.join(via)} " if via else ""
        host, _, port = sshconfig.jump_parts(last)
        port_option = f"-p {port} " if port else ""
        return f"ssh -F {jump} {through}{port_option}-W '[{tokens['h']}]:{tokens['p']}' -- {host}"
    command = options.get("proxycommand", ["none"])[0]
    return "" if command in ("", "none") else sshconfig.fill(command, tokens)


def _system_only(options: dict[str, list[str]], target: Target) -> str:
    for name, usual in _SYSTEM_ONLY.items():
        value = options.get(name, [usual])[0]
        if value not in (usual, "none", ""):
            return f"{name} {value} is for OpenSSH alone"
    if has_markers(target.known_hosts):
        return "known_hosts has @revoked or @cert-authority lines, which are for OpenSSH alone"
    for path in target.identity_files:
        public = Path(path + ".pub")
        if public.is_file() and public.read_text("utf-8", errors="replace").startswith("sk-"):
            return f"{path} is a security key"
    return ""


def _transport(target: Target, asked: str | None) -> Target:
    wanted = asked or target.transport
    if wanted == "paramiko" and target.note:
        return replace(target, transport="system", note=f"system ssh is used: {target.note}")
    return replace(target, transport=wanted, note="")
