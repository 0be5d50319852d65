"""Purge a drive before it leaves (NIST SP 800-88): sanitize, or format with secure erase; the record says which."""

from __future__ import annotations

import re
import time
from typing import Any, Dict, List, Optional, Tuple

from . import kvctl_nvme_state
from .kvctl_command import argv, execute, run
from .kvctl_files import write_json
from .kvctl_job import Report
from .kvctl_nvme import Content
from .kvctl_refused import Refused
from .tools import ToolOutputError, nvme

RECORDS = "/var/lib/kvctl/sanitize"
SECONDS = 24 * 3600.0
BLOCK_ERASE, CRYPTO_ERASE = 2, 4  # SANACT of the NVMe sanitize command
DONE, RUNNING, FAILED = 1, 2, 3  # SSTAT bits 2:0 of the sanitize log page


def record_path(serial: str) -> str:
    return "%s/%s.json" % (RECORDS, re.sub(r"[^A-Za-z0-9_.-]", "_", serial))


def methods(identity: Any) -> List[Tuple[str, Dict[str, int]]]:
    """What the controller says it can do, strongest first: (name, {"sanact" or "ses": code})."""
    able = [
        ("sanitize crypto erase", {"sanact": CRYPTO_ERASE}, identity.sanitize_crypto),
        ("sanitize block erase", {"sanact": BLOCK_ERASE}, identity.sanitize_block),
        ("format with crypto erase", {"ses": 2}, identity.crypto_erase and identity.format_supported),
        ("format with user data erase", {"ses": 1}, identity.format_supported),
    ]
    return [(name, code) for name, code, can in able if can]


def refuse(serial: str, content: Content, approved: List[str]) -> None:
    if content.mounts or content.holders:
        where = ", ".join(content.mounts + content.holders)
        raise Refused(
            "KV-NVME-011", "drive %s is in use by %s" % (serial, where), "unmount it or stop its holder first"
        )
    if serial not in approved:
        raise Refused("KV-NVME-030", "drive %s is not named for sanitizing" % serial, "name its serial")


def identity_of(controller: str) -> Any:
    output = run(["nvme", "id-ctrl", "/dev/" + controller, "-o", "json"])
    try:
        return nvme.parse_id_ctrl(output.out)
    except ToolOutputError as error:
        raise Refused("KV-NVME-031", "nvme id-ctrl /dev/%s: %s" % (controller, error), "install nvme-cli") from None


def work(payload: Dict[str, Any], report: Report) -> Dict[str, Any]:
    serials = [wanted["serial"] for wanted in payload["drives"]]
    for serial in serials:
        namespace = kvctl_nvme_state.find(serial)[1]
        content, _ = kvctl_nvme_state.read_content("/dev/" + namespace, namespace)
        refuse(serial, content, payload["approved"])
    for serial in serials:
        purge(serial, payload, report)
    return {"changed": bool(serials), "detail": "sanitized %s" % ", ".join(serials)}


def purge(serial: str, payload: Dict[str, Any], report: Report) -> None:
    controller, namespace = kvctl_nvme_state.find(serial)
    able = methods(identity_of(controller))
    if not able:
        raise Refused("KV-NVME-032", "drive %s can neither sanitize nor format" % serial, "destroy it physically")
    name, code = able[0]
    record = {"serial": serial, "method": name, "run": payload["key"], "started": utc(), "state": "running"}
    write_json(record_path(serial), record)
    report(detail="%s of %s" % (name, serial), changed=True)
    try:
        if "sanact" in code:
            execute([argv("nvme", "sanitize", "/dev/" + controller, "--sanact=%d" % code["sanact"])], "KV-NVME-033")
            record["status"] = wait_for_log(controller)
        else:
            words = argv("nvme", "format", "/dev/" + namespace, "--ses=%d" % code["ses"], "--force")
            execute([words], "KV-NVME-033", SECONDS)
    except Refused as refused:
        write_json(record_path(serial), dict(record, state="failed", why=str(refused), ended=utc()))
        raise
    write_json(record_path(serial), dict(record, state="done", ended=utc()))


def utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def wait_for_log(controller: str) -> str:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        status = sanitize_status(run(["nvme", "sanitize-log", "/dev/" + controller, "-o", "json"]).out)
        if status == DONE:
            return "completed"
        if status == FAILED:
            raise Refused("KV-NVME-034", "the drive reports a failed sanitize", "run it again, or destroy the drive")
        time.sleep(2.0)  # the log page is the only signal there is
    raise Refused("KV-NVME-035", "sanitize did not end within a day", "see nvme sanitize-log")


def sanitize_status(text: str) -> Optional[int]:
    """SSTAT bits 2:0 of `nvme sanitize-log -o json`; None when the text does not say."""
    match = re.search(r'"sstat"\s*:\s*(?:\{[^}]*?)?"?(0x[0-9a-fA-F]+|\d+)', text)
    return int(match.group(1), 0) & 7 if match else None
