"""Where copies are, were, and would be outside; and the decision before anything goes anywhere."""

import pytest

from kvctl.controller.residency import decide
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.requests import PolicyText, ResidencyHistory, TenantScope
from tests.controller.people import ACME_ADMIN, controller, kinds, tables
from tests.controller.policy_site import ANN, OPERATOR, POLICY, apply, put_copies, vote


@pytest.fixture
def ctl(tmp_path):
    with controller(tmp_path) as made:
        yield made


def place(row):
    return (row["store"], row["tier"], row["country"], row["chunks"], row["verdict"])


def test_live_copies_by_place_with_the_laws_that_reach_them(ctl):
    apply(ctl)
    put_copies(ctl, 4)
    put_copies(ctl, 3, store="s2", first=10)
    put_copies(ctl, 2, tier="object", first=20)
    put_copies(ctl, 1, store="s9", first=30)
    put_copies(ctl, 9, first=40, removed="2026-01-02")
    found = ctl.call("residency.now", OPERATOR, TenantScope())
    assert [place(row) for row in found["copies"]] == [
        ("s1", "flash", "FR", 4, "allow"), ("s1", "object", "US", 2, "deny"), ("s2", "flash", "DE", 3, "allow"),
        ("s9", "flash", None, 1, "deny"),
    ]  # fmt: skip
    assert found["totals"] == {"copies": {"chunks": 10, "bytes": 1000}, "outside": {"chunks": 3, "bytes": 300}}
    berlin = found["copies"][2]
    assert (berlin["entity_country"], berlin["controlled_by"], berlin["version"]) == ("DE", "US", 1)
    assert [row["rule"] for row in found["outside"]] == [
        "residency acme v1: US is not in storage_countries [DE, FR]", "s9/flash is at no declared site",
    ]  # fmt: skip


def test_who_controls_the_site_counts_when_the_policy_says_so(ctl):
    apply(ctl, POLICY.replace("[FR, DE]", "[FR, DE], controlled_by: same"))
    put_copies(ctl, 1, store="s2")
    (row,) = ctl.call("residency.now", OPERATOR, TenantScope("acme"))["outside"]
    assert "US in control" in row["rule"]


def test_a_tenant_without_a_policy_stays_at_home(ctl):
    apply(ctl)
    put_copies(ctl, 1, tenant="globex")
    put_copies(ctl, 1, tenant="globex", store="s2", first=5)
    home, away = ctl.call("residency.now", OPERATOR, TenantScope("globex"))["copies"]
    assert (home["verdict"], home["rule"]) == (
        "allow", "no residency policy of globex: only FR, the controller's own country",
    )  # fmt: skip
    assert away["verdict"] == "deny"


def test_history_is_judged_by_what_was_in_force_then(ctl):
    put_copies(ctl, 4, placed="2026-01-01", removed="2026-01-05")
    put_copies(ctl, 4, store="s2", placed="2026-01-05")
    early = ctl.call("residency.history", OPERATOR, ResidencyHistory("acme", "2026-01-03T00:00:00Z"))
    assert [place(row) for row in early["copies"]] == [("s1", "flash", None, 4, "deny")]
    assert (early["policy"], early["known_since"]) == (None, "2026-01-01T00:00:00.000Z")
    apply(ctl)
    in_force = ctl.call("residency.now", OPERATOR, TenantScope())["at"]
    vote(ctl, ANN, apply(ctl, POLICY.replace("[FR, DE]", "[FR]"))["approval"])
    then = ctl.call("residency.history", OPERATOR, ResidencyHistory("acme", in_force))
    assert [place(row) for row in then["copies"]] == [("s2", "flash", "DE", 4, "allow")]
    assert then["policy"]["version"] == 1
    now = ctl.call("residency.now", OPERATOR, TenantScope("acme"))
    assert [place(row) for row in now["outside"]] == [("s2", "flash", "DE", 4, "deny")]
    still = ctl.call("residency.history", OPERATOR, ResidencyHistory("acme", "2026-01-03T00:00:00+02:00"))
    assert still["at"] == "2026-01-02T22:00:00.000Z"


def test_the_future_has_no_history(ctl):
    with pytest.raises(UsageError) as bad:
        ctl.call("residency.history", OPERATOR, ResidencyHistory("acme", "2999-01-01T00:00:00Z"))
    assert bad.value.code == "KV-RES-002"


def test_whatif_counts_what_would_be_outside_and_changes_nothing(ctl):
    apply(ctl)
    put_copies(ctl, 4)
    put_copies(ctl, 3, store="s2", first=10)
    put_copies(ctl, 2, store="s2", tier="disk", first=20)
    before = (kinds(ctl), tables(ctl))
    found = ctl.call("residency.whatif", OPERATOR, PolicyText(POLICY.replace("[FR, DE]", "[FR]")))
    assert found["by_country"] == [
        {"tenant": "acme", "country": "DE", "tier": "disk", "chunks": 2, "bytes": 200},
        {"tenant": "acme", "country": "DE", "tier": "flash", "chunks": 3, "bytes": 300},
    ]
    assert found["totals"] == {
        "outside_now": {"chunks": 0, "bytes": 0}, "outside_then": {"chunks": 5, "bytes": 500},
    }  # fmt: skip
    assert [(c["key"], c["change"]) for c in found["changes"]] == [("acme", "tightening")]
    assert (kinds(ctl), tables(ctl)) == before


def test_a_decision_is_on_record_whatever_it_says(ctl):
    apply(ctl)
    allowed = decide(ctl, OPERATOR, "replica", "acme", store="s2", tier="flash", ref="r1")
    denied = decide(ctl, OPERATOR, "backup", "acme", site="dallas", ref="b1")
    unknown = decide(ctl, OPERATOR, "export", "acme", site="moon", ref="e1")
    assert [one.verdict.allowed for one in (allowed, denied, unknown)] == [True, False, False]
    with ctl.books.state.reading() as db:
        rows = db.execute(
            "SELECT id, action, tenant, verdict, country, policy_version, ref FROM decisions ORDER BY ref"
        )
        assert rows.fetchall() == [
            (denied.id, "backup", "acme", "deny", "US", 1, "b1"), (unknown.id, "export", "acme", "deny", None, 1, "e1"),
            (allowed.id, "replica", "acme", "allow", "DE", 1, "r1"),
        ]  # fmt: skip
    assert [e.outcome for e in ctl.books.recorded(0) if e.kind == "decision.made"] == ["ok", "refused", "refused"]
    with pytest.raises(UsageError):
        decide(ctl, OPERATOR, "move", "acme")


def test_a_tenant_s_administrator_sees_that_tenant_alone(ctl):
    apply(ctl)
    put_copies(ctl, 1)
    put_copies(ctl, 1, tenant="globex", first=5)
    found = ctl.call("residency.now", ACME_ADMIN, TenantScope())
    assert {row["tenant"] for row in found["copies"]} == {"acme"}
    with pytest.raises(RefusedError):
        ctl.call("residency.history", ACME_ADMIN, ResidencyHistory("globex", "2026-01-03T00:00:00Z"))


def test_a_tenant_that_nobody_knows_is_no_empty_answer(ctl):
    for name, asked in (
        ("residency.now", TenantScope("nobody")),
        ("residency.history", ResidencyHistory("nobody", "2026-01-01")),
    ):
        with pytest.raises(UsageError) as refused:
            ctl.call(name, OPERATOR, asked)
        assert refused.value.code == "KV-RES-003"
