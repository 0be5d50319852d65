"""The inventory: what the operator wrote, typed. Nothing here reads a file; see `load`.

Every field carries its meaning in `description`, from which `kvctl config schema` and the reference page are made.
"""

import re
from datetime import date
from enum import StrEnum
from ipaddress import ip_interface, ip_network
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from kvctl.fleet.inventory.problems import field_name
from kvctl.fleet.inventory.references import find_broken

Priority = Annotated[int, Field(ge=0, le=7)]
Dscp = Annotated[int, Field(ge=0, le=63)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$")]
GroupName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
IfName = Annotated[str, Field(pattern=r"^[^-\s/:][^\s/:]{0,14}$")]
# Neither can be taken for an option of ssh.
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9_:\[][A-Za-z0-9_.:%\[\]-]{0,252}$")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Site(Model):
    """The one place that this inventory describes."""

    name: Name = Field(description="Short name of the site; state is kept under it.")
    country: str = Field("ZZ", pattern=r"^[A-Z]{2}$", description="ISO 3166-1 alpha-2 country of the hardware.")
    entity: str = Field("", description="Legal entity that owns the hardware.")
    lab: bool = Field(False, description="True only for simulated hosts; a site that is not a lab refuses lab nodes.")


class Ets(Model):
    """Bandwidth shares of the traffic classes that are not strict, in percent."""

    lossless: int = Field(50, ge=1, le=100, description="Share of the lossless priority's traffic class.")
    strict: tuple[Priority, ...] = Field((6,), description="Priorities served strictly (the CNP priority).")


class Fabric(Model):
    """The lossless class. Defaults are the common ones; nothing about it is fixed in code."""

    lossless_priority: Priority = Field(3, description="The one priority with PFC.")
    dscp: Dscp = Field(26, description="DSCP of RoCE traffic.")
    cnp_dscp: Dscp = Field(48, description="DSCP of congestion notification packets.")
    cnp_priority: Priority = Field(6, description="Priority of CNPs (Thor2: 7).")
    mtu: int = Field(9000, ge=1500, le=9978, description="Interface MTU of every rail, in bytes.")
    ecn: Literal["dcqcn", "off", "any"] = Field(
        "dcqcn", description="DCQCN on the lossless priority: on, off, or not checked."
    )
    trust: Literal["dscp", "pcp"] = Field("dscp", description="What the NIC classifies by.")
    dcbx: Literal["os", "firmware", "any"] = Field("os", description="Who negotiates DCB.")
    cable_length: int = Field(7, ge=1, le=1000, description="Longest cable in metres; sizes the PFC headroom.")
    buffer_min: int = Field(65536, ge=4096, description="Smallest receive buffer of the lossless priority, in bytes.")
    ets: Ets = Field(Ets(), description="Enhanced transmission selection.")
    switch_vendor: Literal["sonic", "cumulus", "nxos", "eos", "none"] = Field(
        "none", description="Switch operating system."
    )

    @model_validator(mode="after")
    def classes_are_apart(self) -> Self:
        if self.cnp_priority == self.lossless_priority:
            raise ValueError("cnp_priority must differ from lossless_priority")
        if self.cnp_dscp == self.dscp:
            raise ValueError("cnp_dscp must differ from dscp")
        if self.lossless_priority in self.ets.strict:
            raise ValueError("ets.strict must not hold lossless_priority: it has a share, ets.lossless")
        return self


class Firmware(Model):
    """A firmware pin: by PSID, never across PSIDs."""

    version: str = Field(min_length=1, description="Version that must run, as the vendor's tool prints it.")
    image: str = Field("", description="Image file on the controller; without it kvctl checks and never flashes.")
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$", description="Checksum of the image; required with image.")

    @model_validator(mode="after")
    def image_is_pinned(self) -> Self:
        if self.image and not self.sha256:
            raise ValueError("image needs sha256")
        return self


class NicPolicy(Model):
    """What the network cards of a role must be."""

    part_numbers: tuple[str, ...] = Field((), description="Allowed part numbers; empty allows any.")
    firmware: dict[str, Firmware] = Field({}, description="Pins by PSID.")
    count: int | None = Field(None, ge=0, description="Physical NIC functions expected on the rails.")
    nvconfig: dict[str, str] = Field({}, description="Non-volatile settings, such as LINK_TYPE_P1: ETH(2).")


class DriveLayout(StrEnum):
    """What goes on a cache drive's namespace."""

    RAW = "raw"
    XFS = "xfs"
    EXT4 = "ext4"


class DrivePolicy(Model):
    """What the cache drives of a role must be."""

    model: str = Field("", description="Model name every cache drive must have; empty allows any.")
    firmware: str = Field("", description="Drive firmware that must run; empty asks only for one version per model.")
    count: int | None = Field(None, ge=0, description="Cache drives expected.")
    serials: tuple[str, ...] = Field(
        (), description="Cache drives by serial; empty means every local drive that is not excluded."
    )
    exclude_serials: tuple[str, ...] = Field((), description="Drives that are not kvctl's (boot, data).")
    lba: Literal[512, 4096] = Field(4096, description="LBA data size in bytes; metadata is always 0.")
    layout: DriveLayout = Field(DriveLayout.RAW, description="What goes on the namespace.")
    mount_root: str = Field(
        "/srv/kvctl", pattern=r"^/[^\s]*$", description="Where file systems are mounted, by serial."
    )
    discard: Literal["online", "fstrim", "none"] = Field("fstrim", description="Exactly one way to discard.")
    disk_tier: int = Field(
        0,
        ge=0,
        description="How many of the drives, the last ones by serial, hold the store's disk tier; others: flash.",
    )


class Rail(Model):
    """One fabric port of every node in a role, with its subnet."""

    interface: IfName = Field(description="Netdev name.")
    subnet: str = Field("", description="CIDR of the rail; empty: addresses are not checked.")
    speed: int | None = Field(None, gt=0, description="Link speed in Mb/s.")
    gpu: int | None = Field(None, ge=0, description="Index of the GPU that this rail serves.")

    @field_validator("subnet")
    @classmethod
    def is_network(cls, text: str) -> str:
        if text:
            ip_network(text)
        return text


class Role(Model):
    """Expectations shared by the nodes of one role."""

    kind: Literal["storage", "gpu"] = Field(description="What the role's nodes are for.")
    nic: NicPolicy = Field(NicPolicy(), description="NIC part and firmware.")
    drives: DrivePolicy | None = Field(None, description="Cache drives; absent when the role has none.")
    gpus: int | None = Field(None, ge=0, description="GPUs expected.")
    rails: tuple[Rail, ...] = Field((), description="Fabric ports.")
    addressing: Literal["netplan", "networkmanager", "networkd", "none"] = Field(
        "none", description="Who owns the rails' addresses."
    )
    sysctls: dict[str, str] = Field({}, description="Kernel settings owned by kvctl.")

    @model_validator(mode="after")
    def rails_are_apart(self) -> Self:
        names = [rail.interface for rail in self.rails]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"rails name an interface twice: {', '.join(twice)}")
        return self


