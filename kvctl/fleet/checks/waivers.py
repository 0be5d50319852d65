"""Accepted deviations: by check, node and subject, with a reason and a last day."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase

from kvctl.fleet.inventory.model import Waiver
from kvctl.types.findings import Finding, Verdict


def waived(finding: Finding, waivers: Iterable[Waiver], today: date, allowed: bool) -> Finding:
    """The finding under the first waiver that holds on `today`. One that does not hold is mentioned in `why`."""
    if finding.verdict not in (Verdict.FAIL, Verdict.UNKNOWN):
        return finding
    mine = [w for w in waivers if covers(w, finding)]
    if not mine:
        return finding
    if not allowed:
        return replace(finding, why=joined(finding.why, "this check cannot be waived"))
    holding = next((w for w in mine if today <= w.until), None)
    if holding is None:
        last = max(mine, key=lambda w: w.until)
        return replace(finding, why=joined(finding.why, f"a waiver ended on {last.until}: {last.reason}"))
    why = joined(f"{finding.verdict.value} waived until {holding.until}: {holding.reason}", finding.why)
    return replace(finding, verdict=Verdict.WAIVED, why=why)


def covers(waiver: Waiver, finding: Finding) -> bool:
    return (
        fnmatchcase(finding.check, waiver.check)
        and fnmatchcase(finding.node, waiver.node)
        and fnmatchcase(finding.subject, waiver.subject)
    )


def joined(first: str, second: str) -> str:
    return "; ".join(part for part in (first, second) if part)
