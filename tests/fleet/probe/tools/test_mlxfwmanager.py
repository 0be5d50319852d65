import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.mlxfwmanager import FwDevice, parse_query, parse_xml, pci_address

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, folder, sample

ALL = folder("mlxfwmanager")
TEXTS = [path for path in ALL if path.endswith(".txt")]
XML = "mlxfwmanager/query_format_xml_bf3_spectrum3.xml"


def only(path: str) -> FwDevice:
    (device,) = parse_query(sample(path))
    return device


def test_running_row_is_there_only_when_it_differs() -> None:
    device = only("mlxfwmanager/d_cx6dx_running_differs.txt")
    assert (device.fw_stored, device.fw_running, device.pending_reset) == ("22.45.3608", "22.43.1020", True)
    assert (device.psid, device.pci, device.fw_available) == ("MT_0000000436", "0000:03:00.0", None)
    device = only("mlxfwmanager/d_cx6dx_single_fw.txt")
    assert (device.fw_stored, device.fw_running, device.pending_reset) == ("22.29.2002", "22.29.2002", False)
    assert device.status is None


def test_no_firmware_row_is_unknown_firmware() -> None:
    device = only("mlxfwmanager/d_truncated_no_fw.txt")
    assert (device.psid, device.fw_stored, device.fw_running, device.pending_reset) == (
        "MT_0000000436",
        None,
        None,
        None,
    )


def test_driver_package_burnt_the_card() -> None:
    device = only("mlxfwmanager/fw_updater_burned_restart_needed.txt")
    assert (device.fw_running, device.updated_to, device.pending_reset) == ("22.31.1014", "22.33.1048", True)
    assert device.pci == "0000:d2:00.0"


def test_port_macs_instead_of_a_base_mac() -> None:
    device = only("mlxfwmanager/query_cx3_port_macs_up_to_date.txt")
    assert device.status == "Up to date"
    assert device.macs == {"Port1": "7cfe90100011", "Port2": "7cfe90100012"}
    assert (device.base_mac, device.base_guid) == (None, None)


def test_update_required_in_another_pci_domain() -> None:
    device = only("mlxfwmanager/query_cx6lx_update_required.txt")
    assert (device.fw_stored, device.fw_available, device.status) == ("26.33.1048", "26.43.1014", "Update required")
    assert device.pci == "0002:01:00.0"
    assert device.roms["UEFI"] == ("14.26.0017", "14.36.0016")


def test_excerpt_with_freebsd_address_and_no_guid() -> None:
    device = only("mlxfwmanager/query_innova_no_guid.txt")
    assert (device.number, device.base_guid, device.base_mac) == (4, None, None)
    assert device.pci == "0000:06:00.0"


def test_xml_with_an_undotted_switch_version() -> None:
    bluefield, spectrum = parse_query(sample(XML))
    assert parse_xml(sample(XML)) == (bluefield, spectrum)
    assert (bluefield.device_type, bluefield.psid, bluefield.fw_running) == (
        "BlueField3",
        "MT_0000001139",
        "32.41.1000",
    )
    assert (spectrum.device_type, spectrum.fw_stored) == ("Spectrum3", "30_2012_4038-006")
    assert (spectrum.base_guid, spectrum.pci) == (None, "/dev/mst/mt53104_pci_cr0")


def test_xml_running_row() -> None:
    (device,) = parse_xml(
        '-I- note\n<Devices>\n<Device pciName="0000:41:00.0" type="ConnectX7" psid="MT_0000000838" partNumber="MCX">\n'
        '<Versions><FW current="28.43.1014" available="N/A"/><FW_Running current="28.39.2048" available="N/A"/>'
        '<UEFI_Virtio_blk current="22.4.0010" available="N/A"/></Versions>\n'
        '<MACs port1="aabbccddeeff" /><Status>Up to date</Status><Description>x</Description></Device>\n</Devices>\n'
    )
    assert (device.fw_stored, device.fw_running, device.pending_reset) == ("28.43.1014", "28.39.2048", True)
    assert device.macs == {"Port1": "aabbccddeeff"}
    assert device.roms == {"UEFI Virtio blk": ("22.4.0010", None)}


def test_rows_without_indentation_long_rom_names_and_two_devices() -> None:
    text = (
        "Querying Mellanox devices firmware ...\n\nDevice #1:\n----------\n\nDevice Type:      BlueField2\n"
        "PSID:             MT_0000000768\nPCI Device Name:  /dev/mst/mt41686_pciconf0\n"
        "Base GUID:        a088c20300100040\n"
        "Versions:         Current        Available     \n"
        "FW             24.40.1000     N/A           \nCLP  8025  N/A\n"
        "FW (Running)   24.35.2000     N/A\nUEFI Virtio blk   22.4.0010      N/A\n\n"
        "Status:           No matching image found\n"
        "Device #2:\n----------\n\n  Device Type:      ConnectX5\n  Versions:         Current        Available\n"
        "     FW             --             --\n\n  Status:           Failed to open device\n\n"
        "-E- Failed to query 0000:81:00.0 device, error : MFE_CR_ERROR\n"
    )
    first, second = parse_query(text)
    assert (first.fw_stored, first.fw_running, first.pending_reset) == ("24.40.1000", "24.35.2000", True)
    assert first.roms["UEFI Virtio blk"] == ("22.4.0010", None)
    assert (second.fw_stored, second.fw_running, second.status) == (None, None, "Failed to open device")


def test_masked_guids_and_a_following_mlxconfig_section() -> None:
    text = sample("mlxfwmanager/query_cx3_port_macs_up_to_date.txt").replace("7cfe90100011", "************")
    (device,) = parse_query(text + "\nDevice #1:\n----------\n\nDevice type:    ConnectX3\nName:           x\n")
    assert device.macs == {"Port2": "7cfe90100012"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-E- No devices found or specified, mst might be stopped, run 'mst start' to load MST modules\n",
        "Device # | Device Type | Part Number\n1 | ConnectX6DX | MCX623106AN\n",
        '<Devices><Device pciName="x" type="y"/>',
        '<!DOCTYPE a [<!ENTITY b "c">]><Devices><Device type="&b;"/></Devices>',
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse_query(text)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("03:00.0", "0000:03:00.0"),
        ("0002:01:00.1", "0002:01:00.1"),
        ("0000:D8:00.0", "0000:d8:00.0"),
        ("pci0:129:0:1", "0000:81:00.1"),
        ("mt4103_pci_cr0", "mt4103_pci_cr0"),
        (None, None),
    ],
)
def test_pci_address(name: str | None, address: str | None) -> None:
    assert pci_address(name) == address


@pytest.mark.parametrize("path", TEXTS)
def test_cut_and_noise(path: str) -> None:
    if "burned" not in path:  # its tail says that the versions above are out of date
        assert_cut_changes_nothing(parse_query, sample(path))
    assert_noise_changes_nothing(parse_query, sample(path))


def test_cut_inside_a_version_gives_no_version() -> None:
    text = sample("mlxfwmanager/d_cx6dx_running_differs.txt")
    for end in range(len(text)):
        try:
            (device,) = parse_query(text[:end])
        except ToolOutputError:
            continue
        assert device.fw_stored in (None, "22.45.3608")
        assert device.fw_running in (None, "22.43.1020")


def test_damage() -> None:
    assert_survives_damage(parse_query, [sample(path) for path in ALL])
    assert_survives_damage(parse_xml, [sample(XML)])
