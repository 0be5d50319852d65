"""nvme-cli's outputs and the kernel's NVMe messages: one import for the parsers of the four modules."""

from __future__ import annotations

from .nvme_devices import NvmeController, NvmeList, NvmeNamespace, NvmeSubsystem
from .nvme_identify import ControllerIdentity, LbaFormat, NamespaceIdentity, parse_id_ctrl, parse_id_ns
from .nvme_kernel import NvmeEvent, NvmeKernelLog, parse_kernel_log
from .nvme_list import parse_list, parse_list_subsys
from .nvme_smart import SmartLog, parse_smart_log

__all__ = [
    "ControllerIdentity",
    "LbaFormat",
    "NamespaceIdentity",
    "NvmeController",
    "NvmeEvent",
    "NvmeKernelLog",
    "NvmeList",
    "NvmeNamespace",
    "NvmeSubsystem",
    "SmartLog",
    "parse_id_ctrl",
    "parse_id_ns",
    "parse_kernel_log",
    "parse_list",
    "parse_list_subsys",
    "parse_smart_log",
]
