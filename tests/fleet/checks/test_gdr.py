"""GPUs and GPUDirect RDMA."""

from dataclasses import replace

import pytest

from kvctl.types.facts import Gpu, unknown
from kvctl.types.findings import Verdict

from . import fleet as f

NOT_READ = unknown("lspci is not installed")


@pytest.mark.parametrize(
    ("peermem", "dmabuf", "verdict", "observed"),
    [
        (True, False, Verdict.PASS, "nvidia_peermem"),
        (False, True, Verdict.PASS, "dma-buf"),
        (True, True, Verdict.PASS, "nvidia_peermem and dma-buf"),
        (False, False, Verdict.FAIL, "neither"),
        (NOT_READ, True, Verdict.PASS, "dma-buf"),
        (NOT_READ, False, Verdict.UNKNOWN, "-"),
        (False, NOT_READ, Verdict.UNKNOWN, "-"),
    ],
)
def test_one_way_is_enough(peermem, dmabuf, verdict, observed):
    facts = f.with_fact(f.clean(), "gpu1", "host.peermem_registered", peermem)
    finding = f.of(f.run(facts=f.with_fact(facts, "gpu1", "host.dmabuf", dmabuf)), "gdr", "gpu1")
    assert (finding.verdict, finding.observed) == (verdict, observed)


def test_it_is_about_gpu_nodes_that_have_gpus():
    assert f.verdict(f.run(), "gdr", "storage1") is Verdict.NOT_APPLICABLE
    assert f.verdict(f.run(f.role(f.inventory(), "gpu", gpus=0)), "gdr", "gpu1") is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("wanted", "seen", "verdict"),
    [(1, 1, Verdict.PASS), (8, 7, Verdict.FAIL), (8, 0, Verdict.UNKNOWN), (None, 3, Verdict.NOT_APPLICABLE),
     (0, 0, Verdict.PASS), (0, 1, Verdict.FAIL)],
)  # fmt: skip
def test_count(wanted, seen, verdict):
    gpus = tuple(Gpu(f"GPU-{i}") for i in range(seen))
    facts = {**f.clean(), "gpu1": replace(f.clean()["gpu1"], gpus=gpus)}
    assert f.verdict(f.run(f.role(f.inventory(), "gpu", gpus=wanted), facts), "gpu.count", "gpu1") is verdict
