"""The cache drives of a role: how many, which model, how they are formatted, and how they are."""

from collections import Counter
from collections.abc import Iterator

from kvctl.fleet.checks.outcome import Outcome, Place, judged, listed, not_applicable, not_known, unclear
from kvctl.fleet.checks.parity import vote
from kvctl.fleet.checks.pcie import at_full
from kvctl.fleet.checks.registry import check, each_drive, each_host
from kvctl.fleet.checks.scope import CacheDrive, Fleet, Host, cache_drives
from kvctl.types.facts import Fact, Namespace
from kvctl.types.findings import Remedy, Severity

WARNING = Severity.WARNING


@check(
    id="nvme.count",
    severity=Severity.CRITICAL,
    title="Every cache drive is there",
    reads=("drives", "drive.serial", "drive.transport"),
    right="the role's drives.serials, and as many as drives.count says",
    remedy=Remedy(text="Reseat or replace the missing drive of {node}; when it was replaced, correct the serials."),
    notes="Local PCIe drives only: NVMe over Fabrics namespaces share serials and are not the node's own.",
)
@each_host
def count(host: Host, fleet: Fleet) -> Outcome:
    policy = host.role.drives
    if policy is None:
        return not_applicable("the role has no cache drives")
    drives = cache_drives(host)
    unread = [f for d in drives for f in (d.drive.serial, d.drive.transport) if f.or_none() is None]
    if unread:
        return not_known(*unread, expected=policy.count if policy.count is not None else "")
    seen = [str(d.drive.serial.value) for d in drives]
    if policy.count is not None:
        return judged(len(drives) == policy.count, named(seen), policy.count)
    if policy.serials:
        return all_listed(host, fleet, seen)
    if not drives:
        return unclear("the role has cache drives, says neither count nor serials, and the node shows none")
    return not_applicable(f"the role says neither count nor serials; judged as cache drives: {named(seen)}")


def all_listed(host: Host, fleet: Fleet, seen: list[str]) -> Outcome:
    """Serials are listed for a role, not for a node: a serial that no node of the role shows is missing somewhere."""
    role = host.node.role
    serials = host.role.drives.serials if host.role.drives else ()
    found = {d.drive.serial.value for d in fleet.drives if d.host.node.role == role}
    absent = [s for s in serials if s not in found]
    if not absent:
        return judged(True, named(seen), "every listed serial on a node of the role")
    if sum(n.role == role for n in fleet.inventory.nodes) == 1:
        return judged(False, named(seen), f"also {listed(absent)}")
    return unclear(f"no node of the role shows {listed(absent)}; drives.count would say where they belong")


def named(serials: list[str]) -> str:
    return f"{len(serials)}: {listed(serials)}"


@check(
    id="nvme.state",
    severity=Severity.CRITICAL,
    title="The drive's controller is live",
    reads=("drive.state",),
    right="live",
    remedy=Remedy(
        text="Read the kernel log for {subject}; reset it once, and replace the drive when it does not come back."
    ),
)
@each_drive
def state(drive: CacheDrive, fleet: Fleet) -> Outcome:
    seen = drive.drive.state
    return not_known(seen) if seen.or_none() is None else judged(seen.value == "live", seen.value, "live", seen)


@check(
    id="nvme.model",
    severity=Severity.CRITICAL,
    title="The drive is the role's model",
    reads=("drive.model",),
    right="the role's drives.model",
    remedy=Remedy(text="Replace drive {subject} by the role's model, or give the node a role of its own."),
    after=("nvme.state",),
)
@each_drive
def model(drive: CacheDrive, fleet: Fleet) -> Outcome:
    wanted, seen = drive.policy.model, drive.drive.model
    if not wanted:
        return not_applicable("the role allows any model")
    if seen.or_none() is None:
        return not_known(seen, expected=wanted)
    return judged((seen.value or "").strip() == wanted.strip(), seen.value, wanted, seen)


@check(
    id="nvme.firmware",
    severity=WARNING,
    title="The drive runs the right firmware",
    reads=("drive.firmware",),
    also=("drive.model",),
    right="the role's drives.firmware; without it, what the majority of the same model runs",
    remedy=Remedy(
        text="Update drive {subject} by the vendor's image (nvme fw-download, fw-commit), then reset or power-cycle it."
    ),
    after=("nvme.state", "nvme.model"),
)
@each_drive
def firmware(drive: CacheDrive, fleet: Fleet) -> Outcome:
    seen, model = drive.drive.firmware, drive.drive.model
    version = seen.or_none()
    if version is None:
        return not_known(seen, expected=drive.policy.firmware)
    if drive.policy.firmware:
        return judged(version.strip() == drive.policy.firmware.strip(), version, drive.policy.firmware, seen)
    if model.or_none() is None:
        return not_known(model)
    equals = [d for d in fleet.drives if d.drive.model.or_none() == model.value]
    ballots = [(d.place[1], d.drive.firmware.value) for d in equals if d.drive.firmware.or_none() is not None]
    result = vote(ballots, "drives")
    if result.expected is None:
        return unclear(result.why, seen, model, observed=version)
    return judged(version == result.expected, version, result.expected, seen, model, why=result.why)


