from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, nvme

SAMPLES = Path(__file__).parents[3] / "data" / "samples"


def ctrl(name: str) -> nvme.ControllerIdentity:
    return nvme.parse_id_ctrl((SAMPLES / "nvme_id-ctrl" / name).read_text())


def test_crypto_erase_supported() -> None:
    found = ctrl("id_ctrl_crypto_erase.json")
    assert (found.serial, found.model, found.firmware) == ("SN0001XXXXXX", "WDC PC SN730 SDBQNTY-256G-1001", "11170101")
    assert (found.format_supported, found.crypto_erase) == (True, True)
    assert (found.version, found.total_bytes, found.warning_temp_c) == ("1.3.0", 256060514304, 84)


def test_format_unsupported_means_no_lba_change() -> None:
    assert ctrl("id_ctrl_format_unsupported.json").format_supported is False


def test_only_user_data_erase() -> None:
    found = ctrl("id_ctrl_userdata_erase_only.json")
    assert (found.format_supported, found.crypto_erase) == (True, False)


CTRL_TEXT = """\
NVME Identify Controller:
vid       : 0x144d
ssvid     : 0x144d
sn        : S64ANE0R:000001     
mn        : SAMSUNG MZQL215THBLA-00A07              
fr        : GDC5602Q
cmic      : 0x1
  [3:3] : 0\tANA not supported
  [1:1] : 0\tSingle Controller
mdts      : 5
ver       : 0x10400
oacs      : 0x5f
  [1:1] : 0x1\tFormat NVM Supported
wctemp    : 343
 [15:0] : 70 °C (343 K)\tWarning Composite Temperature Threshold (WCTEMP)
cctemp    : 358
tnvmcap   : 15,362,991,415,296
unvmcap   : 0
sanicap   : 0x3
nn        : 32
fna       : 0x4
vwc       : 0x6
subnqn    : nqn.1994-11.com.samsung:nvme:PM9A3:2.5-inch:S64ANE0R000001
ps    0 : mp:25.00W operational enlat:70 exlat:70 rrt:0 rrl:0
          rwt:0 rwl:0 idle_power:4.00W active_power:14.00W
ps    1 : mp:8.00W operational enlat:70 exlat:70 rrt:1 rrl:1
          rwt:1 rwl:1 idle_power:4.00W active_power:8.00W
"""


def test_controller_as_text_with_human_rows() -> None:
    found = nvme.parse_id_ctrl(CTRL_TEXT)
    assert found.serial == "S64ANE0R:000001"
    assert (found.version, found.namespaces, found.total_bytes) == ("1.4.0", 32, 15362991415296)
    assert (found.format_supported, found.crypto_erase, found.volatile_write_cache) == (True, True, False)
    assert (found.namespace_management, found.multi_controller) == (True, False)
    assert found.critical_temp_c == 85


@pytest.mark.parametrize("capacity", [15362991415296, "15362991415296", "15,362,991,415,296", 15362991415296.0])
def test_capacity_as_number_or_text(capacity: object) -> None:
    assert nvme.parse_id_ctrl(json.dumps({"sn": "a", "tnvmcap": capacity})).total_bytes == 15362991415296


def test_missing_fields_are_unknown_not_false() -> None:
    found = nvme.parse_id_ctrl('{"sn": "a", "tnvmcap": 0, "unvmcap": 0}')
    assert (found.format_supported, found.crypto_erase, found.total_bytes, found.unallocated_bytes) == (None,) * 4


def test_two_controllers_in_one_text_are_refused() -> None:
    with pytest.raises(ToolOutputError):
        nvme.parse_id_ctrl(CTRL_TEXT + CTRL_TEXT.replace("000001 ", "000002 "))


def excerpt(name: str) -> nvme.NamespaceIdentity:
    return nvme.parse_id_ns((SAMPLES / "nvme_id-ns" / name).read_text())


