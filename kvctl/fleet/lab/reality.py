"""What of a lab host is real and what is simulated: the first thing `kvctl lab up` says."""

COLUMNS = ("part", "is", "how")
ROWS = (
    {"part": "systemd, sshd, boot, reboot", "is": "real", "how": "systemd-nspawn, Debian, one root file system each"},
    {"part": "interfaces, MTU, addresses", "is": "real", "how": "veth pairs on two bridges, in own namespaces"},
    {"part": "NVMe data, mkfs, mount, format", "is": "real", "how": "loop devices over sparse files, own block sizes"},
    {"part": "NIC, firmware, DCB class", "is": "simulated", "how": "stand-ins: mlnx_qos, mstflint, mlxconfig, ethtool"},
    {"part": "RDMA device, ECN, GIDs", "is": "simulated", "how": "a recorded tree over /sys; no RDMA traffic"},
    {"part": "NVMe controllers, health", "is": "simulated", "how": "a recorded tree, a stand-in for nvme"},
    {"part": "GPUs", "is": "simulated", "how": "a PCI function, a stand-in for nvidia-smi; no CUDA"},
    {"part": "kernel, disks, clock", "is": "this machine's", "how": "shared; its disks are kept out of reach"},
)
