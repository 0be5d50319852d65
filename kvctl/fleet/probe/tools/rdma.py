"""What iproute2's `rdma link show` prints, as text of any version or with -j.

Format: iproute2 rdma/link.c. Old: "1/1: mlx5_0/1: state ...", newer: "link mlx5_0/1 state ...".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from . import integer, json_document, json_integer, json_text, looks_like_json, members, reject, text_lines

_LINK = re.compile(r"(?:link |([0-9]{1,6})/[0-9]{1,6}: )([^/\s]+)/([0-9]{1,3}):? (.*)")
_WORDS = frozenset(("state", "physical_state", "netdev", "netdev_index", "lid", "sm_lid", "lmc", "subnet_prefix"))

_STATES = frozenset(("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"))
_PHYSICAL_STATES = frozenset(
    ("NOP", "SLEEP", "POLLING", "DISABLED", "ARMED", "LINK_UP", "LINK_ERROR_RECOVER", "PHY_TEST")
    + ("OPA_OFFLINE", "OPA_TEST")
)


@dataclass(frozen=True)
class RdmaLink:
    device: str
    port: int | None = None
    state: str | None = None  # "ACTIVE" | "DOWN" ...
    physical_state: str | None = None  # "LINK_UP" | "DISABLED" ...
    netdev: str | None = None
    netdev_index: int | None = None
    ifindex: int | None = None  # of the RDMA device
    lid: int | None = None
    sm_lid: int | None = None
    lmc: int | None = None
    subnet_prefix: str | None = None


def parse_link(text: str) -> tuple[RdmaLink, ...]:
    """Every link; none for an empty text or list. Raises ToolOutputError for other texts without a link."""
    if looks_like_json(text):
        return _json_links(text)
    links = [_link(match) for match in map(_LINK.match, (line.strip() for line in text_lines(text))) if match]
    links = [link for link in links if link is not None]
    if text.strip() and not links:
        reject("rdma link", text)
    return tuple(link for link in links if link is not None)


def _link(match: re.Match[str]) -> RdmaLink | None:
    words = match.group(4).split()
    pairs = {words[at]: words[at + 1] for at in range(0, len(words) - 1, 2) if words[at] in _WORDS}
    if "state" not in pairs:
        return None
    return RdmaLink(
        device=match.group(2),
        port=int(match.group(3)),
        state=_state(pairs["state"]),
        physical_state=_physical_state(pairs.get("physical_state")),
        netdev=pairs.get("netdev"),
        netdev_index=integer(pairs.get("netdev_index")),
        ifindex=integer(match.group(1)),
        lid=integer(pairs.get("lid")),
        sm_lid=integer(pairs.get("sm_lid")),
        lmc=integer(pairs.get("lmc")),
        subnet_prefix=pairs.get("subnet_prefix"),
    )


def _state(text: str | None) -> str | None:
    return text if text in _STATES else None


def _physical_state(text: str | None) -> str | None:
    return text if text in _PHYSICAL_STATES else None


def _json_links(text: str) -> tuple[RdmaLink, ...]:
    document = json_document(text, "rdma link")
    items = document if isinstance(document, list) else [document]
    # Other tools name their interfaces "ifname" too; every link has its state.
    named = [item for item in map(members, items) if isinstance(item.get("ifname"), str) and "state" in item]
    links = tuple(map(_json_link, named))
    if any(items) and not links:
        reject("rdma link", text)
    return links


def _json_link(item: dict[str, Any]) -> RdmaLink:
    return RdmaLink(
        device=item["ifname"],
        port=json_integer(item.get("port")),
        state=_state(json_text(item.get("state"))),
        physical_state=_physical_state(json_text(item.get("physical_state"))),
        netdev=json_text(item.get("netdev")),
        netdev_index=json_integer(item.get("netdev_index")),
        ifindex=json_integer(item.get("ifindex")),
        lid=json_integer(item.get("lid")),
        sm_lid=json_integer(item.get("sm_lid")),
        lmc=json_integer(item.get("lmc")),
        subnet_prefix=json_text(item.get("subnet_prefix")),
    )
