"""kvctl account with an OpenID provider: who is bound to whom, as an administrator does and sees it."""

import pytest

from tests.cli.governed import Kvctl

ISSUER = "https://login.example.org"
SETTINGS = f"""oidc:
  issuer: {ISSUER}
  client_id: kvctl
  client_secret_file: /nonexistent
  console: https://kv.example.org
"""


@pytest.fixture
def kvctl(tmp_path):
    made = Kvctl(tmp_path)
    made.site.mkdir(parents=True)
    (made.site / "controller.yaml").write_text(SETTINGS)
    return made


def test_an_account_is_bound_unbound_and_shown(kvctl):
    made = kvctl("account", "create", "cy", "--role", "approver", "--oidc-subject", "4f1c2a7e")
    assert made.stdout == ""
    assert f"cy: 4f1c2a7e at {ISSUER} signs in to it" in made.stderr
    assert "4f1c2a7e" in kvctl("account", "ls").stdout
    (row,) = kvctl.document("account", "ls")["accounts"]
    assert (row["oidc_issuer"], row["oidc_subject"], row["joined"]) == (ISSUER, "4f1c2a7e", True)
    assert "KV-API-088" in kvctl("account", "change", "cy", "--new-link", "--yes", code=7).stderr
    assert (
        "KV-API-087" in kvctl("account", "create", "di", "--role", "dpo", "--oidc-subject", "4f1c2a7e", code=7).stderr
    )
    assert "/join/" in kvctl("account", "change", "cy", "--unbind-oidc", "--new-link", "--yes").stdout
    assert "oidc_subject" not in kvctl("account", "ls").stdout
    kvctl("account", "change", "cy", "--oidc-subject", "another", "--yes")
    assert kvctl.document("account", "ls")["accounts"][0]["oidc_subject"] == "another"
    dry = kvctl("account", "change", "cy", "--unbind-oidc", "--dry-run")
    assert "change oidc of cy" in dry.stdout + dry.stderr
    assert kvctl.document("account", "ls")["accounts"][0]["oidc_subject"] == "another"


def test_without_a_provider_an_account_is_not_bound(kvctl):
    (kvctl.site / "controller.yaml").unlink()
    assert "KV-API-086" in kvctl("account", "create", "cy", "--role", "dpo", "--oidc-subject", "x", code=2).stderr
