"""Firmware images for the lab's cards: small files that the mstflint stand-in burns, with their checksums."""

import hashlib
import json
from pathlib import Path

from kvctl.fleet.lab import cards
from kvctl.fleet.lab.standins.mstflint import MAGIC

PADDING = 16384  # bytes


def image(psid: str, version: str, rom: list[list[str]]) -> bytes:
    """An image as `standins.mstflint.image` reads it. The same arguments give the same bytes."""
    body = hashlib.sha256(f"{psid} {version}".encode()).digest() * (PADDING // 32)
    header = {"psid": psid, "version": version, "date": cards.RELEASED[version], "rom": rom}
    header["sha256"] = hashlib.sha256(body).hexdigest()
    return MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n" + body


def file_name(psid: str, version: str) -> str:
    return f"fw-ConnectX6Dx-rel-{version.replace('.', '_')}-{psid}.bin"


def write(directory: Path) -> dict[str, str]:
    """Write every image into `directory`; gives SHA-256 by file name. One is for another card, to be refused."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = (
        (cards.PSID, cards.FIRMWARE, cards.ROM),
        (cards.PSID, cards.OLD_FIRMWARE, cards.OLD_ROM),
        (cards.OTHER_PSID, cards.FIRMWARE, cards.ROM),
    )
    sums = {}
    for psid, version, rom in wanted:
        content = image(psid, version, rom)
        (directory / file_name(psid, version)).write_bytes(content)
        sums[file_name(psid, version)] = hashlib.sha256(content).hexdigest()
    return sums
