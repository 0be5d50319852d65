from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, nvme

SAMPLES = Path(__file__).parents[3] / "data" / "samples" / "nvme_smart-log"


def test_json_in_kelvin_with_wear() -> None:
    found = nvme.parse_smart_log((SAMPLES / "o_json_1x_2x_int_wear15.json").read_text())
    assert (found.temperature_c, found.percentage_used) == (28, 15)
    assert (found.available_spare, found.spare_threshold) == (100, 5)
    assert found.bytes_written == 1474968593 * 512_000
    assert found.bytes_written // 10**12 == 755
    assert found.sensors_c == (33, 28, 23, 22)
    assert (found.critical_warning, found.warnings) == (0, ())


def test_worn_out_drive_with_its_spare_whole() -> None:
    found = nvme.parse_smart_log((SAMPLES / "smartctl_text_cw04_percent_100.txt").read_text())
    assert found.critical_warning == 4
    assert found.warnings == ("reliability is degraded",)
    assert (found.percentage_used, found.available_spare, found.spare_threshold) == (100, 100, 10)
    assert found.temperature_c == 28


TEXT = """\
Smart Log for NVME device:nvme0 namespace-id:ffffffff
critical_warning\t\t\t: {warning}
      Available Spare[0]             : 1
temperature\t\t\t\t: {temperature}
available_spare\t\t\t\t: 100%
available_spare_threshold\t\t: 10%
percentage_used\t\t\t\t: 15%
endurance group critical warning summary: 0
Data Units Written\t\t\t: 14,073,051 (7.21 TB)
host_read_commands\t\t\t: 180,456,794
power_on_hours\t\t\t\t: 34,511
media_errors\t\t\t\t: 0
Warning Temperature Time\t\t: 3
Temperature Sensor 1           : 35 °C (308 K)
Temperature Sensor 3           : 40 °C (313 K)
"""


@pytest.mark.parametrize(
    "temperature",
    [
        "29 C",
        "29 C (302 Kelvin)",
        "29°C (302 Kelvin)",
        "29 °C (302 K)",
        "84 °F (302 K)",
        "84 °F",
        "29 Celsius",
        "29 °C (302 K, 84 °F)",
    ],
)
def test_temperatures_of_all_versions(temperature: str) -> None:
    assert nvme.parse_smart_log(TEXT.format(warning="0", temperature=temperature)).temperature_c == 29


def test_text() -> None:
    found = nvme.parse_smart_log(TEXT.format(warning="0x1", temperature="29 C"))
    assert (found.critical_warning, found.percentage_used, found.media_errors) == (1, 15, 0)
    assert (found.data_units_written, found.bytes_written) == (14073051, 14073051 * 512_000)
    assert (found.host_reads, found.power_on_hours, found.warning_temp_minutes) == (180456794, 34511, 3)
    assert found.sensors_c == (35, None, 40)
    assert found.unsafe_shutdowns is None


@pytest.mark.parametrize("separator", [",", ".", "'", "\u202f", "\u00a0", " "])
def test_counters_in_any_locale(separator: str) -> None:
    text = "critical_warning : 0\npercentage_used : 1%\npower_on_hours : 1" + separator + "234" + separator + "567\n"
    assert nvme.parse_smart_log(text).power_on_hours == 1234567


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (4, 4),
        ({"value": 5, "available_spare": 1, "reliability_degraded": 1}, 5),
        ({"available_spare": 0, "temp_threshold": 1, "reliability_degraded": 0, "ro": 1}, 10),
        ("0x4", 4),
        (300, None),
        (-1, None),
        ({}, None),
        ([], None),
        (True, None),
    ],
)
def test_critical_warning_of_any_shape(value: object, expected: int | None) -> None:
    assert nvme.parse_smart_log(json.dumps({"critical_warning": value})).critical_warning == expected


@pytest.mark.parametrize("key", ["percent_used", "percentage_used"])
def test_wear_above_100_percent_is_kept(key: str) -> None:
    assert nvme.parse_smart_log(json.dumps({key: 137})).percentage_used == 137


def test_counters_wider_than_64_bits_and_in_quotes() -> None:
    found = nvme.parse_smart_log(json.dumps({"percent_used": 1, "power_cycles": "290", "host_read_commands": 2**70}))
    assert (found.power_cycles, found.host_reads) == (290, 2**70)


def test_a_drive_that_does_not_measure_has_no_temperature() -> None:
    assert nvme.parse_smart_log('{"percent_used": 1, "temperature": 0}').temperature_c is None


@pytest.mark.parametrize("text", ["", "{}", '{"error": "Permission denied"}', "key : value", "[]"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        nvme.parse_smart_log(text)


def test_two_drives_in_one_text_are_refused() -> None:
    other = TEXT.replace("15%", "16%")
    with pytest.raises(ToolOutputError):
        nvme.parse_smart_log((TEXT + other).format(warning="0", temperature="29 C"))


def test_a_vendors_additional_log_is_refused() -> None:
    with pytest.raises(ToolOutputError):
        nvme.parse_smart_log("Additional Smart Log for NVME device:nvme0 namespace-id:ffffffff\navailable_spare : 1\n")


def test_a_sensor_that_is_not_fitted_in_builds_of_2016() -> None:
    text = "critical_warning : 0\ntemperature : 34 C\nTemperature Sensor 1 : 34 C\nTemperature Sensor 2 : 0 C\n"
    assert nvme.parse_smart_log(text).sensors_c == (34, None)
