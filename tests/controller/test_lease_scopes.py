"""Which scopes a connector may have leases of, and that a controller that runs reads its settings again."""

import threading
import time

import pytest
import yaml

from kvctl.connector.keys import Identity
from kvctl.controller import settings as settings_file
from kvctl.controller.settings import EngineSettings
from kvctl.types.errors import RefusedError
from kvctl.types.requests import EpochRotate, LeaseRequest, LeaseScopes, Nothing, TenantChange, TenantCreate
from tests.controller.people import OPERATOR, controller, service

GPU1 = Identity.generate().public.hex()


@pytest.fixture
def ctl(tmp_path):
    with controller(tmp_path, connectors={"gpu1": GPU1}) as made:
        made.call("tenant.create", OPERATOR, TenantCreate("acme", "Acme SAS", domains=["common", "user"]))
        yield made


def scopes(ctl, after=0, wait=0.0):
    return ctl.call("lease.scopes", service("gpu1"), LeaseScopes(GPU1, after, wait))


def test_every_domain_of_every_active_tenant(ctl):
    found = scopes(ctl)["scopes"]
    assert [(one["tenant"], one["domain"]) for one in found] == [("acme", "common"), ("acme", "user")]
    leased = ctl.call("lease.issue", service("gpu1"), LeaseRequest("acme", "user", GPU1))
    assert leased["epoch"] == found[1]["epoch"]


def test_a_suspended_tenant_is_left_out_and_comes_back(ctl):
    ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))
    assert scopes(ctl)["scopes"] == []
    ctl.call("tenant.resume", OPERATOR, TenantChange("acme"))
    assert len(scopes(ctl)["scopes"]) == 2


def test_a_new_epoch_is_another_scope(ctl):
    before = scopes(ctl)
    ctl.call("key.rotate", OPERATOR, EpochRotate("acme", "user"))
    after = scopes(ctl, before["number"])
    assert after["number"] > before["number"]
    assert after["scopes"][0] == before["scopes"][0]
    assert after["scopes"][1]["epoch"] != before["scopes"][1]["epoch"]


def test_who_waits_hears_of_a_change(ctl):
    number, heard = scopes(ctl)["number"], []
    waiting = threading.Thread(target=lambda: heard.append(scopes(ctl, number, 20.0)))
    waiting.start()
    deadline = time.monotonic() + 10
    while not ctl.books.on_commit:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))
    waiting.join(20)
    assert heard[0]["scopes"] == []


@pytest.mark.parametrize(("name", "holder"), [("gpu2", GPU1), ("gpu1", "ab" * 32)])
def test_others_are_told_nothing(ctl, name, holder):
    with pytest.raises(RefusedError) as caught:
        ctl.call("lease.scopes", service(name), LeaseScopes(holder))
    assert caught.value.code == "KV-TEN-030"


def test_a_connector_that_is_added_while_it_runs_is_known_at_once(ctl):
    new = Identity.generate().public.hex()
    settings_file.add_connector(ctl.directory, "gpu2", new)
    assert ctl.call("lease.scopes", service("gpu2"), LeaseScopes(new))["scopes"]
    settings_file.remove(ctl.directory, "connectors", "gpu2")
    with pytest.raises(RefusedError):
        ctl.call("lease.scopes", service("gpu2"), LeaseScopes(new))


def test_writing_what_is_there_leaves_the_file_alone(ctl):
    made = EngineSettings(admin="https://10.0.0.1:8444", netns="lab")
    settings_file.add_gateway(ctl.directory, "gpu1-gateway", made)
    before = settings_file.stamp(ctl.directory)
    settings_file.add_gateway(ctl.directory, "gpu1-gateway", made)
    assert settings_file.stamp(ctl.directory) == before
    written = yaml.safe_load((ctl.directory / settings_file.FILE).read_text())
    assert written["gateways"] == {"gpu1-gateway": {"admin": "https://10.0.0.1:8444", "netns": "lab"}}
    assert ctl.settings.gateways["gpu1-gateway"] == made


def test_a_settings_file_that_is_being_written_stops_nothing(ctl):
    settings_file.add_connector(ctl.directory, "gpu2", Identity.generate().public.hex())
    known = ctl.settings.connectors
    path = ctl.directory / settings_file.FILE
    whole = path.read_text()
    path.write_text("connectors: {gpu2: [")
    ctl.call("tenant.suspend", OPERATOR, TenantChange("acme"))
    assert ctl.settings.connectors == known
    assert ctl.call("controller.status", OPERATOR, Nothing())["settings_trouble"]["code"] == "KV-CTL-006"
    path.write_text(whole.replace("gpu2", "gpu3"))
    assert "gpu3" in ctl.settings.connectors
    assert ctl.call("controller.status", OPERATOR, Nothing())["settings_trouble"] is None
