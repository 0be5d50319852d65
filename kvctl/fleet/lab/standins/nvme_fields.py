"""The lines with which `nvme id-ns -H` explains a field (nvme-cli 2.13, nvme-print-stdout.c, stdout_id_ns_*)."""

from __future__ import annotations


def supported(high: int, low: int, text: str) -> tuple[int, int, str, str, str]:
    return high, low, text + " %sSupported", "Not ", ""


# field -> (high bit, low bit, text, word in it for zero, word in it for any other value)
FIELDS = {
    "nsfeat": (
        (7, 7, "NPRG, NPRA and NORS are %sSupported", "Not ", ""),
        (6, 6, "%s Atomicity Mode applies to write operations", "Single", "Multiple"),
        (5, 4, "NPWG, NPWA, NPDG, NPDGL, NPDA, and NOWS are %sSupported", "Not ", ""),
        (3, 3, "NGUID and EUI64 fields if non-zero, %sReused", "", "Never "),
        supported(2, 2, "Deallocated or Unwritten Logical Block error"),
        (1, 1, "Namespace uses %s", "AWUN, AWUPF, and ACWU", "NAWUN, NAWUPF, and NACWU"),
        supported(0, 0, "Thin Provisioning"),
    ),
    "flbas": (
        (6, 5, "Most significant 2 bits of Current LBA Format Selected%s", "", ""),
        (4, 4, "Metadata Transferred %s", "in Separate Contiguous Buffer", "at End of Data LBA"),
        (3, 0, "Least significant 4 bits of Current LBA Format Selected%s", "", ""),
    ),
    "mc": (supported(1, 1, "Metadata Pointer"), supported(0, 0, "Metadata as Part of Extended Data LBA")),
    "dpc": (
        supported(4, 4, "Protection Information Transferred as Last Bytes of Metadata"),
        supported(3, 3, "Protection Information Transferred as First Bytes of Metadata"),
        supported(2, 2, "Protection Information Type 3"),
        supported(1, 1, "Protection Information Type 2"),
        supported(0, 0, "Protection Information Type 1"),
    ),
    "dps": (
        (3, 3, "Protection Information is Transferred as %s Bytes of Metadata", "Last", "First"),
        (2, 0, "Protection Information %s", "Disabled", "Enabled"),
    ),
    "nmic": (
        (1, 1, "Namespace is %sa Dispersed Namespace", "Not ", ""),
        (0, 0, "Namespace Multipath %sCapable", "Not ", ""),
    ),
    "rescap": (
        (7, 7, "Ignore Existing Key - Used as defined in revision %s", "1.2.1 or earlier", "1.3 or later"),
        supported(6, 6, "Exclusive Access - All Registrants"),
        supported(5, 5, "Write Exclusive - All Registrants"),
        supported(4, 4, "Exclusive Access - Registrants Only"),
        supported(3, 3, "Write Exclusive - Registrants Only"),
        supported(2, 2, "Exclusive Access"),
        supported(1, 1, "Write Exclusive"),
        supported(0, 0, "Persist Through Power Loss"),
    ),
    "fpi": (supported(7, 7, "Format Progress Indicator"),),
    "dlfeat": (
        (4, 4, "Guard Field of Deallocated Logical Blocks is set to %s", "0xFFFF", "CRC of The Value Read"),
        supported(3, 3, "Deallocate Bit in the Write Zeroes Command is"),
        (2, 0, "Bytes Read From a Deallocated Logical Block and its Metadata are %s", "Not Reported", "0x00"),
    ),
    "kpios": (
        supported(1, 1, "Key Per I/O Capability"),
        (0, 0, "Key Per I/O Capability %s", "Disabled", "Enabled"),
    ),
    "nsattr": ((0, 0, "Namespace %sWrite Protected", "Not ", ""),),
}


def explained(field: str, value: int) -> list[str]:
    """The lines below a field, with the empty one that ends them; none for a field that needs no explanation."""
    if field not in FIELDS:
        return []
    lines = []
    for high, low, text, zero, other in FIELDS[field]:
        bits = value >> low & ((1 << (high - low + 1)) - 1)
        shown = "%#x" % bits if bits else "0"
        lines.append("  [%d:%d] : %s\t%s" % (high, low, shown, text % (other if bits else zero)))
    return [*lines, ""]
