from __future__ import annotations

from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, smartctl

SAMPLES = Path(__file__).parents[3] / "data" / "samples"


@pytest.mark.parametrize(
    ("name", "spare"),
    [
        ("gcm_cache_slot2_bad_smartdata_nvme2.json", 100),
        ("gcm_learn_bad_nvme9_nvme9.json", 0),
        ("gcm_learn_good_nvme0.json", 100),
    ],
)
def test_cluster_drives(name: str, spare: int) -> None:
    found = smartctl.parse((SAMPLES / "smartctl" / name).read_text())
    assert found.health is not None
    assert (found.health.critical_warning, found.health.percentage_used) == (0, 0)
    assert found.health.available_spare == spare
    assert found.passed is True


def test_drive_as_json() -> None:
    found = smartctl.parse((SAMPLES / "smartctl" / "nvme_a_json.json").read_text())
    assert (found.model, found.serial, found.firmware) == ("Sabrent Rocket 4.0 1TB", "SN0001XXXXXXXXXXXXXX", "RKT401.3")
    assert (found.capacity_bytes, found.lba_bytes, found.protocol) == (1000204886016, 512, "NVMe")
    assert found.health is not None
    assert (found.temperature_c, found.health.temperature_c, found.health.percentage_used) == (48, 48, 4)
    assert (found.health.host_reads, found.health.error_log_entries) == (294243226, 4871)
    assert found.exit_status == 0


def test_text_excerpt() -> None:
    found = smartctl.parse((SAMPLES / "nvme_smart-log" / "smartctl_text_cw04_percent_100.txt").read_text())
    assert found.health is not None
    assert (found.health.critical_warning, found.health.percentage_used, found.health.available_spare) == (4, 100, 100)


TEXT = """\
smartctl 7.4 2023-08-01 r5530 [x86_64-linux-6.8.0-45-generic] (local build)
Copyright (C) 2002-23, Bruce Allen, Christian Franke, www.smartmontools.org

=== START OF INFORMATION SECTION ===
Model Number:                       SAMSUNG MZQL215THBLA-00A07
Serial Number:                      S64ANE0R000001
Firmware Version:                   GDC5602Q
Total NVM Capacity:                 15,362,991,415,296 [15.3 TB]
Namespace 1 Size/Capacity:          15,362,991,415,296 [15.3 TB]
Namespace 1 Formatted LBA Size:     4096
Local Time is:                      Thu Oct 10 10:10:10 2024 UTC

=== START OF SMART DATA SECTION ===
SMART overall-health self-assessment test result: FAILED!
- NVM subsystem reliability has been degraded

SMART/Health Information (NVMe Log 0x02)
Critical Warning:                   0x04
Temperature:                        41 Celsius
Available Spare:                    99%
Available Spare Threshold:          10%
Percentage Used:                    103%
Data Units Read:                    1,234,567,890 [632 TB]
Data Units Written:                 987,654,321 [505 TB]
Media and Data Integrity Errors:    12
Error Information Log Entries:      7
Warning  Comp. Temperature Time:    5
Critical Comp. Temperature Time:    0
Temperature Sensor 1:               41 Celsius
Temperature Sensor 2:               53 Celsius
"""


def test_text() -> None:
    found = smartctl.parse(TEXT)
    assert (found.model, found.lba_bytes, found.capacity_bytes) == (
        "SAMSUNG MZQL215THBLA-00A07",
        4096,
        15362991415296,
    )
    assert found.passed is False
    health = found.health
    assert health is not None
    assert (health.percentage_used, health.media_errors, health.error_log_entries) == (103, 12, 7)
    assert (health.data_units_written, health.warning_temp_minutes) == (987654321, 5)
    assert health.sensors_c == (41, 53)


def test_sensor_that_is_not_fitted() -> None:
    found = smartctl.parse(
        '{"smartctl": {"exit_status": 0}, "nvme_smart_health_information_log":'
        ' {"critical_warning": 0, "temperature_sensors": [null, 43]}}'
    )
    assert found.health is not None
    assert found.health.sensors_c == (None, 43)


def test_failure_to_open_is_a_message_not_a_drive() -> None:
    found = smartctl.parse(
        '{"smartctl": {"exit_status": 2, "messages": [{"string": "Smartctl open device: /dev/nvme9 failed",'
        ' "severity": "error"}]}}'
    )
    assert found.messages == ("Smartctl open device: /dev/nvme9 failed",)
    assert (found.exit_status, found.health, found.passed) == (2, None, None)


@pytest.mark.parametrize("text", ["", "{}", "[]", "smartctl: command not found", '{"model_name": "x"}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        smartctl.parse(text)


@pytest.mark.parametrize(("verdict", "passed"), [("OK", True), ("FIRMWARE IMPENDING FAILURE", None)])
def test_the_text_of_a_scsi_drive(verdict: str, passed: bool | None) -> None:
    found = smartctl.parse(
        "smartctl 7.4 2023-08-01 r5530 [x86_64-linux] (local build)\n"
        "Vendor:               EXAMPLE\n"
        "User Capacity:        1,200,243,695,616 bytes [1.20 TB]\n"
        "Logical block size:   512 bytes\n"
        "Serial number:        SN0001EXAMPLE\n"
        f"SMART Health Status: {verdict}\n"
    )
    assert (found.serial, found.capacity_bytes, found.lba_bytes) == ("SN0001EXAMPLE", 1_200_243_695_616, 512)
    assert found.passed is passed
