"""Outputs as people and ssh hand them over: with prompts, echoed commands, and messages of sudo and the tools."""

import pytest

from kvctl.fleet.probe.tools.catalogue import PARSERS

from .samples import sample

SAMPLES = (
    ("acs", "acs/acsctl_mixed_host.txt"),
    ("cma_roce.mode", "cma_roce/mode_v2.txt"),
    ("cma_roce.traffic_class", "cma_roce/traffic_class_sysfs_236.txt"),
    ("dcb.app", "dcb/app_show_symbolic_dscp.txt"),
    ("dcb.pfc", "dcb/pfc_show_prio3_on_cx3.txt"),
    ("dcbtool.pfc", "dcbtool/gc_pfc_eth3.txt"),
    ("devlink.info", "devlink/dev_info_bnxt_en_jp.json"),
    ("devlink.info", "devlink/dev_info_ice_text.txt"),
    ("eos.pfc", "arista_eos/show_priority_flow_control_ports_disabled.txt"),
    ("ethtool.driver", "ethtool/i_virtio.txt"),
    ("ethtool.pause", "ethtool/a_pause_on_negotiated_off.txt"),
    ("ethtool.stats", "ethtool/S_igb.txt"),
    ("hw_counters", "hw_counters/nccl394_ecn_busy_out_of_sequence.txt"),
    ("ibdev2netdev", "ibdev2netdev/mixed_up_down_ib.txt"),
    ("ibstat", "ibstat/cx3_dual_port_one_ca.txt"),
    ("ibv_devinfo", "ibv_devinfo/v_gid_types_bnxt.txt"),
    ("lsblk", "lsblk/gpud_1.json"),
    ("lsblk", "lsblk/pairs_bia_ironic.txt"),
    ("lspci", "lspci/vvv_cx7_gen5_x16_ok.txt"),
    ("mdadm.detail", "mdadm/detail_raid1_failed.txt"),
    ("mlnx_qos", "mlnx_qos/i_default_pcp_buf262016_peer.txt"),
    ("mlxconfig.query", "mlxconfig/e_query_next_boot_differs.txt"),
    ("mlxfwmanager.query", "mlxfwmanager/query_cx6lx_update_required.txt"),
    ("mlxfwmanager.xml", "mlxfwmanager/query_format_xml_bf3_spectrum3.xml"),
    ("mstflint.query", "mstflint/q_cx6_running_differs_reset_needed.txt"),
    ("niccli.devices", "niccli/list_devices_thor2.txt"),
    ("nvidia_smi.topo", "nvidia-smi/topo_m_8gpu_8nic_header_note.txt"),
    ("nvme.id_ctrl", "nvme_id-ctrl/id_ctrl_crypto_erase.json"),
    ("nvme.id_ns", "nvme_id-ns/H_lbaf_p4510_512_in_use.txt"),
    ("nvme.list", "nvme_list/o_json_2x_flat_two_drives.json"),
    ("nvme.list", "nvme_list/text_2x_generic_hex_ns.txt"),
    ("nvme.list_subsys", "nvme_list/list_subsys_o_json_2x.json"),
    ("nvme.smart_log", "nvme_smart-log/o_json_1x_2x_int_wear15.json"),
    ("nvme.smart_log", "nvme_smart-log/smartctl_text_cw04_percent_100.txt"),
    ("nxos.pfc", "nxos/show_int_pfc_auto_off.txt"),
    ("rdma.link", "rdma/j_link_show.json"),
    ("show_gids", "show_gids/single_rdma0.txt"),
    ("smartctl", "smartctl/nvme_a_json.json"),
    ("sonic.ecnconfig", "sonic/ecnconfig_show.txt"),
    ("sonic.pfc_counters", "sonic/show_pfc_counters.txt"),
    ("sonic.pfc_priority", "sonic/show_pfc_priority.txt"),
    ("sonic.pfcwd_config", "sonic/show_pfcwd_config.txt"),
    ("sonic.pfcwd_stats", "sonic/show_pfcwd_stats_stormed_z9332.txt"),
)
LECTURE = "We trust you have received the usual lecture.\n\n    #1) Respect the privacy of others.\n\n"
SURROUNDINGS = (
    ("[root@node01 ~]# tool -x eth0\n", "\n[root@node01 ~]# "),
    ("op@node01:~$ sudo tool -x eth0\n[sudo] password for op: \n", "\nop@node01:~$ exit\n"),
    ("# tool -x eth0\n", "\n"),
    ("+ tool -x eth0\n", ""),
    (LECTURE, "\nConnection to node01 closed.\n"),
    ("sudo: unable to resolve host node01: Name or service not known\n", "\nWarning: this option is deprecated\n"),
    ("\ufeff", "\n\n"),
)


@pytest.mark.parametrize(("before", "after"), SURROUNDINGS)
@pytest.mark.parametrize(("name", "path"), SAMPLES, ids=lambda value: value)
def test_surroundings_change_nothing(name: str, path: str, before: str, after: str) -> None:
    text = sample(path)
    assert PARSERS[name](before + text.rstrip("\n") + after) == PARSERS[name](text)


@pytest.mark.parametrize(("name", "path"), SAMPLES, ids=lambda value: value)
def test_line_ends_and_indentation_change_nothing(name: str, path: str) -> None:
    text = sample(path)
    assert PARSERS[name](text.replace("\n", "\r\n")) == PARSERS[name](text)
    assert PARSERS[name](text.replace("  ", "\u00a0 ")) == PARSERS[name](text)  # as web pages keep blanks
    if name not in ("vpd", "acs"):  # these know a device's line by its first column
        assert PARSERS[name]("".join("    " + line for line in text.splitlines(True))) == PARSERS[name](text)
