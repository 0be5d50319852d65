"""Above the drives: md arrays and how free space is told to the drive."""

from kvctl.fleet.checks.outcome import Outcome, judged, not_applicable, not_known, unclear
from kvctl.fleet.checks.registry import check, each_drive, each_host
from kvctl.fleet.checks.scope import CacheDrive, Fleet, Host
from kvctl.fleet.inventory.model import DriveLayout
from kvctl.types.facts import Contents
from kvctl.types.findings import Remedy, Severity

TIMER = "fstrim.timer"
AT_REST = ("idle", "none")  # levels without redundancy have nothing to synchronise


@check(
    id="md.sync",
    severity=Severity.WARNING,
    title="No md array is synchronising",
    reads=("host.md_arrays",),
    right="sync_action idle on every array",
    remedy=Remedy(
        text="Let the synchronisation on {node} end (cat /proc/mdstat), limit it by dev.raid.speed_limit_max, and move "
        "the monthly check out of service hours (mdcheck_start.timer)."
    ),
)
@each_host
def sync(host: Host, fleet: Fleet) -> Outcome:
    arrays = host.facts.host.md_arrays.or_none()
    if arrays is None:
        return not_known(host.facts.host.md_arrays)
    if not arrays:
        return not_applicable("the node has no md array")
    if not all(arrays.values()):
        return unclear("an array does not show its sync_action", host.facts.host.md_arrays)
    seen = ", ".join(f"{name} {action}" for name, action in sorted(arrays.items()))
    return judged(all(a in AT_REST for a in arrays.values()), seen, "idle", host.facts.host.md_arrays)


@check(
    id="fs.discard",
    severity=Severity.WARNING,
    title="Free space is told to the drives in exactly one way",
    reads=("host.services",),
    right="fstrim.timer active and enabled with drives.discard fstrim; inactive with online or none",
    remedy=Remedy("host", "systemctl enable --now fstrim.timer with drives.discard fstrim; else disable --now"),
    notes="Mount options are not read yet, so a discard mount beside the timer is not seen.",
)
@each_host
def discard(host: Host, fleet: Fleet) -> Outcome:
    policy = host.role.drives
    if policy is None or policy.layout is DriveLayout.RAW:
        return not_applicable("the role has no file system on cache drives")
    services = host.facts.host.services.or_none()
    if services is None:
        return not_known(host.facts.host.services)
    # The facts list every unit that the node has, so a timer that is not listed is not installed.
    timer = services.get(TIMER)
    wanted = policy.discard == "fstrim"
    runs = timer is not None and timer.active == "active"
    right = (runs and timer is not None and timer.enabled.startswith("enabled")) if wanted else not runs
    seen = "not installed" if timer is None else f"{timer.active}, {timer.enabled}"
    return judged(right, seen, "active, enabled" if wanted else "inactive", host.facts.host.services)


@check(
    id="fs.layout",
    severity=Severity.WARNING,
    title="The namespace carries what the role says, and nothing else",
    reads=("ns.contents",),
    right="drives.layout raw: nothing; xfs or ext4: that file system, mounted on mount_root/SERIAL",
    remedy=Remedy("nvme", "Make and mount the file system on drive {subject}"),
    after=("nvme.state", "nvme.ns", "nvme.lba"),
    notes="A drive that carries something else is never overwritten without its serial being named: repaired by hand.",
)
@each_drive
def layout(drive: CacheDrive, fleet: Fleet) -> Outcome:
    if len(drive.drive.namespaces) != 1:
        return unclear("the drive has not exactly one namespace")
    fact = drive.drive.namespaces[0].contents
    seen = fact.or_none()
    if seen is None:
        return not_known(fact)
    if drive.policy.layout is DriveLayout.RAW:
        return judged(seen.empty, carried(seen), "nothing", fact, remedy=by_hand(drive))
    wanted, mount = drive.policy.layout.value, f"{drive.policy.mount_root}/{drive.place[1]}"
    right = seen.fstype == wanted and seen.mounts == (mount,) and not (seen.partitions or seen.holders)
    # An empty drive, or the right file system unmounted, is the role's work; anything else belongs to somebody.
    ours = seen.empty or (seen.fstype == wanted and not seen.mounts and not seen.partitions and not seen.holders)
    return judged(right, carried(seen), f"{wanted} on {mount}", fact, remedy=None if right or ours else by_hand(drive))


def by_hand(drive: CacheDrive) -> Remedy:
    serial = drive.place[1]
    return Remedy(text=f"Look at what drive {serial} carries: exclude it (drives.exclude_serials), or wipe it by hand.")


def carried(contents: Contents) -> str:
    if contents.empty:
        return "nothing"
    found = [contents.fstype, *contents.signatures, *contents.partitions, *contents.holders]
    named = ", ".join(dict.fromkeys(name for name in found if name)) or "something unnamed"
    return f"{named} on {', '.join(contents.mounts)}" if contents.mounts else named
