"""The certificates that kvctl check looks at: whose they are, read from what deployments made."""

from datetime import UTC, datetime, timedelta

import pytest

from kvctl.controller.kept import kept
from kvctl.controller.pki import SERVICE_DAYS, Authority, Services, new_request
from kvctl.controller.site import open_site


@pytest.fixture
def site(tmp_path):
    nodes = "".join(f"- {{name: {n}, address: 10.0.0.{i}, role: {r}}}\n" for i, (n, r) in enumerate(
        {"gpu-1": "gpu", "s1": "storage"}.items(), 1))  # fmt: skip
    (tmp_path / "inventory.yaml").write_text("site: {name: par1}\nnodes:\n" + nodes)
    return open_site(tmp_path / "inventory.yaml", tmp_path / "state")


def test_what_deployments_made_is_found_with_its_node(site):
    authority, services = Authority(site.directory / "tls", "par1"), Services(site.directory / "tls")
    for name in ("gpu-1-engine", "gpu-1-gateway", "front"):
        services.add(name, authority.service(name, new_request(name)[1]))
    authority.daemon("s1", new_request("s1")[1], ["10.0.0.2"])
    authority.daemon("gpu-1-gateway", new_request("gpu-1-gateway")[1], ["10.0.0.1"])
    authority.client("kvctld")
    found = {(one.name, one.use, one.node) for one in kept(site)}
    assert found == {
        ("ca", "ca", ""), ("kvctld", "client", ""), ("front", "service", ""), ("gpu-1-engine", "engine", "gpu-1"),
        ("gpu-1-gateway", "gateway", "gpu-1"), ("s1", "store", "s1"),
    }  # fmt: skip
    ends = datetime.now(UTC).date() + timedelta(days=SERVICE_DAYS)
    assert {one.ends for one in kept(site) if one.use != "ca"} <= {ends, ends - timedelta(days=1)}


def test_a_file_that_is_no_certificate_is_said_to_be_so(site):
    assert kept(site) == ()
    folder = site.directory / "tls" / "services"
    folder.mkdir(parents=True)
    (folder / "s1.crt").write_text("not a certificate")
    (one,) = kept(site)
    assert (one.ends, "s1.crt" in one.why) == (None, True)
