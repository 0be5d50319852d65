"""Policies as the people who put them in force see them, with real books."""

import pytest

from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.requests import ApprovalNamed, ApprovalVote, PolicyShow, TenantScope
from tests.controller.people import controller, kinds
from tests.controller.policy_site import (
    ANN,
    BOB,
    OPERATOR,
    POLICY,
    apply,
    payload_of,
    put_copies,
    state_of,
    tables,
    vote,
)


@pytest.fixture
def ctl(tmp_path):
    with controller(tmp_path) as made:
        yield made


def show(ctl, at=None, tenant=None):
    return ctl.call("policy.show", OPERATOR, PolicyShow(tenant, at))


def countries(ctl, at=None):
    return {row["tenant"]: (row["version"], row["storage_countries"]) for row in show(ctl, at)["residency"]}


def test_the_first_policy_is_in_force_at_once(ctl):
    answer = apply(ctl)
    assert (answer["state"], answer["required"], answer["approval"]) == ("in force", 0, None)
    assert {change["change"] for change in answer["changes"]} == {"initial"}
    assert countries(ctl) == {"acme": (1, ["DE", "FR"])}
    (kept,) = show(ctl)["retention"]
    assert (kept["minimum"], kept["maximum"], kept["idle"]) == (3600, 30 * 86400, 7 * 86400)
    assert {(p["store"], p["tier"], p["country"], p["controlled_by"]) for p in show(ctl)["places"]} == {
        ("s1", "*", "FR", "FR"), ("s1", "object", "US", "US"), ("s2", "*", "DE", "US"),
    }  # fmt: skip
    assert "there is no tenant 'acme' yet" in answer["warnings"]


def test_the_same_file_again_changes_nothing(ctl):
    apply(ctl)
    before = len(kinds(ctl))
    assert apply(ctl)["state"] == "unchanged"
    assert len(kinds(ctl)) == before


def test_a_dry_run_says_what_it_would_do_and_does_nothing(ctl):
    put_copies(ctl, 5, tier="object", size=10)
    answer = apply(ctl, dry_run=True)
    assert (answer["state"], answer["would"]) == ("dry run", "in force")
    (outside,) = answer["violations"]
    assert (outside["tenant"], outside["country"], outside["chunks"], outside["bytes"]) == ("acme", "US", 5, 50)
    assert kinds(ctl) == []
    assert countries(ctl) == {}


def test_a_tightening_needs_one_other_person(ctl):
    apply(ctl)
    answer = apply(ctl, POLICY.replace("[FR, DE]", "[FR]"))
    assert (answer["state"], answer["required"]) == ("pending", 1)
    assert countries(ctl) == {"acme": (1, ["DE", "FR"])}
    assert vote(ctl, ANN, answer["approval"])["state"] == "executed"
    assert countries(ctl) == {"acme": (2, ["FR"])}


def test_a_weakening_needs_two(ctl):
    apply(ctl)
    answer = apply(ctl, POLICY.replace("[FR, DE]", "[FR, DE, US]").replace("30d", "60d"))
    assert answer["required"] == 2
    assert {c["key"]: c["change"] for c in answer["changes"]} == {"acme": "weakening", "acme/conversation": "weakening"}
    assert vote(ctl, ANN, answer["approval"])["state"] == "pending"
    assert countries(ctl)["acme"][0] == 1
    assert vote(ctl, BOB, answer["approval"])["state"] == "executed"
    row = show(ctl)["residency"][0]
    assert (row["version"], row["approval"], row["change"]) == (2, answer["approval"], "weakening")
    with ctl.books.state.reading() as db:
        executed = db.execute("SELECT payload_sha256 = executed_sha256, executed FROM approvals").fetchone()
        begins = db.execute("SELECT max(valid_from) FROM residency_policies").fetchone()[0]
    assert executed == (True, begins)


def test_only_what_differs_is_a_new_version(ctl):
    apply(ctl)
    answer = apply(ctl, POLICY.replace("maximum: 30d", "maximum: 10d"))
    vote(ctl, ANN, answer["approval"])
    assert countries(ctl)["acme"][0] == 1
    assert show(ctl)["retention"][0]["version"] == 2


def test_a_section_that_is_left_out_stays(ctl):
    apply(ctl)
    assert apply(ctl, "schema: kvctl.policy/1\nplaces:\n  - {store: s3, site: paris}\n")["changes"][0]["key"] == "s1/*"
    assert apply(ctl, "schema: kvctl.policy/1\n")["state"] == "unchanged"


def test_withdrawing_is_a_weakening_and_does_not_make_the_next_one_initial(ctl):
    apply(ctl)
    gone = apply(ctl, POLICY.replace("- {tenant: acme, storage_countries: [FR, DE]}", "[]"))
    assert gone["required"] == 2
    vote(ctl, ANN, gone["approval"])
    vote(ctl, BOB, gone["approval"])
    assert countries(ctl) == {}
    wider = apply(ctl, POLICY.replace("[FR, DE]", "[FR, DE, CN]"))
    assert (wider["state"], wider["required"]) == ("pending", 2)
    again = apply(ctl)
    assert (again["state"], again["required"]) == ("pending", 1)


