"""What NCCL says about its network at NCCL_DEBUG=INFO. Format: NCCL src/transport/net_ib.cc, net.cc and init.cc."""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import ToolOutputError
from .scalars import plain

_LINE = re.compile(r"\bNCCL (INFO|WARN|TRACE|ERROR|VERSION)\b|\bNCCL version [0-9]")
_HCA = re.compile(r"GPU Direct RDMA (Enabled|Disabled) for HCA (\d+) '([^']+)'")
_PAIR = re.compile(r"GPU Direct RDMA (Enabled|Disabled) for GPU (\S+) / HCA (\S+)")
_USING = re.compile(r"NET/IB : Using (.*?)(?:; OOB|$)", re.MULTILINE)
_DEVICE = re.compile(r"\[\d+\](?:\{[^}]*\})?\s*([\w.-]+):(\d+)/(RoCE|IB)")
# A proxy rank in brackets may follow the device; a plugin's name may hold a blank ("AWS Libfabric").
_CHANNEL = re.compile(r"\bvia NET/([^/\n]+)/(\d+)(?:\(\d+\))?((?:/[A-Za-z]+)*)")


@dataclass(frozen=True)
class NcclLog:
    """`gdr` is None when the log says nothing, or says yes for some devices and no for others."""

    gdr: bool | None
    gdr_by_device: dict[str, bool]
    version: str | None = None
    network: str | None = None  # IB, Socket, or a plugin's name
    devices: tuple[str, ...] = ()  # RDMA devices in use, with the port: mlx5_0:1
    link_layers: tuple[str, ...] = ()
    channels_gdr: int = 0
    channels_without_gdr: int = 0
    warnings: tuple[str, ...] = ()


def parse(text: str) -> NcclLog:
    """GPUDirect RDMA and network evidence in an application's log; other lines are passed over."""
    lines = [line for line in plain(text).splitlines() if _LINE.search(line)]
    if not lines:
        raise ToolOutputError("no line of NCCL's log")
    log = "\n".join(lines)
    by_device, verdicts = _verdicts(log)
    channels = [match.group(3) for match in _CHANNEL.finditer(log) if match.group(1) != "Socket"]
    direct = sum("/GDRDMA" in flags for flags in channels)
    verdicts += [True] * bool(direct) + [False] * bool(len(channels) - direct)
    version = re.search(r"NCCL version ([0-9]+\.[0-9]+(?:\.[0-9]+)?)", log)
    network = {match.group(1) for match in re.finditer(r"Using network (\S+)", log)}
    devices = [match for use in _USING.finditer(log) for match in _DEVICE.finditer(use.group(1))]
    warnings = [line.partition("NCCL WARN ")[2].strip() for line in lines if "NCCL WARN " in line]
    return NcclLog(
        gdr=verdicts[0] if verdicts and len(set(verdicts)) == 1 else None,
        gdr_by_device=by_device,
        version=version.group(1) if version else None,
        network=network.pop() if len(network) == 1 else None,
        devices=tuple(dict.fromkeys("{}:{}".format(match.group(1), match.group(2)) for match in devices)),
        link_layers=tuple(dict.fromkeys(match.group(3) for match in devices)),
        channels_gdr=direct,
        channels_without_gdr=len(channels) - direct,
        warnings=tuple(dict.fromkeys(warning for warning in warnings if warning)),
    )


def _verdicts(log: str) -> tuple[dict[str, bool], list[bool]]:
    """By HCA name; and all statements. A distance too large for one GPU says nothing about the device."""
    by_device: dict[str, bool] = {}
    verdicts = []
    for match in _HCA.finditer(log):
        enabled = match.group(1) == "Enabled"
        by_device[match.group(3)] = enabled and by_device.get(match.group(3), True)
        verdicts.append(enabled)
    pairs = [match.group(1) == "Enabled" for match in _PAIR.finditer(log)]
    if any(pairs):
        verdicts.append(True)
    elif pairs:
        verdicts.append(False)
    return by_device, verdicts
