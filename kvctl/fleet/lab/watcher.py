"""Cuts a node's SSH while its rail's MTU is not what it was: proof for changes that must be confirmed or reverted.

A process of its own, outside the host, in the host's network namespace: it works across the host's reboots and cannot
be stopped from inside. Argument: JSON {"namespace", "interface"}. Run by path.
"""

import fcntl
import json
import socket
import struct
import subprocess
import sys

from pyroute2 import netns

RTMGRP_LINK = 1  # rtnetlink(7)
SIOCGIFMTU = 0x8921  # netdevice(7)
BUFFER = 65536
TABLE = "kvctl-lab-cut"
CUT = f"""table inet {TABLE} {{
  chain in {{ type filter hook input priority -300; policy accept; iifname "eth0" drop; }}
  chain out {{ type filter hook output priority -300; policy accept; oifname "eth0" drop; }}
}}
"""


def mtu(interface: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16si12x", interface.encode(), 0)
        return int(struct.unpack("16si12x", fcntl.ioctl(probe, SIOCGIFMTU, request))[1])


def nft(script: str) -> None:
    subprocess.run(["nft", "-f", "-"], input=script.encode(), check=True)


def main(plan: dict[str, str]) -> None:
    netns.setns(plan["namespace"])
    events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    events.bind((0, RTMGRP_LINK))
    planned = mtu(plan["interface"])
    print("ready", flush=True)  # noqa: T201 - the starter waits for it
    cut = False
    while True:
        changed = mtu(plan["interface"]) != planned
        if changed != cut:
            nft(CUT if changed else f"delete table inet {TABLE}\n")
            cut = changed
        events.recv(BUFFER)  # something about a link of this namespace changed


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
