"""Stand-ins for the vendor tools of hardware that no lab host has. They run on the host's own python3 (3.9 or newer).

Their output equals the real tools'. What they show and change is the host's simulated hardware, see `store`.
"""

from __future__ import annotations

# name on the host -> (module in this package, function)
COMMANDS = {
    "mlnx_qos": ("mlnx_qos", "main"),
    "mstflint": ("mstflint", "main"),
    "flint": ("mstflint", "main"),
    "mstfwreset": ("fwreset", "main"),
    "mlxfwreset": ("fwreset", "main"),
    "mlxfwmanager": ("mlxfwmanager", "main"),
    "mstconfig": ("mlxconfig", "main"),
    "mlxconfig": ("mlxconfig", "main"),
    "ethtool": ("ethtool", "main"),
    "cma_roce_tos": ("cma_roce", "tos"),
    "cma_roce_mode": ("cma_roce", "mode"),
    "ibdev2netdev": ("rdma_names", "ibdev2netdev"),
    "show_gids": ("rdma_names", "show_gids"),
    "ibv_devinfo": ("rdma_names", "ibv_devinfo"),
    "rdma": ("rdma_names", "rdma"),
    "nvme": ("nvme", "main"),
    "nvidia-smi": ("nvidia_smi", "main"),
}

# Stand-ins that hand what they do not simulate to the real tool, which the rootfs keeps aside.
REAL_TOOLS = ("ethtool",)
