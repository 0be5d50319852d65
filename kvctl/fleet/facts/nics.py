"""Physical network interfaces: identity, firmware, link, and the state of the lossless class."""

import re
from typing import Any

from kvctl.fleet.facts import pci, vpd
from kvctl.fleet.facts.qos import ecn, qos
from kvctl.fleet.facts.raw import Raw, convert, field, first
from kvctl.fleet.facts.rdma import device_of, rdma_port
from kvctl.types.facts import NOT_LOOKED_FOR, Fact, Nic, NvConfig, Pause, unknown

_PSID_IN_VERSION = re.compile(r"(\S+) \(([A-Z]{2,4}_?\w{5,16})\)")
_NO_VERSION = "the driver reports no version"
_NUMBERS = re.compile(r"\d+")
_MASTERS = ("bond", "team", "bridge", "openvswitch")


def nics(raw: Raw) -> tuple[Nic, ...]:
    """Interfaces that sit on a PCI function; bonds, bridges, VLANs and tunnels are not NICs."""
    carriers = _carriers(raw)
    found = []
    for netdev in sorted(raw.table("net")):
        address, handle = raw.at("net", netdev, "device"), raw.at("net", netdev, "handle")
        address = address if isinstance(address, str) and pci.ADDRESS.fullmatch(address) else None
        simulator = isinstance(handle, str) and handle.startswith("netdevsim/")
        if (address or simulator) and raw.at("net", netdev, "kind") not in _MASTERS:
            found.append(_nic(raw, netdev, address, handle if simulator else f"pci/{address}", carriers))
    return tuple(found)


def _nic(raw: Raw, netdev: str, address: str | None, handle: str, carriers: Fact[frozenset[str]]) -> Nic:
    driver = _driver(raw, netdev, address)
    name = driver.or_none() or ""
    card = _Card(raw, netdev, address or "", handle, name)
    place = f"/sys/class/net/{netdev}/device"
    return Nic(
        netdev=netdev,
        pci=raw.fact(address, place) if address else unknown("the interface is not on PCI", place),
        driver=driver,
        mac=raw.text("net", netdev, "mac"),
        vendor_id=pci.identifier(raw, address, "vendor"),
        device_id=pci.identifier(raw, address, "device"),
        part_number=card.part_number(),
        serial=card.serial(),
        psid=card.psid(),
        fw_running=card.running(),
        fw_stored=card.stored(),
        fw_components=card.components(),
        virtual_function=_virtual(raw, netdev),
        numa=pci.numa(raw, address),
        pcie=pci.pcie_link(raw, address),
        mtu=raw.number("net", netdev, "mtu", high=1 << 20),
        operstate=raw.text("net", netdev, "operstate"),
        carrier=raw.flag("net", netdev, "carrier"),
        carrier_changes=raw.number("net", netdev, "carrier_changes"),
        speed=_speed(raw, netdev),
        addresses=_addresses(raw, netdev),
        carries_ssh=convert(carriers, lambda names: netdev in names),
        pause=_pause(raw, netdev),
        fec=raw.text("net", netdev, "ethtool", "fec"),
        priv_flags=first(
            convert(raw.answer("ethtool.priv_flags:" + netdev, "ethtool", "parse_priv_flags", "ethtool"), _flags),
            convert(raw.leaf("net", netdev, "ethtool", "private_flags"), _flags),
        ),
        counters=_counters(raw, netdev),
        nvconfig=_nvconfig(raw, card.flash),
        qos=qos(raw, netdev, name, address or ""),
        ecn=ecn(raw, netdev),
        rdma=rdma_port(raw, netdev, name),
    )


