"""Firmware: stored against running, by PSID."""

from pathlib import Path

import pytest
from ansible.module_utils import kvctl_nic_firmware
from ansible.module_utils.kvctl_nic_firmware import Actions, Flash
from ansible.module_utils.kvctl_refused import Refused

SAMPLES = Path(__file__).parents[1] / "data/samples"
DEVICE = {"netdev": "eth1", "pci": "0000:41:00.0", "psid": "MT_0000000228", "version": "20.35.1012",
          "image": "/images/a.bin", "sha256": "ab" * 32}  # fmt: skip


def sample(name):
    return kvctl_nic_firmware.from_flint("mstflint", "0000:41:00.0", (SAMPLES / "mstflint" / name).read_text())


def test_stored_and_running_are_right():
    assert kvctl_nic_firmware.decide(DEVICE, sample("q_cx6_200g_fs4.txt")) == Actions(burn=False, reset=False)


def test_a_stored_version_that_does_not_run_is_reset_and_not_burnt_again():
    flash = sample("q_cx6_running_differs_reset_needed.txt")
    assert (flash.stored, flash.running) == ("20.35.1012", "20.34.1002")
    assert kvctl_nic_firmware.decide(DEVICE, flash) == Actions(burn=False, reset=True)


def test_another_stored_version_is_burnt():
    assert kvctl_nic_firmware.decide({**DEVICE, "version": "20.43.1014"}, sample("q_cx6_200g_fs4.txt")).burn


def test_a_pending_image_of_another_version_is_burnt_over():
    flash = Flash("mstflint", "MT_0000000228", "20.36.1000", "20.35.1012")
    assert kvctl_nic_firmware.decide(DEVICE, flash).burn


@pytest.mark.parametrize(
    ("device", "flash", "code"),
    [
        ({**DEVICE, "psid": "MT_0000000359"}, Flash("mstflint", "MT_0000000228", "1", "1"), "KV-FW-004"),
        (DEVICE, Flash("mstflint", None, "1", "1"), "KV-FW-004"),
        (DEVICE, Flash("devlink", "MT_0000000228", None, "20.35.1012"), "KV-FW-008"),
        ({**DEVICE, "image": ""}, Flash("mstflint", "MT_0000000228", "1", "1"), "KV-FW-005"),
    ],
)
def test_refused(device, flash, code):
    with pytest.raises(Refused) as refused:
        kvctl_nic_firmware.decide(device, flash)
    assert refused.value.code == code


def test_a_virtual_function_is_refused():
    with pytest.raises(Refused, match="KV-FW-003"):
        kvctl_nic_firmware.refuse_device("0000:41:00.2", present=True, virtual=True)


def test_the_tools_own_error_is_reported():
    text = (SAMPLES / "mstflint/errors.txt").read_text().splitlines()[0] + "\n"
    with pytest.raises(Refused, match="KV-FW-009"):
        kvctl_nic_firmware.from_flint("mstflint", "0000:41:00.0", text)


def test_devlink_without_a_stored_section_has_nothing_pending():
    text = (SAMPLES / "devlink/dev_info_bnxt_en_jp.json").read_text()
    flash = kvctl_nic_firmware.from_devlink("0000:af:00.0", text)
    assert (flash.stored, flash.running) == ("216.1.216.0", "216.1.216.0")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"info": {}}', '{"info": []}'])
def test_devlink_output_that_is_something_else(text):
    with pytest.raises(Refused, match="KV-FW-009"):
        kvctl_nic_firmware.from_devlink("0000:af:00.0", text)


def test_an_image_with_another_checksum_is_never_burnt(tmp_path, monkeypatch):
    monkeypatch.setattr(kvctl_nic_firmware, "IMAGES", str(tmp_path))
    (tmp_path / (DEVICE["sha256"] + ".bin")).write_bytes(b"cut short")
    with pytest.raises(Refused, match="KV-FW-006"):
        kvctl_nic_firmware.check_image(DEVICE, sample("q_cx6_200g_fs4.txt"))


def test_the_burn_command():
    flash = sample("q_cx6_200g_fs4.txt")
    assert kvctl_nic_firmware.burn_commands(DEVICE, flash) == [
        {"argv": ["mstflint", "-d", "0000:41:00.0", "-i", f"/var/lib/kvctl/images/{'ab' * 32}.bin", "-y", "burn"]}
    ]
