"""What nvme-cli 2.13 prints (nvme-print-stdout.c, nvme-print-json.c)."""

from __future__ import annotations

from typing import Any

from .nvme_fields import explained

PERFORMANCE = ("Best", "Better", "Good", "Degraded")
LIST_WIDTHS = (21, 21, 20, 40, 10, 26, 16, 8)
LIST_NAMES = ("Node", "Generic", "SN", "Model", "Namespace", "Usage", "Format", "FW Rev")


def json_text(value: Any, depth: int = 0, colon: str = ":") -> str:
    """json-c's JSON_C_TO_STRING_PRETTY | NOSLASHESCAPE: two blanks a level, an empty list takes two lines."""
    pad, inner = "  " * depth, "  " * (depth + 1)
    if isinstance(value, dict):
        rows = ['%s"%s"%s%s' % (inner, key, colon, json_text(item, depth + 1, colon)) for key, item in value.items()]
        return "{\n%s\n%s}" % (",\n".join(rows), pad)
    if isinstance(value, list):
        if not value:
            return "[\n%s]" % pad
        return "[\n%s\n%s]" % (",\n".join(inner + json_text(item, depth + 1, colon) for item in value), pad)
    return str(value) if isinstance(value, int) else '"%s"' % value


def lba_of(drive: dict[str, Any]) -> int:
    return 1 << int(drive["formats"][drive["flbas"] & 0xF]["ds"])


def si(number: float) -> tuple[float, str]:
    for unit, suffix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return number / unit, suffix
    return number, ""


