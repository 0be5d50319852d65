import pytest

from kvctl.fleet.probe.tools import ToolOutputError, ethtool

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, folder, sample

LINKS = folder("ethtool", "default")
STATS = [path for path in folder("ethtool", "S_") if "not_supported" not in path]
QSFP = (
    "\tIdentifier                                : 0x11 (QSFP28)\n"
    "\tVendor name                               : Mellanox\n"
    "\tVendor SN                                 : MT1652FT00000\n"
    "\tModule temperature                        : 42.17 degrees C / 107.90 degrees F\n"
    "\tModule voltage                            : 3.2917 V\n"
    "\tLaser tx bias current (Channel 1)         : 6.662 mA\n\tLaser tx bias current (Channel 2)         : 0.000 mA\n"
    "\tTransmit avg optical power (Channel 1)    : 0.7119 mW / -1.48 dBm\n"
    "\tTransmit avg optical power (Channel 2)    : 0.0000 mW / -inf dBm\n"
    "\tRcvr signal avg optical power(Channel 1)  : 0.7682 mW / -1.15 dBm\n"
    "\tRcvr signal avg optical power(Channel 2)  : 0.0000 mW / -inf dBm\n"
    "\tLaser bias current high alarm   (Chan 1)  : Off\n\tLaser rx power low alarm        (Chan 2)  : On\n"
    "\tLaser output power high alarm threshold   : 3.4674 mW / 5.40 dBm\n"
)
SFP = (
    "Identifier                                : 0x03 (SFP)\nVendor PN                                 : SFP-25G-SR\n"
    "Laser bias current                        : 32.066 mA\n"
    "Laser output power                        : 0.5547 mW / -2.56 dBm\n"
    "Receiver signal average optical power     : 0.0001 mW / -40.00 dBm\n"
    "Module temperature high alarm             : Off\n"
)
FLAGS = "Private flags for enp24s0f0:\nlink-down-on-close     : off\nfw-lldp-agent          : on\nrx_striding_rq: on\n"
FEC = (
    "FEC parameters for eth0:\nSupported/Configured FEC encodings: Auto RS BaseR\nActive FEC encoding: RS\n"
    "Statistics:\n  corrected_blocks: 256\n    Lane 0: 255\n    Lane 1: 1\n"
    "  uncorrectable_blocks: 145\n    Lane 0: 145\n"
)


def test_link_of_a_copper_port() -> None:
    link = ethtool.parse_link(sample("ethtool/default_dac_or_copper.txt"))
    assert (link.interface, link.speed, link.duplex, link.link_detected) == ("enp0s3", 1000, "Full", True)
    assert link.supported_modes == ("10baseT/Half", "10baseT/Full", "100baseT/Half", "100baseT/Full", "1000baseT/Full")
    assert (link.autonegotiation, link.port, link.supported_fec) == (True, "Twisted Pair", None)
    assert link.values["Current message level"] == ("0x00000007 (7)", "drv probe link")


def test_link_partner() -> None:
    link = ethtool.parse_link(sample("ethtool/default_link_partner.txt"))
    assert link.partner_modes == ("10baseT/Half", "10baseT/Full", "100baseT/Half", "100baseT/Full")
    assert (link.speed, link.supported_ports) == (100, ("TP", "MII"))


def test_link_of_a_fibre_port() -> None:
    link = ethtool.parse_link(sample("ethtool/default_variant2.txt"))
    assert (link.interface, link.speed, link.port, link.autonegotiation) == ("enp1s0", 40000, "FIBRE", False)
    assert link.supported_modes is not None
    assert len(link.supported_modes) == 8
    assert link.advertised_modes is not None
    assert "56000baseCR4/Full" not in link.advertised_modes


def test_link_down() -> None:
    link = ethtool.parse_link(
        "Settings for eth0:\n\tSupported FEC modes: None\t RS\t BASER\n\tSpeed: Unknown!\n\tDuplex: Unknown! (255)\n"
        "\tLanes: 4\n\tLink detected: no (No cable)\n"
    )
    assert (link.speed, link.duplex, link.lanes) == (None, None, 4)
    assert (link.link_detected, link.link_reason) == (False, "No cable")
    assert link.supported_fec == ("None", "RS", "BASER")


def test_link_without_indentation_and_blanks() -> None:
    link = ethtool.parse_link(
        "Settings for eth0:\nSupported ports:[TP]    \nSupported link modes:   10baseT/Half 10baseT/Full\n"
        "100baseT/Half 100baseT/Full\n1000baseT/Full\nSupported pause frame use: No   \n"
    )
    assert link.supported_ports == ("TP",)
    assert link.supported_modes == ("10baseT/Half", "10baseT/Full", "100baseT/Half", "100baseT/Full", "1000baseT/Full")