def test_a_tier_that_goes_to_another_country_is_a_weakening(ctl):
    apply(ctl)
    moved = apply(ctl, POLICY.replace("tier: object, site: dallas", "tier: object, site: berlin"))
    assert [(c["key"], c["change"]) for c in moved["changes"]] == [("s1/object", "weakening")]


def test_an_approved_change_of_rows_that_are_others_now_is_ended(ctl):
    apply(ctl)
    first = apply(ctl, POLICY.replace("[FR, DE]", "[FR]"))
    second = apply(ctl, POLICY.replace("[FR, DE]", "[DE]"))
    vote(ctl, ANN, first["approval"])
    answer = vote(ctl, ANN, second["approval"])
    assert answer["state"] == "aborted"
    assert "KV-POL-004" not in answer["why"][0]
    assert "another one" in answer["why"][0]
    assert countries(ctl) == {"acme": (2, ["FR"])}
    assert state_of(ctl, second["approval"]) == "aborted"


def test_the_history_of_versions_is_kept(ctl):
    apply(ctl)
    before = show(ctl)["residency"][0]["valid_from"]
    vote(ctl, ANN, apply(ctl, POLICY.replace("[FR, DE]", "[FR]"))["approval"])
    assert countries(ctl, before) == {"acme": (1, ["DE", "FR"])}
    assert countries(ctl, "2020-01-01T00:00:00Z") == {}
    assert show(ctl, "2020-01-01T00:00:00Z")["places"] == []
    with pytest.raises(UsageError) as bad:
        show(ctl, "yesterday")
    assert bad.value.code == "KV-POL-005"


def test_the_owner_of_a_site_changes_and_its_past_does_not(ctl):
    apply(ctl)
    before = show(ctl)["residency"][0]["valid_from"]
    answer = apply(
        ctl, POLICY.replace("{name: Acme SAS, country: FR}", "{name: Acme SAS, country: FR, controlled_by: CN}")
    )
    assert answer["required"] == 2
    vote(ctl, ANN, answer["approval"])
    vote(ctl, BOB, answer["approval"])

    def controller_of(at):
        return {p["controlled_by"] for p in show(ctl, at)["places"] if p["site"] == "paris"}

    assert controller_of(None) == {"CN"}
    assert controller_of(before) == {"FR"}


def test_every_table_is_made_again_from_the_log(ctl):
    apply(ctl)
    vote(ctl, ANN, apply(ctl, POLICY.replace("[FR, DE]", "[FR]"))["approval"])
    put_copies(ctl, 5)
    wide = apply(ctl, POLICY.replace("[FR, DE]", "[FR, US]").replace("country: US, entity", "country: CA, entity"))
    vote(ctl, ANN, wide["approval"])
    vote(ctl, BOB, wide["approval"])
    vote(ctl, ANN, apply(ctl, "schema: kvctl.policy/1\nplaces: []\n")["approval"], "no")
    before = tables(ctl)
    assert ctl.books.reindex() == len(before["events"])
    assert tables(ctl) == before


def test_a_policy_that_cannot_be_is_refused_with_the_line(ctl):
    with pytest.raises(UsageError) as bad:
        apply(ctl, POLICY.replace("site: dallas", "site: mars").replace("30d", "1s"))
    assert bad.value.code == "KV-POL-003"
    assert "line 11 (places[1].site): there is no site 'mars'" in bad.value.why
    assert "line 16 (retention[0]): maximum 1s is shorter than minimum 1h" in bad.value.why
    assert kinds(ctl) == []


def test_who_asks_does_not_decide_by_voting_on_another_payload(ctl):
    apply(ctl)
    answer = apply(ctl, POLICY.replace("[FR, DE]", "[FR]"))
    with pytest.raises(RefusedError) as bad:
        ctl.call("approve.vote", ANN, ApprovalVote(answer["approval"], "yes", "0" * 64))
    assert bad.value.code == "KV-APP-007"
    assert payload_of(ctl, answer["approval"]) != "0" * 64
    shown = ctl.call("approve.show", OPERATOR, ApprovalNamed(answer["approval"]))
    assert (shown["votes"], shown["state"]) == ([], "pending")


def test_a_tenant_sees_its_own_rows_alone(ctl):
    apply(ctl, POLICY.replace("residency:", "residency:\n  - {tenant: globex, storage_countries: [US]}"))
    assert [row["tenant"] for row in show(ctl, tenant="globex")["residency"]] == ["globex"]
    put_copies(ctl, 1)
    put_copies(ctl, 1, tenant="globex", first=9)
    live = ctl.call("residency.now", OPERATOR, TenantScope("globex"))
    assert [row["tenant"] for row in live["outside"]] == ["globex"]