@check(
    id="nvme.ns",
    severity=Severity.CRITICAL,
    title="One namespace a drive, of the size that its equals have",
    reads=("drive.namespaces", "ns.size"),
    also=("drive.model",),
    right="one namespace; its size is that of the majority of the same model",
    remedy=Remedy(
        text="Delete and create the namespaces of {subject} (nvme delete-ns, create-ns): this destroys its data.",
        destroys_data=True,
    ),
    after=("nvme.state", "nvme.model"),
    notes="A smaller namespace for over-provisioning is fine when all drives of the model have it.",
)
@each_drive
def namespaces(drive: CacheDrive, fleet: Fleet) -> Outcome:
    have = drive.drive.namespaces
    if len(have) != 1:
        return judged(False, f"{len(have)} namespaces", "1 namespace", alone=len(have) > 1)
    size, model = have[0].size, drive.drive.model
    if size.or_none() is None:
        return not_known(size)
    equals = [d for d in fleet.drives if model.or_none() and d.drive.model.or_none() == model.value]
    ballots = [(d.place[1], mebibytes(n.size)) for d in equals for n in d.drive.namespaces if n.size.or_none()]
    seen = f"1 namespace of {size.value} bytes"
    if len(ballots) < 2:
        return judged(True, seen, "1 namespace", size, why="no other drive of this model to compare the size with")
    result = vote(ballots, "drives")
    if result.expected is None:
        return unclear(result.why, size, model, observed=seen)
    wanted = f"1 namespace of about {int(str(result.expected))} MiB"
    return judged(mebibytes(size) == result.expected, seen, wanted, size, model)


def mebibytes(size: Fact[int]) -> int:
    """Sizes differ by a few blocks between LBA formats: compare whole MiB."""
    return round((size.value or 0) / 2**20)


@check(
    id="nvme.lba",
    severity=Severity.CRITICAL,
    title="The namespace has the role's LBA size and no metadata",
    reads=("ns.lba", "ns.metadata"),
    also=("ns.formats", "drive.format_supported"),
    right="drives.lba bytes of data, 0 of metadata",
    remedy=Remedy("nvme", "nvme format --lbaf=N on drive {subject}: this destroys its data", destroys_data=True),
    after=("nvme.state", "nvme.ns"),
)
@each_drive
def lba(drive: CacheDrive, fleet: Fleet) -> Outcome:
    wanted, have = drive.policy.lba, drive.drive.namespaces
    if not have:
        return unclear("the drive has no namespace")
    facts = tuple(f for ns in have for f in (ns.lba, ns.metadata))
    shown = "; ".join(lba_text(ns) for ns in have)
    wrong = any(
        (ns.lba.or_none() is not None and ns.lba.value != wanted) or (ns.metadata.or_none() or 0) != 0 for ns in have
    )
    if not wrong and any(f.or_none() is None for f in facts):
        return not_known(*facts)
    return judged(not wrong, shown, f"{wanted} + 0", *facts, remedy=format_remedy(drive) if wrong else None)


def lba_text(ns: Namespace) -> str:
    lba, metadata = ns.lba.or_none(), ns.metadata.or_none()
    return f"{'?' if lba is None else lba} + {'?' if metadata is None else metadata}"


def format_remedy(drive: CacheDrive) -> Remedy | None:
    """Hands, not a role, for a drive that cannot be formatted or does not have the format."""
    serial, wanted = drive.place[1], drive.policy.lba
    if drive.drive.format_supported.or_none() is False:
        return Remedy(text=f"Drive {serial} does not support Format NVM: use the vendor's tool or replace it.")
    for ns in drive.drive.namespaces:
        formats = ns.formats.or_none()
        if formats and not any(f.data_size == wanted and f.metadata == 0 for f in formats):
            return Remedy(text=f"Drive {serial} has no format of {wanted} + 0 bytes: replace it or change drives.lba.")
    return None


# Bits of byte 0 of the NVMe SMART log.
BITS = {
    0: "spare below threshold", 1: "temperature", 2: "reliability degraded", 3: "read only",
    4: "volatile memory backup failed", 5: "persistent memory region",
}  # fmt: skip
WORN, PLAN = 100, 80  # percent of rated endurance