def test_link_of_a_missing_interface_is_refused() -> None:
    with pytest.raises(ToolOutputError):
        ethtool.parse_link(
            "Settings for eth0:\nCannot get device settings: No such device\n"
            "Cannot get link status: No such device\nNo data available\n"
        )


def test_driver() -> None:
    driver = ethtool.parse_driver(sample("ethtool/i_virtio.txt"))
    assert (driver.driver, driver.firmware_version, driver.firmware) == ("virtio_net", "", None)
    assert driver.supports["statistics"] is False
    mlx5 = ethtool.parse_driver(
        "driver: mlx5_core\nfirmware-version: 22.31.1014 (MT_0000000359)\nbus-info: 0000:41:00.0\n"
    )
    assert (mlx5.firmware, mlx5.psid, mlx5.bus_info) == ("22.31.1014", "MT_0000000359", "0000:41:00.0")
    assert mlx5.version is None


def test_stats() -> None:
    stats = ethtool.parse_stats(sample("ethtool/S_igb.txt"))
    assert (stats["rx_packets"], stats["rx_queue_3_alloc_failed"]) == (912398, 0)
    assert len(stats) == 82
    levels = ethtool.parse_stats(sample("ethtool/S_two_level_keys.txt"))
    assert levels["rxq0: rx_drops_no_frags"] == 5000


def test_missing_statistics_are_not_zero() -> None:
    with pytest.raises(ToolOutputError, match="Operation not supported"):
        ethtool.parse_stats(sample("ethtool/S_not_supported.txt"))


def test_peer_that_does_not_mark_is_seen_in_the_priorities() -> None:
    counters = ethtool.priority_counters(ethtool.parse_stats(sample("ethtool/S_mlx5_prio_packets_asymmetric_dscp.txt")))
    assert counters["tx_prio3_packets"] == 4675230410
    assert "rx_prio3_packets" not in counters


def test_broadcom_names_are_mapped_and_absent_ones_stay_absent() -> None:
    counters = ethtool.priority_counters(ethtool.parse_stats(sample("ethtool/S_bnxt_pfc_names.txt")))
    assert counters == {
        "rx_prio0_pause": 0,
        "tx_prio7_pause": 0,
        "rx_prio0_pause_duration": 0,
        "tx_prio7_pause_duration": 0,
    }


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("rx_prio3_pause", "rx_prio3_pause"),
        ("rx_prio3_pause_duration", "rx_prio3_pause_duration"),
        ("rx_prio3_buf_discard", "rx_prio3_buf_discard"),
        ("rx_pause_prio_3", "rx_prio3_pause"),
        ("tx_prio_3_bytes", "tx_prio3_bytes"),
        ("rx_bytes_pri3", "rx_prio3_bytes"),
        ("tx_priority_3_xoff.nic", "tx_prio3_pause"),
        ("port.rx_priority_3_xoff", "rx_prio3_pause"),
        ("rx_pb_3_pxoff", "rx_prio3_pause"),
    ],
)
def test_priority_counter_names(name: str, normal: str) -> None:
    assert ethtool.priority_counters({name: 7, "rx_packets": 1}) == {normal: 7}


def test_pause() -> None:
    pause = ethtool.parse_pause(sample("ethtool/a_pause_on_negotiated_off.txt"))
    assert (pause.autonegotiate, pause.rx, pause.tx) == (True, True, True)
    assert (pause.rx_negotiated, pause.tx_negotiated) == (False, False)
    text = (
        '[ {"ifname": "eth0", "autonegotiate": false, "rx": false, "tx": true, "statistics": {"tx_pause_frames": 4}} ]'
    )
    assert ethtool.parse_pause(text) == ethtool.EthtoolPause(False, False, True, statistics={"tx_pause_frames": 4})
    included = sample("ethtool/a_pause_on_negotiated_off.txt") + "Statistics:\n  tx_pause_frames: 3\n"
    assert ethtool.parse_pause(included).statistics == {"tx_pause_frames": 3}


def test_module_of_a_copper_cable() -> None:
    module = ethtool.parse_module(sample("ethtool/m_module_sfp.txt"))
    assert (module.vendor_name, module.vendor_pn, module.vendor_oui) == ("UbiquitiNetworks", "UDC-2", "00:40:20")
    assert (module.vendor_sn, module.vendor_rev, module.copper_length) == (None, None, 2.0)
    assert module.rx_power == {}
    assert len(module.values["Transceiver type"]) == 9


def test_optical_modules() -> None:
    qsfp = ethtool.parse_module(QSFP)
    assert (qsfp.temperature, qsfp.voltage, qsfp.vendor_sn) == (42.17, 3.2917, "MT1652FT00000")
    assert qsfp.bias == {1: 6.662, 2: 0.0}
    assert qsfp.tx_power == {1: -1.48, 2: None}
    assert qsfp.rx_power == {1: -1.15, 2: None}
    assert sorted(qsfp.alarms.values()) == [False, True]
    sfp = ethtool.parse_module(SFP)
    assert (sfp.rx_power, sfp.tx_power, sfp.bias) == ({1: -40.0}, {1: -2.56}, {1: 32.066})
    assert sfp.alarms == {"Module temperature high alarm": False}


