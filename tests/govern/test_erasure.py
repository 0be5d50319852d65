"""Erasure: how it ends, which holds concern it, and that a receipt fits into the log, however large the site is."""

import json

import pytest

from kvctl.govern.erasure import AtStore, Scope, outcome, receipt, wait
from kvctl.ledger.tiles import MAX_ENTRY

ALICE = "a1" * 16


def hold(**fields):
    return {"tenant": "acme", "domain": None, "subject": None, **fields}


@pytest.mark.parametrize(
    ("scope", "given", "meets"),
    [
        (Scope("tenant", "acme"), hold(domain="user", subject=ALICE), True),
        (Scope("tenant", "acme"), hold(tenant="beta"), False),
        (Scope("domain", "acme", "user"), hold(domain="code"), False),
        (Scope("domain", "acme", "user"), hold(), True),
        (Scope("subject", "acme", None, ALICE), hold(subject="b0" * 16), False),
        (Scope("subject", "acme", None, ALICE), hold(domain="user"), True),
    ],
)
def test_a_hold_meets_a_scope_when_something_could_be_in_both(scope, given, meets):
    assert scope.meets(given) is meets


@pytest.mark.parametrize(
    ("store", "ends"),
    [
        (AtStore("s"), "erased"),
        (AtStore("s", held=1), "restricted"),
        (AtStore("s", held=1, error="away"), "open"),
        (AtStore("s", present=1), "open"),
        (AtStore("s", not_reached=["flash:a"]), "open"),
        (AtStore("s", anew=1), "erased"),
        (AtStore("s", destroyed="destroyed, declared by a and b"), "erased"),
    ],
)
def test_it_ends_as_its_worst_store_did(store, ends):
    assert outcome([AtStore("ok"), store], []) == ends


def test_a_key_that_a_hold_keeps_restricts_it():
    assert outcome([], ["user"]) == "restricted"


def test_two_requests_for_the_same_scope_have_different_queries():
    scope = Scope("subject", "acme", None, ALICE)
    assert scope.sha256("2026-03-01T00:00:00.000Z") != scope.sha256("2026-03-01T00:00:00.001Z")


def test_a_receipt_fits_into_the_log_however_large_the_site_is():
    many = range(5000)
    about = {"erasure": "e" * 26, "received": "2026-03-01T00:00:00.000Z", "requested_by": "local:" + "n" * 60}
    made = receipt(
        scope=Scope("tenant", "t" * 63), about=about,
        copies=[
            {"store": "s" * 63, "tier": "flash", "domain": "d" * 63, "site": "p" * 63, "copies": 10**9, "bytes": 10**15}
            for _ in many
        ],
        stores=[AtStore("s" * 63, {"flash": 1, "disk": 1, "ram": 1}, error="x" * 5000) for _ in many],
        keys=[{"domain": "d" * 63, "epoch": "e" * 32, "destroyed_at": "2026", "receipt": "r" * 300} for _ in many],
        flushes=[{"gateway": "g", "engine": "e" * 63, "answered": False, "why": "w" * 5000} for _ in many],
        kept_keys=[],
        backups=[{"id": "b" * 40, "site": "paris", "expires_at": "2026-03-01T00:00:00Z"} for _ in many],
        holds=["h" * 19 for _ in many], unknown_users=0, versions={},
    )  # fmt: skip
    assert len(json.dumps(made)) < MAX_ENTRY - 1000
    assert made["totals"] == {"copies": 5000 * 10**9, "bytes": 5000 * 10**15, "rows": 5000}
    assert any("more" in line for line in made["not_covered"])


def test_what_waits_is_tried_less_and_less_often_and_never_given_up():
    waits = [wait(attempts).total_seconds() / 60 for attempts in (0, 1, 2, 3, 7, 8, 1000)]
    assert waits == [0, 4, 8, 16, 256, 360, 360]
