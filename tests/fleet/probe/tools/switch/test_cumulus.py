from __future__ import annotations

import json

import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.switch import cumulus

WITH_DESCRIPTION = """\
                    operational  applied   description
------------------  -----------  --------  ------------------------------------------------------
enable                           on        Turn the feature 'on' or 'off'.  The default is 'off'.
mode                lossless     lossless  Roce Mode
cable-length        100          100       Cable Length(in meters) for Roce Lossless Config
congestion-control
  congestion-mode   ECN                    Congestion config mode
  enabled-tc        0,3                    Congestion config enabled Traffic Class
  max-threshold     1.43 MB                Congestion config max-threshold
  min-threshold     146.48 KB              Congestion config min-threshold
pfc
  pfc-priority      3                      switch-prio on which PFC is enabled
  rx-enabled        enabled                PFC Rx Enabled status
  tx-enabled        disabled               PFC Tx Enabled status
trust
  trust-mode        pcp,dscp               Trust Setting on the port for packet classification


RoCE PCP/DSCP->SP mapping configurations
===========================================
        pcp  dscp                     switch-prio
    --  ---  -----------------------  -----------
    0   0    0,1,2,3,4,5,6,7          0
    3   3    24,25,26,27,28,29,30,31  3
    6   6    48,49,50,51,52,53,54,55  6


RoCE SP->TC mapping and ETS configurations
=============================================
        switch-prio  traffic-class  scheduler-weight
    --  -----------  -------------  ----------------
    0   0            0              DWRR-50%
    3   3            3              DWRR-50%
    6   6            6              strict-priority
"""

SHORT = """\
                    operational            applied
------------------  ---------------------  ---------------------
state                                      enabled
mode                lossless-single-ipool  lossless-single-ipool
pfc
  pfc-priority      3
  rx-enabled        yes
  tx-enabled        yes
  cable-length      100
congestion-control
  congestion-mode   ecn, absolute
  enabled-tc        0,3
  probability       100
RoCE PCP/DSCP->SP mapping configurations
===========================================
          pcp  dscp  switch-prio
    ----  ---  ----  -----------
    cnp   6    48    6
    roce  3    26    3
"""


def test_table_with_descriptions() -> None:
    found = cumulus.parse_qos_roce(WITH_DESCRIPTION)
    assert (found.enabled, found.mode, found.lossless) == (True, "lossless", True)
    assert (found.pfc_priorities, found.pfc_rx, found.pfc_tx) == (frozenset({3}), True, False)
    assert (found.ecn, found.ecn_traffic_classes, found.cable_length) == (True, frozenset({0, 3}), 100)
    assert found.ecn_min_bytes == round(146.48 * 1024)
    assert found.trust == frozenset({"pcp", "dscp"})
    assert found.dscp_prio is not None
    assert (found.dscp_prio[26], found.dscp_prio[48], len(found.dscp_prio)) == (3, 6, 24)
    assert found.prio_tc == {0: 0, 3: 3, 6: 6}
    assert found.scheduler == {0: "dwrr-50%", 3: "dwrr-50%", 6: "strict-priority"}


def test_table_of_later_releases() -> None:
    found = cumulus.parse_qos_roce(SHORT)
    assert (found.enabled, found.lossless, found.pfc_tx, found.ecn) == (True, True, True, True)
    assert (found.cable_length, found.ecn_probability) == (100, 100)
    assert found.dscp_prio == {48: 6, 26: 3}
    assert found.prio_tc is None


def test_json() -> None:
    document = {
        "congestion-control": {"congestion-mode": "ECN", "enabled-tc": "0,3", "min-threshold": "146.48 KB"},
        "enable": "on",
        "mode": "lossy",
        "pfc": {"pfc-priority": 3, "rx-enabled": "enabled", "tx-enabled": "enabled", "cable-length": 100},
        "prio-map": {"0": {"pcp": "3", "dscp": "26,27", "switch-prio": "3"}},
        "tc-map": {"0": {"switch-prio": "3", "traffic-class": "3", "scheduler-weight": "DWRR-50%"}},
        "trust": {"trust-mode": {"pcp": {}, "dscp": {}}},
    }
    found = cumulus.parse_qos_roce(json.dumps(document))
    assert (found.enabled, found.lossless, found.pfc_priorities, found.pfc_rx) == (True, False, frozenset({3}), True)
    assert (found.dscp_prio, found.prio_tc) == ({26: 3, 27: 3}, {3: 3})
    assert found.trust == frozenset({"pcp", "dscp"})


def test_class_that_is_not_configured_says_nothing_of_pfc() -> None:
    found = cumulus.parse_qos_roce(
        "        operational  applied\n------  -----------  -------\nenable               off\n"
    )
    assert (found.enabled, found.pfc_priorities, found.lossless) == (False, None, None)


@pytest.mark.parametrize("text", ["", "Error: The requested item does not exist.", "{}", '{"pfc": 3}', "[]"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        cumulus.parse_qos_roce(text)


def test_two_ports_in_one_text_are_refused() -> None:
    text = "        operational  applied\n------  -----------  -------\nmode    lossless\n"
    assert cumulus.parse_qos_roce(text).mode == "lossless"
    with pytest.raises(ToolOutputError, match="2 tables"):
        cumulus.parse_qos_roce(text + "\n" + text)