def test_private_flags_and_fec() -> None:
    assert ethtool.parse_priv_flags(FLAGS) == {
        "link-down-on-close": False,
        "fw-lldp-agent": True,
        "rx_striding_rq": True,
    }
    fec = ethtool.parse_fec(FEC)
    assert (fec.configured, fec.active) == (("Auto", "RS", "BaseR"), ("RS",))
    assert fec.statistics == {"corrected_blocks": 256, "uncorrectable_blocks": 145}
    old = ethtool.parse_fec("FEC parameters for swp23:\nConfigured FEC encodings: Auto\nActive FEC encoding: Off\n")
    assert (old.configured, old.active) == (("Auto",), ("Off",))
    text = '[ {"ifname":"e","config":["None"],"active":["RS"],"statistics":{"corrected_blocks":[256,255,1]}} ]'
    assert ethtool.parse_fec(text) == ethtool.EthtoolFec(("None",), ("RS",), {"corrected_blocks": 256})


PARSERS = [
    ethtool.parse_link,
    ethtool.parse_driver,
    ethtool.parse_stats,
    ethtool.parse_pause,
    ethtool.parse_module,
    ethtool.parse_priv_flags,
    ethtool.parse_fec,
]


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("text", ["", "netlink error: No such device\n", "no stats available\n", "{}", "[7]"])
def test_other_texts_are_refused(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(ToolOutputError):
        parse(text)


def test_another_tools_numbers_are_no_statistics() -> None:
    with pytest.raises(ToolOutputError):
        ethtool.parse_stats(sample("ibstat/cx3_dual_port_one_ca.txt"))


def test_cut_and_noise() -> None:
    for parse, texts in (
        (ethtool.parse_stats, [sample(path) for path in STATS]),
        (ethtool.parse_driver, [sample("ethtool/i_virtio.txt")]),
        (ethtool.parse_pause, [sample("ethtool/a_pause_on_negotiated_off.txt")]),
        (ethtool.parse_module, [QSFP, SFP, sample("ethtool/m_module_sfp.txt")]),
        (ethtool.parse_priv_flags, [FLAGS]),
        (ethtool.parse_fec, [FEC]),
    ):
        for text in texts:
            assert_cut_changes_nothing(parse, text)
            assert_noise_changes_nothing(parse, text)
    for path in LINKS:
        assert_noise_changes_nothing(ethtool.parse_link, sample(path))


def test_damage() -> None:
    assert_survives_damage(ethtool.parse_link, [sample(path) for path in LINKS])
    assert_survives_damage(ethtool.parse_stats, [sample(path) for path in folder("ethtool", "S_")])
    assert_survives_damage(ethtool.parse_driver, [sample("ethtool/i_virtio.txt")])
    assert_survives_damage(ethtool.parse_pause, [sample("ethtool/a_pause_on_negotiated_off.txt"), '[{"rx":true}]'])
    assert_survives_damage(ethtool.parse_module, [QSFP, SFP, sample("ethtool/m_module_sfp.txt")])
    assert_survives_damage(ethtool.parse_priv_flags, [FLAGS])
    assert_survives_damage(ethtool.parse_fec, [FEC, '[{"config":["RS"],"active":["RS"]}]'])


def test_statistics_of_two_interfaces_are_refused() -> None:
    text = "NIC statistics:\n     rx_prio3_pause: 4\n"
    with pytest.raises(ToolOutputError, match="several"):
        ethtool.parse_stats(text + "NIC statistics:\n     rx_pfc_ena_frames_pri3: 9\n")


def test_filtered_counters_after_the_command_that_gave_them() -> None:
    text = "op@node01:~$ ethtool -S ens1 | grep prio3\n     rx_prio3_pause: 4\n     tx_prio3_pause: 5\nop@node01:~$ "
    assert ethtool.parse_stats(text) == {"rx_prio3_pause": 4, "tx_prio3_pause": 5}


@pytest.mark.parametrize(
    ("connector", "length"), [("0x0c (MPO Parallel Optic)", None), ("0x23 (No separable connector)", 30.0)]
)
def test_only_a_fixed_cable_has_a_length(connector: str, length: float | None) -> None:
    text = f"""\tIdentifier                                : 0x11 (QSFP28)
\tConnector                                 : {connector}
\tLength (Copper or Active cable)           : 30m
\tVendor PN                                 : EXAMPLE-SR4
"""
    assert ethtool.parse_module(text).copper_length == length
