"""Access to nodes: enrolling host keys, and the first key and sudo rule."""

import base64
from dataclasses import asdict, dataclass, replace

from kvctl.controller.acts import acting, must, new_id
from kvctl.controller.site import Site
from kvctl.fleet.remote import failures
from kvctl.fleet.remote import trust as trusting
from kvctl.fleet.remote.bootstrap import Bootstrapped, bootstrap
from kvctl.fleet.remote.hostkeys import HostKey, recorded
from kvctl.fleet.remote.target import Target, resolve
from kvctl.types.errors import KvctlError


@dataclass(frozen=True)
class HostKeys:
    """What a node offers now, as (type, SHA-256 fingerprint, already known); or why it could not be asked."""

    node: str
    keys: tuple[tuple[str, str, bool], ...] = ()
    error: KvctlError | None = None

    @property
    def new(self) -> bool:
        return any(not known for _, _, known in self.keys)


def targets(site: Site, nodes: tuple[str, ...]) -> dict[str, Target]:
    names = [n.name for n in site.select(nodes)]
    return resolve(site.inventory, site.directory, nodes=names, transport=site.transport or None)


def offered(site: Site, nodes: tuple[str, ...]) -> tuple[HostKeys, ...]:
    """The host keys that the nodes prove to own. Nothing is trusted by asking."""
    found = []
    for name, target in targets(site, nodes).items():
        try:
            known = set(recorded(target.known_hosts, target.key_name))
            keys = trusting.scan(target)
            found.append(HostKeys(name, tuple((k.type, k.fingerprint, k in known) for k in keys)))
        except KvctlError as error:
            found.append(HostKeys(name, error=error))
    return tuple(found)


def enrol(site: Site, shown: HostKeys) -> int:
    """Record the keys that a person saw and confirmed; how many were new. What changed since is refused."""
    (target,) = targets(site, (shown.node,)).values()
    confirmed = {(kind, fingerprint) for kind, fingerprint, _ in shown.keys}
    keys = [k for k in trusting.scan(target) if (k.type, k.fingerprint) in confirmed]
    shown_keys = [{"type": key.type, "fingerprint": key.fingerprint} for key in keys]
    must(site.ledger, "node.trusted", {"node": shown.node, "keys": shown_keys})
    return len(trusting.enrol(target, keys))


def give_access(site: Site, node: str, public_key: str, login_user: str, password: str | None) -> Bootstrapped:
    """Install a public key, and sudo without a password for users other than root."""
    (target,) = targets(site, (node,)).values()
    login = replace(target, user=login_user) if login_user else None
    with acting(site, "bootstrap", new_id(), {"nodes": [node], "key": fingerprint(public_key)}) as act:
        done = bootstrap(target, public_key, login=login, password=password)
        act.how.update(asdict(done))
    return done


def fingerprint(public_key: str) -> str:
    """Of an authorized_keys line, as ssh-keygen shows it. UsageError for what is no public key."""
    try:
        kind, blob = public_key.split()[:2]
        return HostKey(kind, base64.b64decode(blob, validate=True)).fingerprint
    except ValueError:
        shown = repr(public_key.strip()[:40])
        raise failures.bad_ssh_config("the public key is not one OpenSSH public key line", shown) from None
