"""Every parser by name, for `kvctl facts parse NAME FILE` and for whoever has raw output of a known tool."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from . import (
    acs,
    cma_roce,
    dcb,
    dcbtool,
    devlink,
    ethtool,
    hw_counters,
    ibdev2netdev,
    ibstat,
    ibv_devinfo,
    lldptool,
    mlnx_qos,
    mlxconfig,
    mlxfwmanager,
    mstflint,
    niccli,
    rdma,
    show_gids,
    sysfs_infiniband,
    vpd,
)

PARSERS: dict[str, Callable[[str], object]] = {
    "acs": acs.parse,
    "cma_roce.mode": cma_roce.parse_mode,
    "cma_roce.tos": cma_roce.parse_tos,
    "cma_roce.traffic_class": cma_roce.parse_traffic_class,
    "dcb.app": dcb.parse_app,
    "dcb.apptrust": dcb.parse_apptrust,
    "dcb.buffer": dcb.parse_buffer,
    "dcb.dcbx": dcb.parse_dcbx,
    "dcb.ets": dcb.parse_ets,
    "dcb.pfc": dcb.parse_pfc,
    "dcbtool.pfc": dcbtool.parse_pfc,
    "devlink.info": devlink.parse_info,
    "ethtool.driver": ethtool.parse_driver,
    "ethtool.fec": ethtool.parse_fec,
    "ethtool.link": ethtool.parse_link,
    "ethtool.module": ethtool.parse_module,
    "ethtool.pause": ethtool.parse_pause,
    "ethtool.priv_flags": ethtool.parse_priv_flags,
    "ethtool.stats": ethtool.parse_stats,
    "flint.query": mstflint.parse_query,
    "hw_counters": hw_counters.parse,
    "ibdev2netdev": ibdev2netdev.parse,
    "ibstat": ibstat.parse,
    "ibv_devinfo": ibv_devinfo.parse,
    "lldptool.pfc": lldptool.parse_pfc,
    "lldptool.tlvs": lldptool.parse_tlvs,
    "mlnx_qos": mlnx_qos.parse,
    "mlxconfig.devices": mlxconfig.parse_devices,
    "mlxconfig.query": mlxconfig.parse_query,
    "mlxfwmanager.query": mlxfwmanager.parse_query,
    "mlxfwmanager.xml": mlxfwmanager.parse_xml,
    "mstflint.errors": mstflint.parse_errors,
    "mstflint.query": mstflint.parse_query,
    "niccli.devices": niccli.parse_devices,
    "niccli.qos": niccli.parse_qos,
    "rdma.link": rdma.parse_link,
    "show_gids": show_gids.parse,
    "sysfs_infiniband.grep": sysfs_infiniband.parse_grep,
    "vpd": vpd.parse,
}

if find_spec(f"{__package__}.catalogue_storage") is not None:
    from .catalogue_storage import PARSERS_B

    PARSERS.update(PARSERS_B)
