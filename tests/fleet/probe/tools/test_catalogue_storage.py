"""Every parser on every damaged form of its samples: a result, or ToolOutputError, and nothing else."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.catalogue_storage import PARSERS_B

SAMPLES = Path(__file__).parents[3] / "data" / "samples"

# Where each parser's samples lie; a parser without any is fuzzed from the text given in INLINE.
FILES = {
    "lsblk": ["lsblk/*"],
    "nvme.list": ["nvme_list/o_json*", "nvme_list/text*"],
    "nvme.list_subsys": ["nvme_list/list_subsys*"],
    "nvme.id_ctrl": ["nvme_id-ctrl/*"],
    "nvme.id_ns": ["nvme_id-ns/*"],
    "nvme.smart_log": ["nvme_smart-log/*"],
    "nvme.kernel_log": ["nvme_kernel_log/*"],
    "smartctl": ["smartctl/*", "nvme_smart-log/smartctl*"],
    "mdadm.detail": ["mdadm/*"],
    "lspci": ["lspci/*"],
    "nvidia_smi.xml": ["nvidia-smi/*.xml"],
    "nvidia_smi.topo": ["nvidia-smi/topo*"],
    "peermem": ["nvidia_peermem/*"],
    "nccl_log": ["nccl_log/*"],
    "sonic.pfc_priority": ["sonic/show_pfc_priority*"],
    "sonic.pfc_counters": ["sonic/show_pfc_counters*"],
    "sonic.pfc_asymmetric": ["sonic/show_pfc_asymmetric*"],
    "sonic.pfcwd_config": ["sonic/show_pfcwd_config*"],
    "sonic.pfcwd_stats": ["sonic/show_pfcwd_stats*"],
    "sonic.ecnconfig": ["sonic/ecnconfig*"],
    "nxos.pfc": ["nxos/*"],
    "eos.pfc": ["arista_eos/*"],
    "cumulus.qos_roce": [],
}
INLINE = {
    "cumulus.qos_roce": [
        "             operational  applied\n-----------  -----------  -------\nenable                    on\n"
        "mode         lossless     lossless\npfc\n  pfc-priority  3\n\nRoCE mapping configurations\n===\n"
        "     pcp  dscp  switch-prio\n    -  ---  ----  -----------\n    0  3    26    3\n",
        '{"enable": "on", "mode": "lossless", "pfc": {"pfc-priority": 3, "rx-enabled": "enabled"},'
        ' "prio-map": {"0": {"dscp": "1,2", "pcp": "0", "switch-prio": "0"}}, "trust": {"trust-mode": "dscp"}}',
    ],
    "nvidia_smi.topo": [
        "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-55\t0\nNIC0\tPIX\t X \t\t\n"
        "\nNIC Legend:\n  NIC0: mlx5_0\n"
    ],
    "nvme.list": [
        "Device   Cntlid SN  MN  FR  TxPort Address  Slot Subsystem Namespaces\n-------- ------ --- ---\n"
        "nvme0    0      S1 M1 F1 pcie 0000:41:00.0 3 nvme-subsys0 nvme0n1\n\n"
        "Device  Generic  NSID  Usage  Format  Controllers\n------- -------- -----\n"
        "nvme0n1 ng0n1 0x1 3.84 TB / 3.84 TB 4 KiB + 0 B nvme0\n"
    ],
    "nvme.id_ns": ['{"nsze": 10, "nlbaf": 1, "flbas": 1, "lbafs": [{"ms": 0, "ds": 9, "rp": 2}, {"ms": 0, "ds": 12}]}'],
}
JUNK = st.one_of(
    st.sampled_from(["\x00", "\ud800", "\u0663", "-", ":", "/", "99999999999999999999", "\t", "NaN", "\x1b[4m", "\r"]),
    st.text(max_size=6),
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just([]), st.just({}), st.just([None])
)


def texts(name: str) -> list[str]:
    files = [path for pattern in FILES[name] for path in sorted(SAMPLES.glob(pattern))]
    return [path.read_text() for path in files] + INLINE.get(name, [])


def damage(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    at = draw(st.integers(0, len(lines) - 1))
    position = draw(st.integers(0, len(text)))
    kind = draw(st.sampled_from(["drop", "repeat", "cut", "flip", "insert", "swap"]))
    if kind == "drop":
        return "\n".join(lines[:at] + lines[at + 1 :])
    if kind == "repeat":
        return "\n".join(lines[: at + 1] + lines[at:])
    if kind == "swap":
        return "\n".join(lines[:at] + lines[at + 1 : at + 2] + lines[at : at + 1] + lines[at + 2 :])
    if kind == "cut":
        return text[:position]
    tail = position + 1 if kind == "flip" else position
    return text[:position] + draw(JUNK) + text[tail:]


def leaves(node: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(leaf for key, value in inner for leaf in leaves(value, (*path, key)))]


def swapped(draw: st.DrawFn, text: str) -> str:
    document = json.loads(text)
    path = draw(st.sampled_from(leaves(document)))
    value = draw(VALUES)
    if not path:
        return json.dumps(value)
    node = document
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return json.dumps(document)


@st.composite
def damaged(draw: st.DrawFn, name: str) -> str:
    text = draw(st.sampled_from(texts(name)))
    if text.lstrip()[:2] in ("{\n", "[\n", '{"') and draw(st.booleans()):
        return swapped(draw, text)
    for _ in range(draw(st.integers(1, 4))):
        text = damage(draw, text)
    return text


def survives(parse: Callable[[str], object], text: str) -> None:
    try:
        found = parse(text)
    except ToolOutputError:
        return
    parts = found if isinstance(found, tuple) else (found,)
    assert all(dataclasses.is_dataclass(part) for part in parts)


def test_every_parser_has_a_text_to_damage() -> None:
    assert set(FILES) == set(PARSERS_B)
    assert all(texts(name) for name in FILES)


@pytest.mark.parametrize("name", sorted(PARSERS_B))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_samples(name: str, data: st.DataObject) -> None:
    survives(PARSERS_B[name], data.draw(damaged(name)))


@pytest.mark.parametrize("name", sorted(PARSERS_B))
@settings(max_examples=30, deadline=None)
@given(text=st.one_of(st.text(max_size=200), JUNK))
def test_arbitrary_text(name: str, text: str) -> None:
    survives(PARSERS_B[name], text)


@pytest.mark.parametrize("name", sorted(PARSERS_B))
def test_hostile_nesting_and_long_lines(name: str) -> None:
    survives(PARSERS_B[name], '{"blockdevices":' + "[" * 100_000)
    survives(PARSERS_B[name], '{"blockdevices": ' + '[{"name": "a", "children": ' * 900 + "[]" + "}]" * 900 + "}")
    survives(PARSERS_B[name], "-" * 50_000)
    survives(PARSERS_B[name], " ".join(["--"] * 20_000) + "\n" + "x " * 20_000)
