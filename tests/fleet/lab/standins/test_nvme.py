import json

import pytest

from kvctl.fleet.lab.standins import nvme, nvme_print
from kvctl.fleet.probe.tools import nvme as parser


def run(capsys, *argv):
    code = nvme.main(list(argv))
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("performance", "name"), [(2, "H_lbaf_p4510_512_in_use.txt"), (0, "H_lbaf_equal_performance_512_in_use.txt")]
)
def test_id_ns_formats_equal_the_samples(change, sample, capsys, performance, name):
    formats = [{"ms": 0, "ds": 9, "rp": performance}, {"ms": 0, "ds": 12, "rp": 0}]
    change(lambda state: state["drives"][0].update(formats=formats, flbas=0))
    _, out = run(capsys, "id-ns", "/dev/nvme0n1", "-H")
    # The samples' last blank, which the tool prints before an absent "(in use)", was cut.
    shown = "".join(line.rstrip() + "\n" for line in out.splitlines() if line.startswith("LBA Format"))
    assert shown == sample(f"nvme_id-ns/{name}")


def test_smart_log_equals_the_sample(change, sample, capsys):
    smart = json.loads(sample("nvme_smart-log/o_json_1x_2x_int_wear15.json"))
    change(lambda state: state["drives"][0].update(smart=smart, json_colon=" : "))
    assert run(capsys, "smart-log", "/dev/nvme0", "-o", "json") == (
        0, sample("nvme_smart-log/o_json_1x_2x_int_wear15.json"),
    )  # fmt: skip


def test_nested_list_equals_the_sample(change, sample, capsys):
    text = sample("nvme_list/o_json_211_nested_ctrl_namespaces.json")

    def as_sampled(state):
        drive = {
            **state["drives"][0], "serial": "SN0001XXXXXXXXXXXX", "model": "INTEL SSDPEDMD400G4", "slot": "2",
            "firmware": "8DV101H0", "pci": "0000:02:00.0", "capacity": 400088457216, "flbas": 0,
            "nqn": "nqn.2014.08.org.nvmexpress:80868086SN0001XXXXXXXXXXXX  INTEL SSDPEDMD400G4",
        }  # fmt: skip
        state["drives"] = [drive]

    change(as_sampled)
    assert run(capsys, "list", "-o", "json") == (0, text)


def test_text_list_equals_the_sample(change, sample, capsys):
    def as_sampled(state):
        base = {"model": "Micron_7450_MTFDKCB960TFR", "firmware": "E2MU200", "flbas": 0}
        first = {**state["drives"][0], **base, "serial": "SN0001XXXXXX", "generic": "/dev/ng0n1"}
        second = {**state["drives"][1], **base, "serial": "SN0002XXXXXX", "generic": "/dev/ng1n1"}
        first.update(capacity=153600000000, used_bytes=0)
        second.update(capacity=960197124096, used_bytes=1850000000)
        state["drives"] = [first, second]

    change(as_sampled)
    _, out = run(capsys, "list")
    assert [line.rstrip() for line in out.splitlines()] == sample("nvme_list/text_2x_generic_hex_ns.txt").splitlines()


def test_subsystems_equal_the_sample(change, sample, capsys):
    def as_sampled(state):
        nqn = "nqn.2014.08.org.nvmexpress:1bb11bb1SN0001XX            Seagate FireCuda 530 ZP4000GM30023"
        drive = {**state["drives"][0], "subsystem": "nvme-subsys2", "controller": "nvme2", "pci": "0000:61:00.0"}
        state["drives"] = [{**drive, "nqn": nqn}]

    change(as_sampled)
    assert run(capsys, "list-subsys", "-o", "json") == (0, sample("nvme_list/list_subsys_o_json_2x.json"))


def test_id_ctrl_strings_are_padded_and_the_product_parser_reads_them(hardware, capsys):
    code, out = run(capsys, "id-ctrl", "/dev/nvme0", "-o", "json")
    assert code == 0
    assert json.loads(out)["sn"] == "S6XLN078051300      "
    read = parser.parse_id_ctrl(out)
    assert read.serial == "S6XLN078051300"
    assert read.format_supported is True
    assert read.crypto_erase is True


def test_a_missing_drive_is_not_listed_and_not_opened(change, capsys):
    change(lambda state: state["drives"][1].update(gone=True))
    assert "nvme1n1" not in run(capsys, "list")[1]
    assert nvme.main(["id-ctrl", "/dev/nvme1"]) == 1


@pytest.mark.parametrize(
    "argv",
    [
        ["frobnicate"],
        ["list", "--frobnicate"],
        ["id-ctrl"],
        ["id-ctrl", "/dev/nvme7"],
        ["format", "/dev/nvme0n1", "--lbaf", "1", "--block-size", "512", "--force"],
        ["format", "/dev/nvme0n1", "--lbaf", "9", "--force"],
        ["format", "/dev/nvme0n1", "--block-size", "1024", "--force"],
        ["format", "/dev/nvme0n1", "--ses", "9", "--force"],
    ],
)
def test_wrong_input_is_refused(hardware, argv, capsys):
    assert nvme.main(argv) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err


def test_a_drive_that_cannot_format_says_so(change, capsys):
    change(lambda state: state["drives"][0]["id_ctrl"].update(oacs=0))
    assert nvme.main(["format", "/dev/nvme0n1", "--lbaf", "0", "--force"]) == 1
    assert "Invalid Command Opcode" in capsys.readouterr().err


def test_worn_out_is_one_bit():
    text = nvme_print.smart_log({"smart": {"critical_warning": 4}}, as_json=True, human=True)
    assert json.loads(text)["critical_warning"]["reliability_degraded"] == 1
