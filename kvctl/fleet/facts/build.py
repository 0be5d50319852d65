"""From a probe's raw document to NodeFacts: pure, total, and honest about what is not known.

Where two sources tell the same thing, the one named first counts; when they contradict each other the kernel's counts,
and NodeFacts.errors says so.

- interfaces: rtnetlink, then sysfs
- running firmware: mstflint's row, devlink, sysfs fw_ver, ethtool; stored: mstflint, devlink, mlxfwmanager
- lossless class: DCB netlink, mlnx_qos, dcb, niccli
- drives: sysfs, then nvme-cli; contents: all of the udev database, lsblk and the blocks themselves
"""

from typing import Any

from kvctl.fleet.facts.drives import drives
from kvctl.fleet.facts.gpus import gpus
from kvctl.fleet.facts.host import host_facts
from kvctl.fleet.facts.nics import nics
from kvctl.fleet.facts.raw import Raw
from kvctl.types.facts import NodeFacts

_SCHEMA = 1


def node_facts(node: str, raw: dict[str, Any]) -> NodeFacts:
    """The facts of `node`. Never raises: what the document does not hold, or holds in a wrong form, is unknown.

    Besides the probe's own keys it reads the leaf host.clock_offset, which whoever collects adds.
    """
    document = Raw(raw)
    if document.at("schema") != _SCHEMA:
        document.errors.append(f"the document's schema is {str(document.at('schema'))[:20]}, not {_SCHEMA}")
    listed = document.at("errors")
    reported = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    at = document.at("at")
    host, found_nics, found_drives, found_gpus = host_facts(document), nics(document), drives(document), gpus(document)
    return NodeFacts(
        node=node,
        at=at if isinstance(at, str) else "",
        lab=document.at("lab") is not None,
        simulated=document.stand_ins,
        host=host,
        nics=found_nics,
        drives=found_drives,
        gpus=found_gpus,
        errors=tuple(dict.fromkeys([*reported, *document.errors])),
    )
