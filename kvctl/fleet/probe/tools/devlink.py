"""What `devlink dev info [DEV]` prints, as text or with -j: driver, serial numbers and versions of each device.

Format: iproute2 devlink/devlink.c (pr_out_info, pr_out_versions_single); names of versions are the driver's own,
see the kernel's Documentation/networking/devlink/devlink-info.rst.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from . import agree, json_object, json_text, looks_like_json, members, reject, text_lines

_HANDLE = re.compile(r"([a-z][\w-]*/\S+):")
_SECTIONS = ("fixed", "running", "stored")
_IDENTITY = ("driver", "serial_number", "board.serial_number", "function.uid")


@dataclass(frozen=True)
class DevlinkInfo:
    """One device; a section that the driver does not report is None."""

    handle: str  # "pci/0000:af:00.0", "auxiliary/mlx5_core.eth.0"
    driver: str | None = None
    serial_number: str | None = None
    board_serial_number: str | None = None
    fixed: dict[str, str] | None = None
    running: dict[str, str] | None = None
    stored: dict[str, str] | None = None

    @property
    def pci(self) -> str | None:
        return self.handle[4:] if self.handle.startswith("pci/") else None

    @property
    def fw_running(self) -> str | None:
        """The whole device's firmware; None where the driver reports only components, as ice does."""
        return _firmware(self.running)

    @property
    def fw_stored(self) -> str | None:
        return _firmware(self.stored)

    @property
    def psid(self) -> str | None:
        return next((part["fw.psid"] for part in (self.fixed, self.running) if part and "fw.psid" in part), None)

    @property
    def fw_roce(self) -> str | None:
        return (self.running or {}).get("fw.roce")

    @property
    def ddp(self) -> str | None:
        """Version of ice's dynamic device personalisation package."""
        return (self.running or {}).get("fw.app")


def parse_info(text: str) -> tuple[DevlinkInfo, ...]:
    """Raises ToolOutputError when no device is named."""
    return _json_info(text) if looks_like_json(text) else _text_info(text)


def _firmware(versions: dict[str, str] | None) -> str | None:
    return (versions or {}).get("fw.version", (versions or {}).get("fw"))


def _text_info(text: str) -> tuple[DevlinkInfo, ...]:
    devices: dict[str, dict[str, Any]] = {}
    device: dict[str, Any] = {}
    section: dict[str, str] | None = None
    for line in text_lines(text):
        stripped = line.strip()
        handle = _HANDLE.fullmatch(stripped)
        key, _, value = stripped.partition(" ")
        if handle:
            device, section = devices.setdefault(handle.group(1), {}), None
        elif stripped.rstrip(":") in _SECTIONS and stripped.endswith(":"):
            section = device.setdefault(stripped[:-1], {})
        elif stripped == "versions:":
            section = None
        elif section is None and key in _IDENTITY and value:
            device[key] = agree(device.get(key), value.strip(), key)
        elif section is not None and re.fullmatch(r"[a-z][\w.-]*", key) and value.strip():
            section[key] = agree(section.get(key), value.strip(), key)
    if not devices:
        reject("devlink dev info", text)
    return tuple(_info(handle, body) for handle, body in devices.items())


def _json_info(text: str) -> tuple[DevlinkInfo, ...]:
    devices = members(json_object(text, "devlink dev info").get("info"))
    if not devices:
        reject("devlink dev info", text)
    infos = []
    for handle, body in devices.items():
        versions = members(members(body).get("versions"))
        sections = {name: versions[name] for name in _SECTIONS if isinstance(versions.get(name), dict)}
        infos.append(_info(handle, {**members(body), **dict.fromkeys(_SECTIONS), **sections}))
    return tuple(infos)


def _info(handle: str, body: dict[str, Any]) -> DevlinkInfo:
    def section(name: str) -> dict[str, str] | None:
        part = body.get(name)
        return {k: v.strip() for k, v in part.items() if isinstance(v, str)} if isinstance(part, dict) else None

    return DevlinkInfo(
        handle=handle,
        driver=json_text(body.get("driver")),
        serial_number=json_text(body.get("serial_number")),
        board_serial_number=json_text(body.get("board.serial_number")),
        fixed=section("fixed"),
        running=section("running"),
        stored=section("stored"),
    )