class _Card:
    """Identity and firmware of the card that a function belongs to. Its functions share flash, part and serial."""

    def __init__(self, raw: Raw, netdev: str, address: str, handle: str, driver: str) -> None:
        self._raw, self._netdev, self._driver = raw, netdev, driver
        self.flash = _card_key(raw, "mstflint.query", address)
        self._flint = raw.answer("mstflint.query:" + self.flash, "mstflint", "parse_query", "mstflint", "flint")
        self._manager = _one(
            raw.answer("mlxfwmanager.query", "mlxfwmanager", "parse_query", "mlxfwmanager"), "pci", self.flash, address
        )
        self._devlink = _one(raw.answer("devlink.info", "devlink", "parse_info", "devlink"), "handle", handle)
        self._driver_info = raw.answer("ethtool.driver:" + netdev, "ethtool", "parse_driver", "ethtool")
        vital = raw.output("vpd_hex:" + _card_key(raw, "vpd_hex", address))
        self._vpd = convert(vital, _decoded, "the vital product data is broken")
        self._rdma = device_of(raw, netdev) or ""

    def part_number(self) -> Fact[str]:
        return first(
            field(self._vpd, "part_number"), field(self._manager, "part_number"), field(self._flint, "part_number")
        )

    def serial(self) -> Fact[str]:
        return first(
            field(self._vpd, "serial"),
            field(self._devlink, "board_serial_number"),
            field(self._devlink, "serial_number"),
        )

    def psid(self) -> Fact[str]:
        kernel = first(field(self._devlink, "psid"), self._board_id())
        flash = first(field(self._flint, "psid"), field(self._manager, "psid"))
        return first(
            self._raw.agreed(f"{self._netdev}: psid", kernel, flash),
            convert(self._version(), lambda two: two[1], "the driver's version names no PSID"),
        )

    def running(self) -> Fact[str]:
        """The version that runs. A tool counts first, but never against what the driver itself asked the card."""
        flint = field(self._flint, "fw_running")
        kernel = first(
            field(self._devlink, "fw_running"), self._sysfs_version(), convert(self._version(), lambda two: two[0])
        )
        if flint.known and (not kernel.known or same_version(str(flint.value), str(kernel.value))):
            return flint
        told = first(flint, field(self._manager, "fw_running"))
        return self._raw.agreed(f"{self._netdev}: running firmware", kernel, told, same_version)

    def stored(self) -> Fact[str]:
        flint = field(self._flint, "fw_stored")
        devlink = field(self._devlink, "fw_stored")
        if flint.known and (not devlink.known or same_version(str(flint.value), str(devlink.value))):
            return flint
        told = first(flint, field(self._manager, "fw_stored"))
        return self._raw.agreed(f"{self._netdev}: stored firmware", devlink, told, same_version)

    def components(self) -> Fact[dict[str, str]]:
        return field(self._devlink, "running")

    def _board_id(self) -> Fact[str]:
        if not self._driver.startswith("mlx"):
            return unknown("only NVIDIA cards have a PSID in board_id")
        return self._raw.text("rdma", self._rdma, "board_id")

    def _sysfs_version(self) -> Fact[str]:
        if self._driver in ("ice", "i40e"):
            return unknown("irdma reports the version of the RDMA firmware only")
        if not self._rdma:
            return unknown("the interface has no RDMA device")
        version = self._raw.text("rdma", self._rdma, "fw_ver")
        return convert(
            version, lambda text: text if any(map(int, _NUMBERS.findall(text))) else None, "the driver reports 0.0.0"
        )

    def _version(self) -> Fact[tuple[str, str | None]]:
        """(firmware, PSID or None) of the driver's ethtool information: "22.38.1002 (MT_0000000359)"."""

        def split(text: Any) -> tuple[str, str | None] | None:
            if not isinstance(text, str) or not text or text == "N/A":
                return None
            match = _PSID_IN_VERSION.fullmatch(text)
            return (match.group(1), match.group(2)) if match else (text, None)

        ioctl = self._raw.leaf("net", self._netdev, "ethtool", "driver")
        kernel = convert(ioctl, lambda info: info.get("firmware") if isinstance(info, dict) else None)
        told = field(self._driver_info, "firmware_version")
        said = first(convert(told, _filled, _NO_VERSION), convert(kernel, _filled, _NO_VERSION))
        return convert(said, split, _NO_VERSION)


def same_version(one: str, other: str) -> bool:
    """Vendors pad fields differently: 14.26.0017 is 14.26.17."""
    return [*map(int, _NUMBERS.findall(one))] == [*map(int, _NUMBERS.findall(other))]


