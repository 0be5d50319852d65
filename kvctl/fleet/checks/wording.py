"""Fills the templates of `right` and remedy texts with a site's own numbers."""

from collections.abc import Mapping

from kvctl.fleet.inventory.model import Fabric

# What stands in the catalogue, where there is no site and no interface.
GENERIC: Mapping[str, str] = {
    "subject": "IF",
    "node": "NODE",
    "rdma": "D",
    "pci": "PCI",
    "priority": "P",
    "dscp": "DSCP",
    "cnp_dscp": "CNP_DSCP",
    "cnp_priority": "CNP_PRIO",
    "mtu": "MTU",
    "pfc": "<1 at position P>",
    "tos": "TOS",
    "cable": "METRES",
    "buffer_min": "BUFFER_MIN",
    "trust": "TRUST",
}


def words(fabric: Fabric) -> dict[str, str]:
    """The numbers of a fabric under the names that templates use. ToS is DSCP << 2 with the ECN bits 10b."""
    return {
        "priority": str(fabric.lossless_priority),
        "dscp": str(fabric.dscp),
        "cnp_dscp": str(fabric.cnp_dscp),
        "cnp_priority": str(fabric.cnp_priority),
        "mtu": str(fabric.mtu),
        "pfc": ",".join("1" if p == fabric.lossless_priority else "0" for p in range(8)),
        "tos": str(fabric.dscp << 2 | 2),
        "cable": str(fabric.cable_length),
        "buffer_min": str(fabric.buffer_min),
        "trust": fabric.trust,
    }
