import subprocess
import sys
from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, catalogue

from .samples import FOLDER, sample

NAMES = """
    acs cma_roce.mode cma_roce.tos cma_roce.traffic_class dcb.app dcb.apptrust dcb.buffer dcb.dcbx dcb.ets dcb.pfc
    dcbtool.pfc devlink.info ethtool.driver ethtool.fec ethtool.link ethtool.module ethtool.pause ethtool.priv_flags
    ethtool.stats flint.query hw_counters ibdev2netdev ibstat ibv_devinfo lldptool.pfc lldptool.tlvs mlnx_qos
    mlxconfig.query mlxfwmanager.query mstflint.errors mstflint.query niccli.devices niccli.qos rdma.link show_gids
    sysfs_infiniband.grep vpd
"""


def test_every_tool_has_its_name() -> None:
    assert set(NAMES.split()) <= set(catalogue.PARSERS)


def test_flint_and_mstflint_text_are_one_format() -> None:
    text = sample("flint/d_mst_query_cx6lx.txt")
    assert catalogue.PARSERS["flint.query"](text) == catalogue.PARSERS["mstflint.query"](text)


@pytest.mark.parametrize("name", sorted(set(NAMES.split()) - {"mstflint.errors"}))
def test_a_shells_complaint_is_no_output(name: str) -> None:
    with pytest.raises(ToolOutputError):
        catalogue.PARSERS[name]("bash: line 1: some-tool: command not found\n")


@pytest.mark.parametrize("name", sorted(set(NAMES.split())))
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5_000, '{"info":' + "9" * 5_000 + "}", "\x00"]
)
def test_hostile_texts(name: str, text: str) -> None:
    try:
        catalogue.PARSERS[name](text)
    except ToolOutputError:
        return


ACCEPTS = {
    "acs": {"lspci"},  # filtered or whole
    "vpd": {"lspci"},
    "cma_roce.traffic_class": {"dcb"},  # an empty file
    "ethtool.stats": {"hw_counters"},  # counters without a head line look alike
    "hw_counters": {"ethtool"},
    "flint.query": {"mstflint"},
    "mstflint.query": {"flint"},
    "ibdev2netdev": {"dcb"},
    "rdma.link": {"dcb"},
    "dcb.dcbx": {"dcb"},
}


@pytest.mark.parametrize("name", sorted(set(NAMES.split()) - {"mstflint.errors"}))
def test_another_tools_output_is_refused(name: str) -> None:
    own = {name.split(".")[0], *ACCEPTS.get(name, ())}
    for path in sorted(FOLDER.glob("*/*")):
        if path.parent.name in own or (name == "acs" and not path.read_text().strip()):
            continue
        text = path.read_bytes().decode()
        with pytest.raises(ToolOutputError):
            catalogue.PARSERS[name](text)


def test_parsers_need_only_the_standard_library() -> None:
    folder = Path(catalogue.__file__).parents[1]
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import tools.catalogue"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
