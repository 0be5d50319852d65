"""Stable identities of what a step touches, read when planned and again right before the step."""

from collections.abc import Iterable

from kvctl.types.facts import Drive, NodeFacts


def find_drive(facts: NodeFacts, serial: str) -> Drive | None:
    return next((d for d in facts.drives if d.serial.or_none() == serial), None)


def read(facts: NodeFacts, keys: Iterable[str]) -> dict[str, str]:
    """Key -> what the node says now, "" when it does not say.

    Keys: host.machine_id, nic.pci:IF, nic.psid:IF, drive.pci:SERIAL.
    """
    return {key: read_one(facts, key) for key in keys}


def read_one(facts: NodeFacts, key: str) -> str:
    name, _, subject = key.partition(":")
    if name == "host.machine_id":
        return facts.host.machine_id.or_none() or ""
    if name in ("nic.pci", "nic.psid"):
        nic = facts.nic(subject)
        if nic is None:
            return ""
        return (nic.pci if name == "nic.pci" else nic.psid).or_none() or ""
    if name == "drive.pci":
        drive = find_drive(facts, subject)
        return (drive.pci.or_none() or "") if drive else ""
    raise ValueError(f"no precondition is called {key!r}")
