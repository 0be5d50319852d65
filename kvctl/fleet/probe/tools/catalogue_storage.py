"""Parsers of drives, PCIe, GPUs and switches by the name that `kvctl facts parse` takes."""

from __future__ import annotations

from typing import Callable

from . import lsblk, lspci, mdadm, nccl_log, nvidia_smi, nvme, peermem, smartctl
from .switch import cumulus, eos, nxos, sonic

PARSERS_B: dict[str, Callable[[str], object]] = {
    "lsblk": lsblk.parse,
    "nvme.list": nvme.parse_list,
    "nvme.list_subsys": nvme.parse_list_subsys,
    "nvme.id_ctrl": nvme.parse_id_ctrl,
    "nvme.id_ns": nvme.parse_id_ns,
    "nvme.smart_log": nvme.parse_smart_log,
    "nvme.kernel_log": nvme.parse_kernel_log,
    "smartctl": smartctl.parse,
    "mdadm.detail": mdadm.parse_detail,
    "lspci": lspci.parse,
    "nvidia_smi.xml": nvidia_smi.parse_xml,
    "nvidia_smi.topo": nvidia_smi.parse_topo,
    "peermem": peermem.parse,
    "nccl_log": nccl_log.parse,
    "sonic.pfc_priority": sonic.parse_pfc_priority,
    "sonic.pfc_counters": sonic.parse_pfc_counters,
    "sonic.pfc_asymmetric": sonic.parse_pfc_asymmetric,
    "sonic.pfcwd_config": sonic.parse_pfcwd_config,
    "sonic.pfcwd_stats": sonic.parse_pfcwd_stats,
    "sonic.ecnconfig": sonic.parse_ecnconfig,
    "nxos.pfc": nxos.parse_pfc,
    "eos.pfc": eos.parse_pfc,
    "cumulus.qos_roce": cumulus.parse_qos_roce,
}
