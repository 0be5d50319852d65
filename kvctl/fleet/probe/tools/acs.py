"""PCIe Access Control Services out of `lspci -vvv`, whole or filtered to its ACSCtl lines.

Format: pciutils ls-ecaps.c (cap_acs). A bridge that redirects peer-to-peer requests breaks GPUDirect's short way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import reject, text_lines

_CONTROL = re.compile(r".*\bACSCtl:\s*(.*)")
_SLOT = re.compile(r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s+[A-Za-z0-9].*")
_FLAG = re.compile(r"(SrcValid|TransBlk|ReqRedir|CmpltRedir|UpstreamFwd|EgressCtrl|DirectTrans)([+-])")


@dataclass(frozen=True)
class AcsControl:
    """The enabled services of one function; the slot is None when the text has only the filtered lines."""

    slot: str | None = None
    source_validation: bool | None = None
    translation_blocking: bool | None = None
    request_redirect: bool | None = None
    completion_redirect: bool | None = None
    upstream_forwarding: bool | None = None
    egress_control: bool | None = None
    direct_translated: bool | None = None

    @property
    def redirects(self) -> bool | None:
        """Whether peer-to-peer traffic is sent up to the root; None when a flag it depends on is missing."""
        flags = (self.request_redirect, self.completion_redirect, self.upstream_forwarding)
        return True if any(flags) else None if None in flags else False


def parse(text: str) -> tuple[AcsControl, ...]:
    """One entry for each ACSCtl line, in order; none when no device has ACS or the text is empty.

    Raises ToolOutputError for a text with neither ACSCtl lines nor lspci's device lines.
    """
    controls = []
    slot: str | None = None
    for line in text_lines(text):
        head, control = _SLOT.fullmatch(line), _CONTROL.fullmatch(line)
        if head:
            slot = head.group(1).lower()
        elif control:
            flags = {name: sign == "+" for name, sign in _FLAG.findall(control.group(1))}
            controls.append(
                AcsControl(
                    slot=slot,
                    source_validation=flags.get("SrcValid"),
                    translation_blocking=flags.get("TransBlk"),
                    request_redirect=flags.get("ReqRedir"),
                    completion_redirect=flags.get("CmpltRedir"),
                    upstream_forwarding=flags.get("UpstreamFwd"),
                    egress_control=flags.get("EgressCtrl"),
                    direct_translated=flags.get("DirectTrans"),
                )
            )
    if text.strip() and not controls and slot is None:
        reject("lspci ACSCtl", text)
    return tuple(controls)
