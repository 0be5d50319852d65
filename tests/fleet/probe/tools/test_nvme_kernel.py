from __future__ import annotations

from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, nvme

SAMPLES = Path(__file__).parents[3] / "data" / "samples" / "nvme_kernel_log"


def test_drive_gone_from_the_bus() -> None:
    found = nvme.parse_kernel_log((SAMPLES / "ctrl_down_csts_ffffffff.txt").read_text())
    assert found.gone == ("nvme0",)
    assert found.removed == ("nvme0",)
    assert found.unreachable_pci == ("0000:04:00.0",)
    # The block device nvme1n1 is another instance number; nothing links it to nvme0 in this log.
    assert [event.namespace for event in found.events if event.kind == "io_error"] == ["nvme1n1"]
    assert found.events[0].seconds == 65056.815294


def test_timeout_then_removed() -> None:
    found = nvme.parse_kernel_log((SAMPLES / "io_timeout_abort_remove.txt").read_text())
    assert found.removed == ("nvme2",)
    assert found.timed_out == ("nvme2",)
    assert found.lost_namespaces == ("nvme2n1",)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("kernel: nvme nvme3: I/O 12 QID 4 timeout, aborting", "timeout"),
        (
            "nvme nvme3: I/O tag 842 (134a) opcode 0x2 (Read) QID 9 timeout, aborting req_op:READ(0) size:4096",
            "timeout",
        ),
        ("nvme nvme3: I/O 12 (I/O Cmd) QID 4 timeout, completion polled", "timeout"),
        ("nvme nvme3: Abort status: 0x371", "abort"),
        ("nvme nvme3: Device not ready; aborting initialisation, CSTS=0x0", "not_ready"),
        ("nvme nvme3: Disabling device after reset failure: -19", "removed"),
        ("nvme nvme3: controller is down; will reset: CSTS=0x3, PCI_STATUS=0x10", "down"),
        ("nvme nvme3: frozen state error detected, reset controller", "reset"),
    ],
)
def test_messages_of_other_kernels(line: str, kind: str) -> None:
    (event,) = nvme.parse_kernel_log("[  12.345678] " + line).events
    assert (event.kind, event.controller) == (kind, "nvme3")


def test_addresses_the_log_names() -> None:
    found = nvme.parse_kernel_log("[    2.1234567] nvme nvme0: pci function 0000:41:00.0\n")
    assert found.pci_of == (("nvme0", "0000:41:00.0"),)
    assert found.events == ()


def test_quiet_logs_have_no_events() -> None:
    assert nvme.parse_kernel_log("").events == ()
    assert nvme.parse_kernel_log("[    0.000000] Linux version 6.8.0\n").events == ()


@pytest.mark.parametrize(
    "prefix",
    [
        "kern  :warn  : 2025-01-21T04:41:44,285060+00:00 ",
        "2025-01-21T04:41:44,285060+00:00 ",
        "[Tue Jan 21 04:41:44 2025] ",
        "Jan 21 04:41:44 node01 kernel: ",
        "4,1024,1345678,-;",
    ],
)
def test_every_form_of_the_log(prefix: str) -> None:
    assert nvme.parse_kernel_log(prefix + "usb 1-1: new device\n").events == ()
    found = nvme.parse_kernel_log(prefix + "nvme nvme0: Disabling device after reset failure: -19\n")
    assert found.removed == ("nvme0",)


def test_other_text_is_refused() -> None:
    with pytest.raises(ToolOutputError):
        nvme.parse_kernel_log("dmesg: read kernel buffer failed: Operation not permitted")


def test_media_errors() -> None:
    log = nvme.parse_kernel_log(
        "[  71.12] blk_update_request: critical medium error, dev nvme4n1, sector 8192 op 0x0:(READ)\n"
        "[  72.12] nvme5n1: Read(0x2) @ LBA 8192, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) DNR\n"
    )
    assert [(event.kind, event.namespace) for event in log.events] == [("io_error", "nvme4n1"), ("io_error", "nvme5n1")]
