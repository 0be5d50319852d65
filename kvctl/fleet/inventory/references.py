"""Do the inventory's parts fit each other? Works on plain data, so that it also speaks when other fields are wrong."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

from kvctl.fleet.inventory.problems import BAD_VALUE, DUPLICATE_NODE, NO_SUCH_NAME, SAME_ENDPOINT

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    path: Path
    code: str
    problem: str
    allowed: str = ""
    first: Path = ()  # the earlier of two parts that collide


def find_broken(data: Any, built_in_roles: Collection[str]) -> Iterator[Broken]:
    """Every reference that does not hold. Parts of another shape than expected are left to the field checks."""
    nodes = _nodes(data)
    roles = {**dict.fromkeys(built_in_roles), **_mapping(data, "roles")}
    pools = _mapping(data, "pools")
    yield from _names(nodes)
    yield from _endpoints(nodes)
    for path, node in nodes:
        yield from _group(path, node, "role", roles)
        if node.get("pool") != "":
            yield from _group(path, node, "pool", pools)
        yield from _rails(path, node, roles)
    yield from _addresses(nodes)


def _mapping(data: Any, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, Mapping) else None
    return dict(value) if isinstance(value, Mapping) else {}


def _nodes(data: Any) -> list[tuple[Path, Mapping[str, Any]]]:
    value = data.get("nodes") if isinstance(data, Mapping) else None
    items = value if isinstance(value, list | tuple) else []
    return [(("nodes", i), item) for i, item in enumerate(items) if isinstance(item, Mapping)]


def _names(nodes: list[tuple[Path, Mapping[str, Any]]]) -> Iterator[Broken]:
    seen: dict[str, Path] = {}
    for path, node in nodes:
        name = node.get("name")
        if not isinstance(name, str):
            continue
        here = (*path, "name")
        if name in seen:
            yield Broken(here, DUPLICATE_NODE, f"node {name!r} is listed twice", "each name once", seen[name])
        seen.setdefault(name, here)


def _endpoints(nodes: list[tuple[Path, Mapping[str, Any]]]) -> Iterator[Broken]:
    seen: dict[tuple[str, int], tuple[Path, Any]] = {}
    for path, node in nodes:
        address, port = node.get("address"), node.get("port", 22)
        if not isinstance(address, str) or not isinstance(port, int):
            continue
        here, key = (*path, "address"), (_canonical(address), port)
        if key in seen:
            first, other = seen[key]
            yield Broken(here, SAME_ENDPOINT, f"node {other!r} has {address} port {port} too", "one node each", first)
        seen.setdefault(key, (here, node.get("name")))


def _canonical(address: str) -> str:
    try:
        return str(ip_address(address.strip("[]")))
    except ValueError:
        return address.lower().rstrip(".")


def _group(path: Path, node: Mapping[str, Any], kind: str, groups: Mapping[str, Any]) -> Iterator[Broken]:
    name = node.get(kind)
    if isinstance(name, str) and name not in groups:
        allowed = " | ".join(sorted(groups)) or f"none yet: {kind}s is empty"
        yield Broken((*path, kind), NO_SUCH_NAME, f"there is no {kind} {name!r}", allowed)


def _rails(path: Path, node: Mapping[str, Any], roles: Mapping[str, Any]) -> Iterator[Broken]:
    """Addresses of a node stand on rails of its role, inside the rail's subnet. A role without rails allows any."""
    role_name = node.get("role")
    role = roles.get(role_name) if isinstance(role_name, str) else None
    rails = role.get("rails") if isinstance(role, Mapping) else None
    subnets = {
        rail["interface"]: rail.get("subnet")
        for rail in (rails if isinstance(rails, list | tuple) else ())
        if isinstance(rail, Mapping) and isinstance(rail.get("interface"), str)
    }
    for name, text in _mapping(node, "addresses").items() if subnets else ():
        here = (*path, "addresses", name)
        if name not in subnets:
            problem = f"role {role_name!r} has no rail {name!r}"
            yield Broken(here, NO_SUCH_NAME, problem, " | ".join(sorted(subnets)))
        elif _outside(text, subnets[name]):
            yield Broken(here, BAD_VALUE, f"{text} is not in the rail's subnet", str(subnets[name]))


def _outside(address: Any, subnet: Any) -> bool:
    if not isinstance(address, str) or not isinstance(subnet, str) or not subnet:
        return False
    try:
        return ip_interface(address).ip not in ip_network(subnet)
    except ValueError:
        return False  # the field checks name the one that is no address


def _addresses(nodes: list[tuple[Path, Mapping[str, Any]]]) -> Iterator[Broken]:
    seen: dict[str, tuple[Path, Any]] = {}
    for path, node in nodes:
        for name, text in _mapping(node, "addresses").items():
            if not isinstance(text, str):
                continue
            here, ip = (*path, "addresses", name), _canonical(text.split("/")[0])
            if ip in seen:
                first, other = seen[ip]
                yield Broken(here, SAME_ENDPOINT, f"node {other!r} has {ip} on a rail too", "one port each", first)
            seen.setdefault(ip, (here, node.get("name")))
