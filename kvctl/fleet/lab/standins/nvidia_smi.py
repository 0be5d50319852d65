"""Stand-in for nvidia-smi: -q -x, -L, topo -m. A GPU is a list of [element, text or list of elements]."""

from __future__ import annotations

import sys
import time
from typing import Any
from xml.sax.saxutils import escape

from . import store

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE nvidia_smi_log SYSTEM "%s">\n<nvidia_smi_log>\n'
WRONG = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def element(tag: str, content: Any, depth: int, indent: str) -> str:
    pad = indent * depth
    if isinstance(content, list):
        inner = "".join(element(name, value, depth + 1, indent) for name, value in content)
        return "%s<%s>\n%s%s</%s>\n" % (pad, tag, inner, pad, tag)
    if content == "":
        return "%s<%s />\n" % (pad, tag)
    return "%s<%s>%s</%s>\n" % (pad, tag, escape(content), tag)


def xml(smi: dict[str, Any]) -> str:
    indent = smi["indent"]
    stamp = smi.get("timestamp") or time.strftime("%a %b %e %H:%M:%S %Y")
    lines = [HEAD % smi["dtd"], element("timestamp", stamp, 1, indent)]
    lines += [element(name, text, 1, indent) for name, text in smi["head"]]
    for gpu in smi["gpus"]:
        body = "".join(element(name, value, 2, indent) for name, value in gpu["elements"])
        lines.append('%s<gpu id="%s">\n%s%s</gpu>\n' % (indent, gpu["id"], body, indent))
    return "".join([*lines, "</nvidia_smi_log>\n"])


def field(gpu: dict[str, Any], name: str) -> str:
    return str(next(value for key, value in gpu["elements"] if key == name))


def listing(smi: dict[str, Any]) -> str:
    named = [(field(gpu, "product_name"), field(gpu, "uuid")) for gpu in smi["gpus"]]
    rows = ["GPU %d: %s (UUID: %s)" % (i, *names) for i, names in enumerate(named)]
    return "".join(row + "\n" for row in rows)


def topology(state: dict[str, Any]) -> str:
    """All devices sit below one host bridge. The header is underlined on a pipe as well."""
    gpus = ["GPU%d" % i for i in range(len(state["smi"]["gpus"]))]
    nics = ["NIC%d" % i for i in range(len(state["nics"]))]
    names = gpus + nics
    lines = ["\t\x1b[4m%s\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m" % "\t".join(names)]
    for row in names:
        links = "\t".join(" X " if row == column else "PHB" for column in names)
        lines.append("%s\t%s\t%s" % (row, links, "0-1\t0\t\tN/A" if row in gpus else "\t\t\t"))
    lines += [LEGEND, "NIC Legend:", ""] if nics else [LEGEND]
    lines += ["  %s: %s" % (name, nic["rdma"]) for name, nic in zip(nics, state["nics"])]  # noqa: B905
    return "\n".join(lines) + "\n\n"


def main(argv: list[str]) -> int:
    state = store.load()
    smi = state.get("smi")
    if not smi or not smi["gpus"]:
        print("No devices were found")
        return 6
    if sorted(argv) in (["-q", "-x"], ["--query", "--xml-format"]):
        sys.stdout.write(xml(smi))
    elif argv in (["-L"], ["--list-gpus"]):
        sys.stdout.write(listing(smi))
    elif argv in (["topo", "-m"], ["topo", "--matrix"]):
        sys.stdout.write(topology(state))
    else:
        sys.stdout.write(WRONG)
        return 2
    return 0