# Roles that need no definition, so that five lines are an inventory. A definition of the same name replaces one.
BUILT_IN_ROLES = {"storage": Role(kind="storage", drives=DrivePolicy()), "gpu": Role(kind="gpu")}


class Bmc(Model):
    """Out-of-band management of one node."""

    address: Host = Field(description="Redfish address.")
    credentials: str = Field(
        pattern=r"^(file:/[^\s]+|env:[A-Za-z_][A-Za-z0-9_]*)$",
        description="Reference to a secret, such as file:/etc/kvctl/bmc; never the secret itself.",
    )


class Node(Model):
    """One server."""

    name: Name = Field(description="Unique name; lower case letters, digits, dots and dashes.")
    address: Host = Field(description="Host name or address that SSH connects to.")
    role: str = Field(description="Name of a role.")
    pool: str = Field("", description="Name of a pool.")
    failure_domain: str = Field(
        "", pattern=r"^[A-Za-z0-9_. /:-]{0,64}$", description="Rack or other unit that fails together."
    )
    port: int = Field(22, ge=1, le=65535, description="SSH port.")
    user: str = Field(
        "root", pattern=r"^[a-z_][a-z0-9_-]{0,31}$", description="SSH user; others than root use sudo -n."
    )
    addresses: dict[str, str] = Field({}, description="Rail interface -> CIDR address, when kvctl must check it.")
    bmc: Bmc | None = Field(None, description="Baseboard management controller, for power cycles.")

    @field_validator("addresses")
    @classmethod
    def are_interfaces(cls, value: dict[str, str]) -> dict[str, str]:
        for text in value.values():
            ip_interface(text)
        return value


