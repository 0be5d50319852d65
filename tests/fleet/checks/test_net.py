"""MTU, addresses, GIDs."""

import pytest

from kvctl.fleet.checks.net import roce_mtu
from kvctl.types.facts import Gid, unknown
from kvctl.types.findings import Verdict

from . import fleet as f


def changed(path, value, node="storage2"):
    return f.with_fact(f.clean(), node, path, value)


@pytest.mark.parametrize(
    ("mtu", "rdma"), [(9000, 4096), (4200, 4096), (4191, 2048), (1500, 1024), (9978, 4096), (300, None)]
)
def test_roce_mtu(mtu, rdma):
    assert roce_mtu(mtu) == rdma


def test_the_mtu_is_the_sites():
    inv = f.fabric(f.inventory(), mtu=4200)
    facts = f.clean()
    for node in f.NODES:
        facts = f.with_fact(facts, node, "nic.mtu", 4200)
    assert f.bad(f.run(inv, facts)) == set()
    assert f.bad(f.run(inv)) == {("net.mtu", n) for n in f.NODES}


def test_a_wrong_mtu_on_a_link_that_is_down_is_a_fault_of_its_own():
    facts = f.with_fact(changed("nic.mtu", 1500), "storage2", "nic.operstate", "down")
    assert f.bad(f.run(facts=facts)) == {("net.mtu", "storage2"), ("link.state", "storage2")}


def test_a_difference_between_ends_names_both():
    finding = f.of(f.run(facts=changed("nic.rdma.active_mtu", 1024)), "net.mtu.peer")
    assert finding.verdict is Verdict.FOLLOWS
    assert "net.mtu.rdma" in finding.why
    assert "gpu1:enp65s0f0np0 has 9000 (RDMA 4096)" in finding.expected
    assert finding.observed == "9000 (RDMA 1024)"


@pytest.mark.parametrize(
    ("have", "given", "verdict"),
    [
        (("10.78.0.3/16",), {f.NETDEV: "10.78.0.3/16"}, Verdict.PASS),
        (("10.78.0.3/24",), {f.NETDEV: "10.78.0.3/16"}, Verdict.PASS),
        (("10.78.0.4/16",), {f.NETDEV: "10.78.0.3/16"}, Verdict.FAIL),
        (("10.78.9.9/16",), {}, Verdict.PASS),
        (("fe80::1/64",), {}, Verdict.FAIL),
        ((), {}, Verdict.FAIL),
        (("nonsense",), {}, Verdict.FAIL),
        (("10.99.0.1/16",), {f.NETDEV: "10.99.0.1/16"}, Verdict.FAIL),
    ],
)
def test_address(have, given, verdict):
    inv = f.inventory()
    nodes = tuple(n.model_copy(update={"addresses": given}) if n.name == "storage2" else n for n in inv.nodes)
    findings = f.run(inv.model_copy(update={"nodes": nodes}), changed("nic.addresses", have))
    assert f.verdict(findings, "net.address") is verdict


def test_without_subnet_and_address_nothing_is_checked():
    rails = tuple(r.model_copy(update={"subnet": ""}) for r in f.inventory().roles["storage"].rails)
    findings = f.run(f.role(f.inventory(), "storage", rails=rails))
    assert f.verdict(findings, "net.address") is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("gid", "type_", "verdict"),
    [
        ("::ffff:10.78.0.3", "RoCE v2", Verdict.PASS),
        ("::ffff:10.78.0.3", "RoCE v1", Verdict.FAIL),
        ("2001:db8::5", "RoCE v2", Verdict.PASS),
        ("fd00::5", "RoCE v2", Verdict.PASS),
        ("fe80::5", "RoCE v2", Verdict.FAIL),
        ("::", "RoCE v2", Verdict.FAIL),
        ("::ffff:169.254.3.4", "RoCE v2", Verdict.FAIL),
        ("not a gid", "RoCE v2", Verdict.FAIL),
    ],
)
def test_gid(gid, type_, verdict):
    facts = changed("nic.rdma.gids", (Gid(5, gid, type_, f.NETDEV),))
    assert f.verdict(f.run(facts=facts), "net.gid") is verdict


def test_ipv6_only_is_named():
    facts = changed("nic.rdma.gids", (Gid(5, "2001:db8::5", "RoCE v2", f.NETDEV),))
    assert f.of(f.run(facts=facts), "net.gid").observed == "index 5 2001:db8::5 (IPv6 only)"


def test_the_index_is_no_rule():
    facts = changed("nic.rdma.gids", (Gid(9, "::ffff:10.78.0.3", "RoCE v2", f.NETDEV),))
    assert f.bad(f.run(facts=facts)) == set()


def test_an_unread_gid_table_is_unknown():
    assert f.verdict(f.run(facts=changed("nic.rdma.gids", unknown("EINVAL"))), "net.gid") is Verdict.UNKNOWN


def test_routes_are_not_judged_yet_and_say_so():
    finding = f.of(f.run(), "net.route")
    assert (finding.verdict, finding.why) == (Verdict.NOT_APPLICABLE, "the facts hold no policy routes yet")


def test_without_ibv_devinfo_the_rdma_mtu_is_a_warning():
    findings = f.run(facts=changed("nic.rdma.active_mtu", unknown("ibv_devinfo is not installed")))
    assert {f.verdict(findings, c) for c in ("net.mtu.rdma", "net.mtu.peer")} == {Verdict.UNKNOWN}
    assert f.bad(findings) == set()
