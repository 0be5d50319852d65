"""`nvme list` and `nvme list-subsys`, text and JSON, nvme-cli 0.x to 3.x.

JSON has had five shapes: flat Devices without sizes, flat with sizes (32-bit in old builds, `MaximiumLBA` until 1.6),
flat with GenericPath (2.0 to 2.10), and Subsystems > Controllers > Namespaces with namespaces under the controller or,
under multipath, under the subsystem with Paths (verbose output of all versions, the default since 2.11).
Format: nvme-cli nvme-print.c (1.x), nvme-print-stdout.c and nvme-print-json.c (2.x).
"""

from __future__ import annotations

import re

from . import ToolOutputError, looks_like_json
from .nvme_devices import Found, NvmeController, NvmeList, NvmeSubsystem, read_controller
from .nvme_list_text import list_from_text
from .scalars import items, load_json, mapping, words


def parse_list(text: str) -> NvmeList:
    """Namespaces and controllers of `nvme list`, with or without -v, as text or JSON."""
    if not looks_like_json(text) and re.search(r"^[^\w\n]*(?:Node|Device|Subsystem)\s", text, re.MULTILINE):
        return list_from_text(text)
    if re.fullmatch(r"\s*No NVMe devices detected\.?\s*", text):
        return NvmeList(())
    document = load_json(text)
    if not isinstance(document, dict):
        raise ToolOutputError("nvme list prints a JSON object")
    if "Devices" not in document:
        # nvme-cli 1.x prints an empty object when there is no device.
        if document:
            raise ToolOutputError("no Devices in the JSON of nvme list")
        return NvmeList(())
    found = Found()
    for entry in items(document["Devices"]):
        _entry(entry, found)
    return found.result()


def parse_list_subsys(text: str) -> tuple[NvmeSubsystem, ...]:
    """Subsystems of `nvme list-subsys`; names have no meaning, NQNs may hold blanks."""
    if not looks_like_json(text) and re.search(r"^\s*\S+ - NQN=", text, re.MULTILINE):
        return _subsystems_text(text)
    document = load_json(text)
    hosts = items(document) if isinstance(document, list) else [mapping(document)]
    if any("Subsystems" not in host for host in hosts) and (document or isinstance(document, list)):
        raise ToolOutputError("no Subsystems in the JSON of nvme list-subsys")
    found = []
    for host in hosts:
        for entry in items(host.get("Subsystems")):
            nqn = words(entry.get("NQN"))
            name = words(entry.get("Name"))
            paths = tuple(read_controller(path, name, nqn) for path in items(entry.get("Paths")))
            found.append(NvmeSubsystem(name, nqn, paths, words(host.get("HostNQN"))))
    return tuple(found)


def _entry(entry: dict[str, object], found: Found) -> None:
    if "DevicePath" in entry:
        found.add(entry, ())
    elif "Subsystems" in entry:
        for subsystem in items(entry["Subsystems"]):
            _subsystem(subsystem, found)
    elif "Controllers" in entry or "Namespaces" in entry:
        _subsystem(entry, found)
    else:
        raise ToolOutputError("an entry of Devices is neither a device nor a host nor a subsystem")


def _subsystem(entry: dict[str, object], found: Found) -> None:
    name, nqn = words(entry.get("Subsystem")), words(entry.get("SubsystemNQN"))
    controllers = []
    for part in items(entry.get("Controllers")):
        controller = read_controller(part, name, nqn)
        controllers.append(controller)
        found.add_controller(controller)
        for namespace in items(part.get("Namespaces")):
            found.add(namespace, (controller,))
    for namespace in items(entry.get("Namespaces")):
        paths = [part for part in items(namespace.get("Paths")) if "Controller" in part]
        own = tuple(read_controller(part, name, nqn) for part in paths) or tuple(controllers)
        for controller in own:
            found.add_controller(controller)
        found.add(namespace, own)


def _subsystems_text(text: str) -> tuple[NvmeSubsystem, ...]:
    found: list[NvmeSubsystem] = []
    for line in text.splitlines():
        head = re.fullmatch(r"\s*(\S+) - NQN=(.*)", line)
        path = re.fullmatch(r"\s*\+-\s*(nvme[0-9]+(?:c[0-9]+n[0-9]+)?)\s+(\S+)\s*(.*?)\s*(\S+)?\s*", line)
        host = re.fullmatch(r"\s*hostnqn=(.*)", line)
        if head:
            found.append(NvmeSubsystem(head.group(1), words(head.group(2)), ()))
        elif found and host:
            last = found[-1]
            found[-1] = NvmeSubsystem(last.name, last.nqn, last.controllers, words(host.group(1)))
        elif found and path:
            last = found[-1]
            found[-1] = NvmeSubsystem(last.name, last.nqn, (*last.controllers, _path_line(path, last)), last.host_nqn)
    return tuple(found)


_STATES = ("new", "live", "resetting", "connecting", "deleting", "dead", "deleting (no IO)")


def _path_line(path: re.Match[str], subsystem: NvmeSubsystem) -> NvmeController:
    rest = " ".join(part for part in (path.group(3), path.group(4)) if part)
    parts = rest.split()
    ana = parts.pop() if parts and parts[-1] in ("optimized", "non-optimized", "inaccessible") else None
    state = parts.pop() if parts and parts[-1] in _STATES else None
    entry: dict[str, object] = {
        "Name": path.group(1),
        "Transport": path.group(2),
        "Address": " ".join(parts),
        "State": state,
        "ANAState": ana,
    }
    return read_controller(entry, subsystem.name, subsystem.nqn)
