import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.mstflint import Rom, parse_errors, parse_query

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, folder, sample

ALL = folder("mstflint", "q_") + folder("flint")
FS2 = (
    "Image type:            FS2\nFW Version:            2.42.5000\nFW Version(Running):   2.35.5100\n"
    "FW Release Date:       5.9.2017\nMIC Version:           2.0.0\nPRS Name:              cx3-1_MCX311A.prs\n"
    "Product Version:       02.42.50.00\nRom Info:              version_id=8025 type=CLP\n"
    "                       type=PXE version=3.4.752\nDevice ID:             4099\n"
    "Description:           Node             Port1            Port2            Sys image\n"
    "GUIDs:                 e41d2d0300100000 e41d2d0300100001 e41d2d0300100002 e41d2d0300100003 \n"
    "MACs:                                       e41d2d100050     e41d2d100051\nVSD:\n"
    "PSID:                  MT_1170110023\n"
)


def test_same_version_running_and_stored() -> None:
    query = parse_query(sample("mstflint/q_cx6_200g_fs4.txt"))
    assert (query.fw_stored, query.fw_running, query.pending_reset) == ("20.35.1012", "20.35.1012", False)
    assert (query.psid, query.base_guid, query.base_mac) == ("MT_0000000228", "043f720300100046", "043f72100046")
    assert query.roms == (Rom("UEFI", "14.28.15", "AMD64,AARCH64"), Rom("PXE", "3.6.804", "AMD64"))
    assert query.security == ()


def test_running_version_differs_until_the_reset() -> None:
    query = parse_query(sample("mstflint/q_cx6_running_differs_reset_needed.txt"))
    assert (query.fw_stored, query.fw_running, query.pending_reset) == ("20.35.1012", "20.34.1002", True)
    assert query.psid == "MT_0000000228"


def test_flint_prints_the_same() -> None:
    query = parse_query(sample("flint/d_mst_query_cx6lx.txt"))
    assert (query.image_type, query.fw_running, query.psid) == ("FS4", "26.33.1048", "MT_0000000575")
    assert (query.guids_number, query.security) == (4, ("secure-fw",))


def test_product_version_does_not_stand_in_for_a_lost_firmware_row() -> None:
    query = parse_query(sample("flint/q_cx7_16guids_tail.txt"))
    assert (query.fw_stored, query.fw_running, query.pending_reset) == (None, None, None)
    assert (query.product_version, query.guids_number, query.psid) == ("28.42.1000", 16, "MT_0000001244")


def test_fs2_device() -> None:
    query = parse_query(FS2)
    assert (query.fw_stored, query.fw_running, query.pending_reset) == ("2.42.5000", "2.35.5100", True)
    assert query.macs == ("e41d2d100050", "e41d2d100051")
    assert query.guids[0] == "e41d2d0300100000"
    assert query.roms == (Rom("CLP", "8025", None), Rom("PXE", "3.4.752", None))
    assert (query.device_id, query.description) == (4099, None)


def test_full_query_of_a_card_with_unset_uids() -> None:
    query = parse_query(
        "Image type:            FS4\nFW Version:            28.43.1014\nFW Release Date:       7.11.2024\n"
        "Part Number:           MCX75310AAS-NEA_Ax\n"
        "Description:           NVIDIA ConnectX-7 HHHL Adapter card; 400GbE / NDR IB\n"
        "Product Version:       28.43.1014\nRom Info:              N/A (-E- Bad ROM)\n"
        "Description:           UID                GuidsNumber\nBase GUID:             N/A                      N/A\n"
        "Orig Base GUID:        9c63c00300100012        4\nPSID:                  MT_0000000838\n"
        "Security Attributes:   secure-fw, debug, dev\nDefault Update Method: fw_ctrl\n"
        "Life cycle:            GA SECURED\nSecure Boot Capable:   Enabled\n"
    )
    assert query.description == "NVIDIA ConnectX-7 HHHL Adapter card; 400GbE / NDR IB"
    assert (query.base_guid, query.guids_number, query.roms) == (None, None, ())
    assert query.security == ("secure-fw", "debug", "dev")
    assert (query.life_cycle, query.secure_boot, query.part_number) == ("GA SECURED", True, "MCX75310AAS-NEA_Ax")


def test_image_in_flash_is_not_readable_but_the_device_runs() -> None:
    query = parse_query("Image type: FS2\nFW Version(Running): 2.36.5000\nPSID: MT_1080120023\n")
    assert (query.fw_stored, query.fw_running, query.pending_reset) == (None, "2.36.5000", None)


def test_errors_and_warnings_around_a_query() -> None:
    query = parse_query("-W- Firmware flash cache access is enabled.\n" + FS2 + "-E- Something failed\n")
    assert query.errors == ("Something failed",)
    assert query.warnings == ("Firmware flash cache access is enabled.",)


def test_errors_name_both_psids() -> None:
    errors = parse_errors(sample("mstflint/errors.txt"))
    assert len(errors) == 3
    assert "LNV0000000025" in errors[0]
    assert "MT_0000001590" in errors[1]
    assert "MT_0002001590" in errors[1]
    assert "MT_0000001121" in errors[2]


def test_an_error_alone_is_no_query() -> None:
    with pytest.raises(ToolOutputError, match="PSID mismatch"):
        parse_query(sample("mstflint/errors.txt"))


def test_two_cards_in_one_text_are_refused() -> None:
    with pytest.raises(ToolOutputError, match="contradicts itself"):
        parse_query(sample("mstflint/q_cx6_200g_fs4.txt") + "\n" + sample("flint/d_mst_query_cx6lx.txt"))


def test_cut_after_the_stored_version_leaves_the_running_one_open() -> None:
    text = sample("mstflint/q_cx6_running_differs_reset_needed.txt")
    for end in range(len(text)):
        try:
            query = parse_query(text[:end])
        except ToolOutputError:
            continue
        assert query.fw_stored in (None, "20.35.1012")
        assert query.fw_running in (None, "20.34.1002")


@pytest.mark.parametrize("path", ALL)
def test_cut_and_noise(path: str) -> None:
    assert_cut_changes_nothing(parse_query, sample(path) + "\n")
    assert_noise_changes_nothing(parse_query, sample(path))


def test_damage() -> None:
    texts = [sample(path) for path in ALL] + [FS2, sample("mstflint/errors.txt")]
    assert_survives_damage(parse_query, texts)
    assert_survives_damage(parse_errors, texts)


def test_a_mac_with_zeros_in_front() -> None:
    text = """Image type:            FS4
FW Version:            16.20.1030
Product Version:       rel-16_20_1030
Base GUID:             0c42a103009f1d2e        4
Base MAC:              00000c42a19f1d2e        4
PSID:                  MT_0000000012
"""
    query = parse_query(text)
    assert (query.base_mac, query.base_guid) == ("0c42a19f1d2e", "0c42a103009f1d2e")


def test_a_card_before_and_after_its_reset_is_refused() -> None:
    text = sample("mstflint/q_cx6_running_differs_reset_needed.txt")
    after = "".join(line for line in text.splitlines(True) if "Running" not in line)
    with pytest.raises(ToolOutputError, match="several queries"):
        parse_query(text + "\n" + after)
