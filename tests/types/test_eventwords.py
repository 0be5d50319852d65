"""What faces say of an event in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.types.eventwords import FIELDS, detail

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
DATA = st.dictionaries(
    st.text(max_size=9), st.recursive(PLAIN, lambda one: st.lists(one) | st.dictionaries(st.text(), one), max_leaves=9)
)


@pytest.mark.parametrize(("kind", "data", "text"), [
    ("access.denied", {"operation": "tenant.create", "code": "KV-API-001"}, "tenant.create; code: KV-API-001"),
    ("hold.set", {"hold": "h-20260301-1f2e3d4c", "reason": "a lawsuit", "domain": None, "until": None},
     "h-20260301-1f2e3d4c; reason: a lawsuit"),
    ("account.created", {"name": "ann", "roles": ["approver", "dpo"], "tenant": None, "until": None},
     "ann; roles: approver, dpo"),
    ("erasure.closed", {"erasure": "e-1", "receipt": {"scope": {"kind": "subject"}, "outcome": "erased", "due": "x"}},
     "e-1; kind: subject; outcome: erased"),
    ("policy.activated", {"changes": [{"section": "sites"}, {"section": "places"}], "sha256": "0f" * 32, "reason": ""},
     "changes: 2 entries"),
    ("epoch.created", {"domain": "user", "epoch": "0f" * 16}, "domain: user; 0f0f0f0f0f0f…"),
    ("audit.read", {"kind": "tenant.*", "limit": 100}, "kind: tenant.*; limit: 100"),
    ("key.revoked", {"ids": list("abcde")}, "ids: a, b, c and 2 more"),
    ("inventory.compared", {"store": "s1", "missing": 0}, "store: s1; missing: 0"),
    ("what.nobody-knows", {"why": "w" * 200, "done": True}, f"why: {'w' * 89}…; done: yes"),
    ("tenant.offboarding", {}, ""),
    ("tenant.created", {"entity": "Acme SAS", "quota_bytes": 1 << 40, "domains": ["user"]},
     "entity: Acme SAS; quota bytes: 1.0 TiB; domains: user"),
    ("move.store-ended", {"store": "s1", "moved": 2, "bytes": 1536}, "store: s1; moved: 2; bytes: 1.5 KiB"),
    ("key.created", {"id": "k1", "label": "", "expires_at": "2027-02-28T10:48:22.460Z"},
     "k1; expires at: 2027-02-28T10:48:22Z"),
])  # fmt: skip
def test_the_fields_that_matter(kind, data, text):
    assert detail(kind, data) == text


@given(st.sampled_from([*FIELDS, "other.kind"]), DATA)
def test_whatever_an_event_has_is_a_line_or_less(kind, data):
    assert len(detail(kind, data)) <= (len(data) + 9) * 4 * 100