def test_equal_performance_leaves_the_choice_to_policy() -> None:
    found = excerpt("H_lbaf_equal_performance_512_in_use.txt")
    assert (found.lba_bytes, found.in_use) == (512, 0)
    assert found.available_lba_bytes == (512, 4096)
    assert found.best == (0, 1)


def test_4096_is_best_while_512_is_in_use() -> None:
    found = excerpt("H_lbaf_p4510_512_in_use.txt")
    assert found.lba_bytes == 512
    assert found.best == (1,)
    assert found.formats[1].data_bytes == 4096
    assert [entry.performance for entry in found.formats] == ["good", "best"]


NS_TEXT = """\
NVME Identify Namespace 1:
nsze    : 0xdf8fe92b0
ncap    : 0x37e3e92b0
nuse    : 0x1000
nlbaf   : 4
flbas   : 0x1
nvmcap  : 15,362,991,415,296
nguid   : 36344830526000010025384500000001
eui64   : 0000000000000000
lbaf  0 : ms:0   lbads:9  rp:0 
lbaf  1 : ms:8   lbads:9  rp:0x2 (in use)
lbaf  2 : ms:0   lbads:12 rp:0x1 
lbaf  3 : ms:8   lbads:12 rp:0x3 
lbaf  4 : ms:0   lbads:0  rp:0 
"""


def test_namespace_as_text() -> None:
    found = nvme.parse_id_ns(NS_TEXT)
    assert (found.in_use, found.lba_bytes, found.metadata_bytes) == (1, 512, 8)
    assert found.size_bytes == 0xDF8FE92B0 * 512
    assert found.used_bytes == 0x1000 * 512
    assert found.nvm_capacity_bytes == 15362991415296
    assert (found.nguid, found.eui64) == ("36344830526000010025384500000001", None)
    assert found.formats[4].data_bytes is None
    assert found.best == (0,)


def test_namespace_as_json() -> None:
    document = {
        "nsze": 7501476528,
        "nuse": 0,
        "nlbaf": 1,
        "flbas": 1,
        "lbafs": [{"ms": 0, "ds": 9, "rp": 2}, {"ms": 0, "ds": 12, "rp": 0}],
    }
    found = nvme.parse_id_ns(json.dumps(document))
    assert (found.in_use, found.lba_bytes, found.size_bytes) == (1, 4096, 7501476528 * 4096)
    assert found.best == (1,)


def test_human_json_of_2_15() -> None:
    entries = [
        {
            "LBA Format": index,
            "Metadata Size": "0 bytes",
            "Data Size": size,
            "Relative Performance": "0x2 Good",
            "in use": use,
        }
        for index, size, use in ((0, "512 bytes", "no"), (1, "4096 bytes", "yes"))
    ]
    found = nvme.parse_id_ns(json.dumps({"flbas": 1, "nlbaf": 1, "lbafs": entries}))
    assert (found.lba_bytes, found.formats[0].relative_performance) == (4096, 2)


def test_bits_5_and_6_extend_the_index_only_with_more_than_16_formats() -> None:
    many = [{"ms": 0, "ds": 9 if index < 16 else 12, "rp": 0} for index in range(20)]
    assert nvme.parse_id_ns(json.dumps({"flbas": 0x22, "nlbaf": 19, "lbafs": many})).in_use == 18
    few = many[:4]
    assert nvme.parse_id_ns(json.dumps({"flbas": 0x22, "nlbaf": 3, "lbafs": few})).in_use == 2


def test_a_format_outside_the_list_leaves_the_block_size_unknown() -> None:
    found = nvme.parse_id_ns('{"flbas": 3, "nlbaf": 0, "lbafs": [{"ms": 0, "ds": 9, "rp": 0}]}')
    assert found.lba_bytes is None
    assert found.size_bytes is None


@pytest.mark.parametrize(
    "text", ["", "NVMe status: Invalid Namespace", "{}", '{"lbafs": 1}', '{"lbafs": [1]}', "nsze : 0x1"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        nvme.parse_id_ns(text)