def list_text(drives: list[dict[str, Any]]) -> str:
    rows = [list(LIST_NAMES), ["-" * width for width in LIST_WIDTHS]]
    for drive in drives:
        lba = lba_of(drive)
        used, total = si(float(drive["used"] * lba)), si(float(drive["blocks"] * lba))
        usage = "%6.2f %2sB / %6.2f %2sB" % (*used, *total)
        shown = (lba // 1024, "Ki") if lba >= 1024 else (lba, "")
        name = drive["namespace"]
        cells = ["/dev/" + name, drive.get("generic", "ng" + name[4:]), drive["serial"], drive["model"]]
        cells += ["%#x" % drive["nsid"], usage, "%3.0f %2sB + %2d B" % (*shown, 0), drive["firmware"]]
        rows.append(cells)
    lines = [" ".join("%-*s" % pair for pair in zip(LIST_WIDTHS, row)) for row in rows]  # noqa: B905
    return "".join(line + "\n" for line in lines)


def list_json(state: dict[str, Any], drives: list[dict[str, Any]]) -> str:
    """Nested since 2.11: hosts, subsystems, controllers, namespaces."""
    subsystems = []
    for drive in drives:
        lba = lba_of(drive)
        namespace = {
            "NameSpace": drive["namespace"],
            "Generic": "ng" + drive["namespace"][4:],
            "NSID": drive["nsid"],
            "UsedBytes": drive["used"] * lba,
            "MaximumLBA": drive["blocks"],
            "PhysicalSize": drive["blocks"] * lba,
            "SectorSize": lba,
        }
        controller = {
            "Controller": drive["controller"],
            "Cntlid": drive.get("cntlid", "0"),
            "SerialNumber": drive["serial"],
            "ModelNumber": drive["model"],
            "Firmware": drive["firmware"],
            "Transport": "pcie",
            "Address": drive["pci"],
            "Slot": drive.get("slot", ""),
            "Namespaces": [namespace],
            "Paths": [],
        }
        subsystem = {"Subsystem": drive["subsystem"], "SubsystemNQN": drive["nqn"]}
        subsystems.append({**subsystem, "Controllers": [controller], "Namespaces": []})
    host = {"HostNQN": state["hostnqn"], "HostID": state["hostid"], "Subsystems": subsystems}
    return json_text({"Devices": [host] if drives else []}) + "\n"


def subsystems_json(state: dict[str, Any], drives: list[dict[str, Any]]) -> str:
    found = []
    for drive in drives:
        path = {"Name": drive["controller"], "Transport": "pcie", "Address": drive["pci"], "State": "live"}
        found.append({"Name": drive["subsystem"], "NQN": drive["nqn"], "Paths": [path]})
    hosts = [{"HostNQN": state["hostnqn"], "HostID": state["hostid"], "Subsystems": found}] if drives else []
    return json_text(hosts) + "\n"


def subsystems_text(state: dict[str, Any], drives: list[dict[str, Any]]) -> str:
    lines = []
    for drive in drives:
        lines.append("%s - NQN=%s" % (drive["subsystem"], drive["nqn"]))
        lines.append("%*s   hostnqn=%s" % (len(drive["subsystem"]), "", state["hostnqn"]))
        lines += ["\\", " +- %s pcie %s live" % (drive["controller"], drive["pci"])]
    return "".join(line + "\n" for line in lines)


def padded(drive: dict[str, Any]) -> dict[str, Any]:
    """Identify Controller, in the order of the specification; the strings are padded with blanks there."""
    texts = {"sn": "%-20s" % drive["serial"], "mn": "%-40s" % drive["model"], "fr": "%-8s" % drive["firmware"]}
    return {key: texts.get(key, value) for key, value in drive["id_ctrl"].items()}


HEX_FIELDS = frozenset((
    "vid", "ssvid", "cmic", "cntlid", "ver", "rtd3r", "rtd3e", "oaes", "ctratt", "rrls", "oacs", "frmw", "lpa",
    "avscc", "apsta", "rpmbs", "hctma", "sanicap", "sqes", "cqes", "oncs", "fuses", "fna", "vwc", "ocfs", "sgls",
))  # fmt: skip


def id_ctrl(drive: dict[str, Any], as_json: bool) -> str:
    fields = padded(drive)
    if as_json:
        return json_text(fields, colon=drive.get("json_colon", ":")) + "\n"
    lines = ["NVME Identify Controller:"]
    for key, value in fields.items():
        if key == "psds":
            continue
        if key == "ieee":
            value = "%06x" % value
        lines.append("%-10s: %s" % (key, "%#x" % value if key in HEX_FIELDS else value))
    return "\n".join(lines) + "\n"


def id_ns_fields(drive: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"nsze": drive["blocks"], "ncap": drive["blocks"], "nuse": drive["used"]}
    fields.update({"nsfeat": 0, "nlbaf": len(drive["formats"]) - 1, "flbas": drive["flbas"]})
    fields.update(dict.fromkeys(("mc", "dpc", "dps", "nmic", "rescap", "fpi"), 0))
    fields["dlfeat"] = 9  # deallocated blocks read as zero, and Write Zeroes can deallocate: what a loop device does
    fields.update(dict.fromkeys(("nawun", "nawupf", "nacwu", "nabsn", "nabo", "nabspf", "noiob"), 0))
    fields["nvmcap"] = drive["capacity"]
    fields.update(dict.fromkeys(("mssrl", "mcl", "msrc", "kpios", "nulbaf", "kpiodaag", "anagrpid", "nsattr"), 0))
    fields.update({"nvmsetid": 0, "endgid": 0, "nguid": drive["nguid"], "eui64": drive["eui64"]})
    return fields


def id_ns_json(drive: dict[str, Any]) -> str:
    formats = [{"ms": lbaf["ms"], "ds": lbaf["ds"], "rp": lbaf["rp"]} for lbaf in drive["formats"]]
    return json_text({**id_ns_fields(drive), "lbafs": formats, "vs": []}) + "\n"


def hash_hex(number: int) -> str:
    """printf's %#x, which writes zero as 0."""
    return "%#x" % number if number else "0"


def id_ns_text(drive: dict[str, Any], human: bool) -> str:
    lines = ["NVME Identify Namespace %d:" % drive["nsid"]]
    sizes = {"nsze": "Total size", "ncap": "Maximum size", "nuse": "Current size"}
    hexadecimal = ("nsze", "ncap", "nuse", "nsfeat", "flbas", "mc", "dpc", "dps", "nmic", "rescap", "fpi")
    for key, value in id_ns_fields(drive).items():
        text = hash_hex(value) if key in hexadecimal else "%s" % value
        note = "\t%s in logical blocks" % sizes[key] if human and key in sizes else ""
        lines.append("%s: %s%s" % ("nsattr\t" if key == "nsattr" else "%-8s" % key, text, note))
        if human:
            lines += explained(key, value)
    lines += [lba_format(i, lbaf, i == drive["flbas"] & 0xF, human) for i, lbaf in enumerate(drive["formats"])]
    return "\n".join(lines) + "\n"


def lba_format(index: int, lbaf: dict[str, Any], in_use: bool, human: bool) -> str:
    mark = "(in use)" if in_use else ""
    if human:
        return "LBA Format %2d : Metadata Size: %-3d bytes - Data Size: %-2d bytes - Relative Performance: %s %s %s" % (
            index, lbaf["ms"], 1 << lbaf["ds"], hash_hex(lbaf["rp"]), PERFORMANCE[lbaf["rp"]], mark,
        )  # fmt: skip
    return "lbaf %2d : ms:%-3d lbads:%-2d rp:%s %s" % (index, lbaf["ms"], lbaf["ds"], hash_hex(lbaf["rp"]), mark)


WARNINGS = (
    ("available_spare", "Available Spare[0]             "),
    ("temp_threshold", "Temp. Threshold[1]             "),
    ("reliability_degraded", "NVM subsystem Reliability[2]   "),
    ("ro", "Read-only[3]                   "),
    ("vmbu_failed", "Volatile mem. backup failed[4] "),
    ("pmr_ro", "Persistent Mem. RO[5]          "),
)
UNIT_ROWS = (("data_units_read", "Data Units Read\t\t\t\t"), ("data_units_written", "Data Units Written\t\t\t"))
SMART_ROWS = (
    ("host_read_commands", "\t\t\t"), ("host_write_commands", "\t\t\t"), ("controller_busy_time", "\t\t\t"),
    ("power_cycles", "\t\t\t\t"), ("power_on_hours", "\t\t\t\t"), ("unsafe_shutdowns", "\t\t\t"),
    ("media_errors", "\t\t\t\t"), ("num_err_log_entries", "\t\t\t"),
)  # fmt: skip


def smart_log(drive: dict[str, Any], as_json: bool, human: bool) -> str:
    smart = drive["smart"]
    if as_json:
        fields = dict(smart)
        if human:
            bits = {name: smart["critical_warning"] >> i & 1 for i, (name, _) in enumerate(WARNINGS)}
            fields["critical_warning"] = {"value": smart["critical_warning"], **bits}
        return json_text(fields, colon=drive.get("json_colon", ":")) + "\n"
    name = drive["controller"]
    lines = ["Smart Log for NVME device:%s namespace-id:%x" % (name, 0xFFFFFFFF)]
    lines.append("critical_warning\t\t\t: %s" % hash_hex(smart["critical_warning"]))
    if human:
        lines += ["      %s: %d" % (text, smart["critical_warning"] >> i & 1) for i, (_, text) in enumerate(WARNINGS)]
    lines.append("temperature\t\t\t\t: " + degrees(smart["temperature"]))
    lines.append("available_spare\t\t\t\t: %d%%" % smart["avail_spare"])
    lines.append("available_spare_threshold\t\t: %d%%" % smart["spare_thresh"])
    lines.append("percentage_used\t\t\t\t: %d%%" % smart["percent_used"])
    lines.append("endurance group critical warning summary: 0")
    for key, title in UNIT_ROWS:
        lines.append("%s: %d (%.2f %sB)" % (title, smart[key], *si(smart[key] * 512000.0)))
    lines += ["%s%s: %d" % (key, tabs, smart[key]) for key, tabs in SMART_ROWS]
    lines.append("Warning Temperature Time\t\t: %d" % smart["warning_temp_time"])
    lines.append("Critical Composite Temperature Time\t: %d" % smart["critical_comp_time"])
    sensors = sorted(key for key in smart if key.startswith("temperature_sensor_"))
    lines += ["Temperature Sensor %s\t\t\t: %s" % (key[19:], degrees(smart[key])) for key in sensors]
    lines += ["Thermal Management T%d Trans Count\t: %d" % (i, smart["thm_temp%d_trans_count" % i]) for i in (1, 2)]
    lines += ["Thermal Management T%d Total Time\t: %d" % (i, smart["thm_temp%d_total_time" % i]) for i in (1, 2)]
    return "\n".join(lines) + "\n"


def degrees(kelvin: int) -> str:
    return "%d °C (%d K)" % (kelvin - 273, kelvin)
