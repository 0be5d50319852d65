from __future__ import annotations

from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.switch import sonic

SAMPLES = Path(__file__).parents[4] / "data" / "samples" / "sonic"


def text(name: str) -> str:
    return (SAMPLES / (name + ".txt")).read_text()


def test_ecn_profile() -> None:
    profile = sonic.parse_ecnconfig(text("ecnconfig_show")).profiles["AZURE_LOSSLESS"]
    assert (profile.ecn, profile.marks) == ("ecn_all", True)
    assert (profile.thresholds["green_min_threshold"], profile.thresholds["green_max_threshold"]) == (1048576, 2097152)
    assert profile.probabilities["red_drop_probability"] == 5
    assert profile.wred == {"red": True, "yellow": True, "green": True}


def test_profile_that_does_not_mark() -> None:
    profile = sonic.parse_ecnconfig(text("ecnconfig_show").replace("ecn_all", "ecn_none")).profiles["AZURE_LOSSLESS"]
    assert profile.marks is False


def test_asymmetric_is_off_everywhere() -> None:
    ports = sonic.parse_pfc_asymmetric(text("show_pfc_asymmetric")).ports
    assert len(ports) == 32
    assert set(ports.values()) == {False}


def test_counters_with_separators_in_both_directions() -> None:
    found = sonic.parse_pfc_counters(text("show_pfc_counters"))
    assert (found.rx["Ethernet0"][3], found.tx["Ethernet0"][3]) == (203, 213)
    assert (found.rx["Ethernet0"][0], found.tx["Ethernet8"][0]) == (1200, 1810)


def test_counters_of_backplane_ports() -> None:
    found = sonic.parse_pfc_counters(text("show_pfc_counters_all_na"))
    assert (found.rx["Ethernet-BP256"][0], found.tx["Ethernet-BP260"][7]) == (1900, 117)


def test_missing_counters_are_unknown() -> None:
    lines = text("show_pfc_counters").splitlines()
    lines[2] = "Ethernet0     N/A     N/A     N/A     N/A     N/A     N/A     N/A     N/A"
    assert sonic.parse_pfc_counters("\n".join(lines)).rx["Ethernet0"] == (None,) * 8


def test_lossless_priorities() -> None:
    found = sonic.parse_pfc_priority(text("show_pfc_priority"))
    assert found.ports == {"Ethernet0": frozenset({3, 4}), "Ethernet4": frozenset({3, 4})}


def test_port_without_lossless_priorities_and_namespaces() -> None:
    table = "\nNamespace asic{}\nInterface    Lossless priorities\n-----------  ---------------------\n"
    found = sonic.parse_pfc_priority(
        table.format(0) + "Ethernet0    N/A\nEthernet4    3\n\n" + table.format(1) + "Ethernet8    3,4\nEthernet9\n\n"
    )
    assert found.ports["Ethernet0"] == frozenset()
    assert found.ports["Ethernet4"] == frozenset({3})
    assert found.ports["Ethernet8"] == frozenset({3, 4})
    assert found.ports["Ethernet9"] == frozenset()


def test_watchdog_settings_below_a_banner() -> None:
    found = sonic.parse_pfcwd_config(text("show_pfcwd_config"))
    assert found.polling_ms == 600
    assert list(found.ports) == ["Ethernet0", "Ethernet4", "Ethernet8"]
    port = found.ports["Ethernet0"]
    assert (port.action, port.detection_ms, port.restoration_ms, port.history) == ("drop", 600, 600, False)


def test_watchdog_settings_without_a_history_column() -> None:
    found = sonic.parse_pfcwd_config(text("show_pfcwd_config_z9332"))
    assert (found.polling_ms, len(found.ports)) == (200, 3)
    assert found.ports["Ethernet96"].history is None


def test_watchdog_that_never_restores() -> None:
    found = sonic.parse_pfcwd_config(text("show_pfcwd_config_z9332").replace(" 200\n", "infinite\n"))
    port = found.ports["Ethernet4"]
    assert (port.restoration_infinite, port.restoration_ms, port.detection_ms) == (True, None, 200)


def test_watchdog_statistics_of_all_queues() -> None:
    found = sonic.parse_pfcwd_stats(text("show_pfcwd_stats_all"))
    assert len(found.queues) == 96
    first = found.queues[0]
    assert (first.port, first.queue, first.status, first.stormed) == ("Ethernet0", 0, None, None)
    assert (first.tx_ok, first.tx_dropped, first.rx_last_dropped) == (5871, 11, 13)


def test_storm_going_on_and_storm_over() -> None:
    over, now = sonic.parse_pfcwd_stats(text("show_pfcwd_stats_stormed_z9332")).queues
    assert (now.port, now.queue, now.stormed, now.storm_detected, now.storm_restored) == ("Ethernet6", 3, True, 1, 0)
    assert (over.port, over.stormed, over.storm_detected, over.storm_restored) == ("Ethernet4", False, 1, 1)


def test_watchdog_statistics_of_named_queues() -> None:
    found = sonic.parse_pfcwd_stats(text("show_pfcwd_stats_with_queues"))
    assert [(queue.port, queue.queue) for queue in found.queues] == [
        ("Ethernet0", 3),
        ("Ethernet4", 15),
        ("Ethernet-BP0", 13),
        ("Ethernet-BP260", 10),
    ]


def test_terminal_session_with_carriage_returns() -> None:
    session = "admin@leaf:~$ show pfc counters\r\n" + text("show_pfc_counters").replace("\n", "\r\n")
    assert sonic.parse_pfc_counters(session) == sonic.parse_pfc_counters(text("show_pfc_counters"))


@pytest.mark.parametrize(
    "parse",
    [
        sonic.parse_pfc_priority,
        sonic.parse_pfc_counters,
        sonic.parse_pfcwd_config,
        sonic.parse_pfcwd_stats,
        sonic.parse_ecnconfig,
        sonic.parse_pfc_asymmetric,
    ],
)
@pytest.mark.parametrize("given", ["", "Cannot find interface Ethernet1234\n", "Port  PFC0\n----  ----\n"])
def test_other_text_is_refused(parse: object, given: str) -> None:
    assert callable(parse)
    with pytest.raises(ToolOutputError):
        parse(given)


def test_a_broken_row_of_a_profile_is_refused() -> None:
    text = "Profile: EXAMPLE\n-------------------  -------\necn                  ecn_all\n"
    assert sonic.parse_ecnconfig(text + "admin@leaf01:~$ ").profiles["EXAMPLE"].ecn == "ecn_all"
    with pytest.raises(ToolOutputError):
        sonic.parse_ecnconfig(text + "green_max_threshold  2097152  bytes\n")