def _filled(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _card_key(raw: Raw, tool: str, address: str) -> str:
    """The function of the same card that `tool` was run on; the function itself when there is none."""
    if raw.at("tools", f"{tool}:{address}") is not None:
        return address
    prefix = f"{tool}:{address.rpartition('.')[0]}."
    return next((key[len(tool) + 1 :] for key in sorted(raw.table("tools")) if key.startswith(prefix)), address)


def _one(answer: Fact[Any], name: str, *values: str) -> Fact[Any]:
    """The element of a tuple of devices whose `name` is one of `values`."""

    def pick(devices: Any) -> Any:
        return next((one for value in values for one in devices if getattr(one, name, None) == value), None)

    return convert(answer, pick, f"the output does not list {values[0]}")


def _decoded(text: str) -> vpd.Vpd | None:
    try:
        return vpd.decode(bytes.fromhex(text))
    except ValueError:
        return None


def _driver(raw: Raw, netdev: str, address: str | None) -> Fact[str]:
    told = field(raw.answer("ethtool.driver:" + netdev, "ethtool", "parse_driver", "ethtool"), "driver")
    ioctl = convert(
        raw.leaf("net", netdev, "ethtool", "driver"),
        lambda info: info.get("driver") if isinstance(info, dict) else None,
    )
    return first(
        raw.text("net", netdev, "driver"), raw.text("pci", address or "", "driver"), told, convert(ioctl, _filled)
    )


def _virtual(raw: Raw, netdev: str) -> Fact[bool]:
    value = raw.at("net", netdev, "virtual_function")
    source = f"/sys/class/net/{netdev}/device/physfn"
    return raw.fact(value, source) if isinstance(value, bool) else unknown(NOT_LOOKED_FOR, source)


def _speed(raw: Raw, netdev: str) -> Fact[int]:
    speed = raw.number("net", netdev, "sysfs", "speed", low=-1, high=1 << 32)
    return convert(speed, lambda value: value if 0 < value < 0xFFFFFFFF else None, "the driver does not know the speed")


def _addresses(raw: Raw, netdev: str) -> Fact[tuple[str, ...]]:
    def texts(value: Any) -> tuple[str, ...] | None:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return None
        return tuple(value)

    return convert(raw.leaf("net", netdev, "addresses"), texts)


def _pause(raw: Raw, netdev: str) -> Fact[Pause]:
    def from_ioctl(value: Any) -> Pause | None:
        return _pause_of(value.get("rx"), value.get("tx")) if isinstance(value, dict) else None

    told = raw.answer("ethtool.pause:" + netdev, "ethtool", "parse_pause", "ethtool")
    return first(
        convert(told, lambda pause: _pause_of(pause.rx, pause.tx), "ethtool does not say both directions"),
        convert(raw.leaf("net", netdev, "ethtool", "pause"), from_ioctl),
    )


def _pause_of(rx: Any, tx: Any) -> Pause | None:
    return Pause(rx, tx) if isinstance(rx, bool) and isinstance(tx, bool) else None


def _flags(value: Any) -> dict[str, bool] | None:
    if not isinstance(value, dict) or not all(isinstance(state, bool) for state in value.values()):
        return None
    return {str(name): state for name, state in value.items()}


def _counters(raw: Raw, netdev: str) -> Fact[dict[str, int]]:
    """The driver's counters plus its per-priority ones under common names; what is not there is not zero."""
    told = raw.answer("ethtool.stats:" + netdev, "ethtool", "parse_stats", "ethtool")
    own = first(told, raw.counters("net", netdev, "ethtool", "counters"))

    def named(stats: Any) -> dict[str, int]:
        from kvctl.fleet.probe.tools.ethtool import priority_counters

        return {**stats, **priority_counters(stats)}

    return convert(own, named)


def _nvconfig(raw: Raw, function: str) -> Fact[dict[str, NvConfig]]:
    key = _card_key(raw, "mlxconfig.query", function)
    answer = raw.answer("mlxconfig.query:" + key, "mlxconfig", "parse_query", "mstconfig", "mlxconfig")

    def rows(parsed: Any) -> dict[str, NvConfig]:
        return {
            name: NvConfig(row.default, row.current, row.next_boot)
            for name, row in parsed.items()
            if row.next_boot is not None
        }

    return convert(answer, lambda parsed: rows(parsed) or None, "no row tells the next boot's value")


def _carriers(raw: Raw) -> Fact[frozenset[str]]:
    """Interfaces that the probe's own SSH connection goes through: the one with the address, and those below it."""
    connection = raw.text("host", "ssh_connection")
    if not connection.known:
        return unknown(connection.unknown, connection.source)
    words = (connection.value or "").split()
    if len(words) != 4:
        return unknown("SSH_CONNECTION has not four words", connection.source)
    local = words[2].partition("%")[0].removeprefix("::ffff:")
    table = raw.table("net")
    top = {
        name
        for name in table
        if any(entry.partition("/")[0] == local for entry in _addresses(raw, name).or_none() or ())
    }
    if not top:
        return unknown(f"no interface has the address {local}", connection.source)
    found: set[str] = set()
    while top:
        name = top.pop()
        found.add(name)
        below = {one for one in table if raw.at("net", one, "master") == name}
        lower = raw.at("net", name, "lower")
        below |= {lower} if isinstance(lower, str) and lower in table else set()
        top |= below - found
    return raw.fact(frozenset(found), connection.source)
