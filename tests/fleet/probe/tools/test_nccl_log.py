from __future__ import annotations

from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, nccl_log

SAMPLES = Path(__file__).parents[3] / "data" / "samples" / "nccl_log"


def test_gpudirect_disabled() -> None:
    found = nccl_log.parse((SAMPLES / "nccl_log_gdr_disabled.txt").read_text())
    assert found.gdr is False
    assert found.gdr_by_device == {"mlx5_0": False}


LOG = """\
gpu1:1:1 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
gpu1:1:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_3:1/RoCE [RO]; OOB eth0:192.0.2.1<0>
gpu1:1:9 [0] NCCL INFO Using network IB
gpu1:1:9 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'
gpu1:1:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
gpu1:1:9 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA/Shared
some other line of the application
gpu1:1:9 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out
"""


def test_working_path() -> None:
    found = nccl_log.parse(LOG)
    assert found.gdr is True
    assert (found.version, found.network) == ("2.21.5", "IB")
    assert (found.devices, found.link_layers) == (("mlx5_0:1", "mlx5_3:1"), ("RoCE",))
    assert (found.channels_gdr, found.channels_without_gdr) == (2, 0)
    assert found.warnings == ("Call to ibv_modify_qp failed with error Connection timed out",)


def test_evidence_both_ways_is_unknown() -> None:
    assert nccl_log.parse(LOG.replace("NET/IB/1/GDRDMA/Shared", "NET/IB/1")).gdr is None


def test_distance_of_one_gpu_does_not_disable_the_node() -> None:
    text = (
        "a:1:1 [0] NCCL INFO GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 4 <= 4), read 1\n"
        "a:1:1 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 0 / HCA 5 (distance 7 > 4)\n"
    )
    assert nccl_log.parse(text).gdr is True


def test_log_without_evidence() -> None:
    found = nccl_log.parse("a:1:1 [0] NCCL INFO Using network Socket\n")
    assert (found.gdr, found.network) == (None, "Socket")


def test_other_text_is_refused() -> None:
    with pytest.raises(ToolOutputError):
        nccl_log.parse("Traceback (most recent call last):")


def test_proxies_plugins_and_fused_devices() -> None:
    log = nccl_log.parse(
        "n1:7:9 [0] NCCL INFO NET/IB : Using [0]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE} [RO]; OOB eth0:192.0.2.4<0>\n"
        "n1:7:9 [0] NCCL INFO Channel 00/0 : 1[0] -> 8[0] [send] via NET/IB/1(3)/GDRDMA/Shared\n"
        "n1:7:9 [0] NCCL INFO Channel 01/0 : 1[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA\n"
        "n1:7:9 [0] NCCL INFO Channel 02/0 : 1[0] -> 8[0] [send] via NET/IB/0/GDRDMA(PCI)\n"
    )
    assert (log.gdr, log.channels_gdr, log.channels_without_gdr) == (True, 3, 0)
    assert log.devices == ("mlx5_2:1", "mlx5_3:1")