@check(
    id="nvme.wear",
    severity=WARNING,
    title="The drive is not worn out and reports no error",
    reads=("drive.smart",),
    right="no critical warning, spare above its threshold, no media error, less than 80 % used",
    remedy=Remedy(text="Plan the replacement of drive {subject}; now, when the finding is critical."),
    after=("nvme.state",),
    notes="Spare at its threshold, read only and failed backup are critical. Endurance used up (percent_used 80 and "
    "more, also above 100) is a warning, even with the reliability bit that some drives set for it alone.",
)
@each_drive
def wear(drive: CacheDrive, fleet: Fleet) -> Outcome:
    smart = drive.drive.smart.or_none()
    if smart is None:
        return not_known(drive.drive.smart)
    set_bits = {bit for bit in range(8) if smart.critical_warning >> bit & 1}
    only_worn = smart.percent_used >= WORN and smart.available_spare > smart.spare_threshold and not smart.media_errors
    faults = [BITS.get(bit, f"critical warning bit {bit}") for bit in sorted(set_bits)]
    severe = bool(set_bits - {1} - ({2} if only_worn else set()))
    if smart.available_spare <= smart.spare_threshold:
        severe = True
        faults.append(f"spare {smart.available_spare} % <= {smart.spare_threshold} %")
    if smart.media_errors:
        faults.append(f"{smart.media_errors} media errors")
    if smart.percent_used >= PLAN:
        faults.append(f"{smart.percent_used} % used")
    seen = "; ".join(dict.fromkeys(faults)) or f"{smart.percent_used} % used, spare {smart.available_spare} %"
    severity = Severity.CRITICAL if severe else WARNING
    return judged(not faults, seen, f"no warning, < {PLAN} % used", drive.drive.smart, severity=severity)


@check(
    id="nvme.link",
    severity=Severity.CRITICAL,
    title="The drive has all its PCIe lanes and speed",
    reads=("drive.pcie.current_width", "drive.pcie.max_width", "drive.pcie.current_speed", "drive.pcie.max_speed"),
    right="current width and speed = the drive's maximum",
    remedy=Remedy(text="Reseat drive {subject}, its cable or backplane; check the slot's settings in firmware."),
    after=("nvme.state",),
)
@each_drive
def link(drive: CacheDrive, fleet: Fleet) -> Outcome:
    return at_full(drive.drive.pcie)


@check(
    id="nvme.id",
    severity=Severity.CRITICAL,
    title="The drive has an identity of its own",
    reads=("drive.serial", "ns.wwid"),
    right="a serial and namespace ids that are not zero and that no other drive of the fleet has",
    remedy=Remedy(
        text="Name drive {subject} by serial in every file; update or replace a drive with a bogus identifier."
    ),
    after=("nvme.ns",),
    notes="Mounts and fstab lines are not read yet: kvctl's own mounts go by UUID.",
)
def identity(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
    serials = Counter(d.drive.serial.value for d in fleet.drives if d.drive.serial.or_none())
    wwids = Counter(ns.wwid.value for d in fleet.drives for ns in d.drive.namespaces if ns.wwid.or_none() is not None)
    yield from each_drive(lambda drive, _: own_identity(drive, serials, wwids))(fleet)


def own_identity(drive: CacheDrive, serials: Counter[str | None], wwids: Counter[str | None]) -> Outcome:
    serial, ids = drive.drive.serial, [ns.wwid for ns in drive.drive.namespaces]
    if any(f.or_none() is None for f in (serial, *ids)):
        return not_known(serial, *ids)
    if not ids:
        return unclear("the drive has no namespace", serial)
    faults = []
    if not (serial.value or "").strip():
        faults.append("empty serial")
    elif serials[serial.value] > 1:
        faults.append(f"serial {serial.value} on {serials[serial.value]} drives")
    faults += [f"{f.value} is zero" for f in ids if is_zero(f.value or "")]
    faults += [
        f"{f.value} on {wwids[f.value]} namespaces" for f in ids if wwids[f.value] > 1 and not is_zero(f.value or "")
    ]
    seen = "; ".join(faults) or f"{serial.value}, {listed(f.value for f in ids)}"
    return judged(not faults, seen, "unique and not zero", serial, *ids)


def is_zero(wwid: str) -> bool:
    """eui.0000000000000000, uuid.00000000-..., or nothing at all."""
    digits = wwid.rpartition(".")[2].replace("-", "")
    return not digits.strip("0")


@check(
    id="nvme.queue",
    severity=WARNING,
    title="The kernel does not reorder the drive's requests",
    reads=("ns.scheduler", "ns.rotational"),
    right="scheduler none, rotational 0",
    remedy=Remedy("nvme", 'A udev rule for serial {subject}: ATTR{{queue/scheduler}}="none"'),
    after=("nvme.state", "nvme.ns"),
    notes="The write cache and the time-out are read and not judged: the inventory states no value for them.",
)
@each_drive
def queue(drive: CacheDrive, fleet: Fleet) -> Outcome:
    have = drive.drive.namespaces
    if not have:
        return unclear("the drive has no namespace")
    facts = tuple(f for ns in have for f in (ns.scheduler, ns.rotational))
    if any(f.or_none() is None for f in facts):
        return not_known(*facts)
    right = all(ns.scheduler.value == "none" and ns.rotational.value is False for ns in have)
    seen = "; ".join(
        f"{ns.scheduler.value}, {'rotational' if ns.rotational.value else 'not rotational'}" for ns in have
    )
    return judged(right, seen, "none, not rotational", *facts)
