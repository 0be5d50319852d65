import json

import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.devlink import parse_info

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, folder, sample

ICE = "devlink/dev_info_ice_text.txt"
BNXT = "devlink/dev_info_bnxt_en_jp.json"
MLX5 = (
    "pci/0000:08:00.0:\n  driver mlx5_core\n  serial_number e4397f872caeed218000846daa7d2f49\n"
    "  board.serial_number MT2314XZ00YA\n  versions:\n      fixed:\n        fw.psid MT_0000000894\n      running:\n"
    "        fw.version 28.41.1000\n        fw 28.41.1000\n      stored:\n        fw.version 28.43.1014\n"
    "        fw 28.43.1014\nauxiliary/mlx5_core.eth.0:\n  driver mlx5_core.eth\npci/0000:08:00.1:\n  driver mlx5_core\n"
)


def test_bnxt_json() -> None:
    (device,) = parse_info(sample(BNXT))
    assert (device.driver, device.pci, device.psid) == ("bnxt_en", "0000:af:00.0", "0.0.0")
    assert (device.fw_running, device.fw_roce) == ("216.1.216.0", "216.1.16.0")
    assert (device.stored, device.fw_stored) == (None, None)
    assert device.fixed is not None
    assert device.fixed["board.id"] == "7339763 Rev 0."


def test_ice_text_has_values_with_blanks() -> None:
    (device,) = parse_info(sample(ICE))
    assert device.running is not None
    assert device.running["fw.mgmt"] == "6.1.5"
    assert device.running["fw.psid.api"] == "3.10"
    assert device.running["fw.bundle_id"] == "0x80008e6a"
    assert device.running["fw.app.name"] == "ICE OS Default Package"
    assert device.ddp == "1.3.35.0"
    assert device.fw_running is None
    assert device.stored == {"fw.undi": "1.3025.0", "fw.psid.api": "3.10"}


def test_several_devices() -> None:
    first, auxiliary, last = parse_info(MLX5)
    assert (first.psid, first.fw_running, first.fw_stored) == ("MT_0000000894", "28.41.1000", "28.43.1014")
    assert (auxiliary.handle, auxiliary.pci, auxiliary.running) == ("auxiliary/mlx5_core.eth.0", None, None)
    assert (last.pci, last.running) == ("0000:08:00.1", None)
    body = {"driver": "mlx5_core", "versions": {"running": {"fw": "28.41.1000"}}}
    text = json.dumps({"info": {"pci/0000:08:00.0": body, "pci/0000:08:00.1": {"driver": "mlx5_core"}}})
    assert [device.fw_running for device in parse_info(text)] == ["28.41.1000", None]


def test_text_without_indentation() -> None:
    flat = "\n".join(line.strip() for line in MLX5.splitlines())
    assert parse_info(flat) == parse_info(MLX5)


@pytest.mark.parametrize("text", ["", "devlink answers: No such device\n", "{}", '{"info":{}}', "[]"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse_info(text)


def test_cut_noise_and_damage() -> None:
    for text in (sample(ICE), MLX5):
        assert_cut_changes_nothing(parse_info, text)
        assert_noise_changes_nothing(parse_info, text)
    assert_survives_damage(parse_info, [MLX5, *map(sample, folder("devlink"))])
