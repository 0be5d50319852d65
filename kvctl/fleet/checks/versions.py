"""Firmware versions as vendors print them: padded differently, or not numbers at all."""

import re


def canonical(version: str) -> str:
    """A comparable form: 14.26.0017 and 14.26.17 are one version (mstflint pads, devlink does not).

    Texts that are not dotted numbers, such as a switch's 30_2012_4038-006, stay as they are.
    """
    text = version.strip()
    if re.fullmatch(r"\d+(\.\d+)+", text):
        return ".".join(str(int(part)) for part in text.split("."))
    return text


def same(a: str, b: str) -> bool:
    return canonical(a) == canonical(b)


def branch(version: str, parts: int) -> str:
    """The first `parts` numbers: 237.1.137.0 -> 237.1.137 for 3."""
    return ".".join(canonical(version).split(".")[:parts])