class Pool(Model):
    """Nodes that do one job together; at most `max_unavailable` of them are worked on at once."""

    kind: Literal["storage", "prefill", "decode", "serving"] = Field(description="The pool's job.")
    max_unavailable: int = Field(1, ge=1, description="Nodes of the pool that may be out of service at once.")


class Access(Model):
    """How the controller reaches the nodes."""

    ssh_config: str = Field("", description="OpenSSH client configuration; empty uses the user's own.")
    identity_file: str = Field("", description="Private key file.")
    known_hosts: str = Field("", description="Host keys; empty uses kvctl's own file in the state directory.")
    netns: str = Field(
        "", pattern=r"^[A-Za-z0-9_.-]*$", description="Network namespace on the controller to connect from."
    )
    transport: Literal["paramiko", "system"] = Field("paramiko", description="system runs the ssh binary.")
    connect_timeout: float = Field(10, gt=0, le=120, description="Seconds.")


class Waiver(Model):
    """A finding that is accepted until a day."""

    check: str = Field(description="Check id.")
    node: str = Field("*", description="Node name or glob.")
    subject: str = Field("*", description="Interface, serial, or glob.")
    reason: str = Field(min_length=4, description="Why it is accepted.")
    until: date = Field(description="Last day on which it holds, such as 2027-01-31.")

    @field_validator("until", mode="before")
    @classmethod
    def is_day(cls, value: object) -> object:
        """A number would pass for seconds since 1970, so only a date or its text is one."""
        if isinstance(value, date):
            return value
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value, re.ASCII):
            return date.fromisoformat(value)
        raise ValueError("not a day; allowed: a date such as 2027-01-31")


class Inventory(Model):
    """The whole inventory file."""

    version: Literal[1] = Field(1, description="Version of this format.")
    site: Site = Field(description="The site.")
    access: Access = Field(Access(), description="How the controller reaches the nodes.")
    fabric: Fabric = Field(Fabric(), description="The lossless class of the fabric.")
    roles: dict[GroupName, Role] = Field(
        {}, validate_default=True, description="Roles by name; storage and gpu exist without a definition."
    )
    pools: dict[GroupName, Pool] = Field({}, description="Pools by name.")
    nodes: tuple[Node, ...] = Field(min_length=1, description="Nodes.")
    waivers: tuple[Waiver, ...] = Field((), description="Findings that are accepted until a day.")

    @field_validator("version", mode="before")
    @classmethod
    def is_number(cls, value: object) -> object:
        """A literal 1 would accept true and 1.0, which equal it."""
        if type(value) is not int:
            raise ValueError("not a whole number; allowed: 1")
        return value

    @field_validator("roles")
    @classmethod
    def with_built_in(cls, value: dict[str, Role]) -> dict[str, Role]:
        return {**BUILT_IN_ROLES, **value}

    @model_validator(mode="after")
    def references_hold(self) -> Self:
        if broken := next(find_broken(self.model_dump(), BUILT_IN_ROLES), None):
            raise ValueError(f"{field_name(broken.path)}: {broken.problem}")
        return self

    def node(self, name: str) -> Node | None:
        return next((n for n in self.nodes if n.name == name), None)

    def role_of(self, node: Node) -> Role:
        return self.roles[node.role]
