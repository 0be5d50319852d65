"""What a node says while it is deployed to is judged; what is done is on record; taking back does not stop half way."""

import json
from types import SimpleNamespace

import pytest

from kvctl.client.direct import Direct
from kvctl.connector.keys import Identity
from kvctl.controller import connectors, deploy, deploy_revert, deploy_serving, deploy_steps, engine_view
from kvctl.controller import settings as settings_file
from kvctl.controller.books import site_identity
from kvctl.controller.deploy_steps import Enrolled, Keys
from kvctl.controller.engine_view import Source
from kvctl.controller.pki import Services, new_request
from kvctl.fleet.remote.ssh import Result
from kvctl.store.config import parse as store_config
from kvctl.types.errors import KvctlError, RefusedError, UnreachableError, UsageError

KEY = "ab" * 32
TARGET = SimpleNamespace(name="gpu1", node="gpu1", user="root")


class Ledger:
    def __init__(self):
        self.events = []

    def record(self, kind, data, outcome="ok"):
        self.events.append((kind, dict(data), outcome))

    def note(self, kind, data, outcome="ok"):
        self.record(kind, data, outcome)
        return True


@pytest.fixture
def site(tmp_path):
    (tmp_path / "site").mkdir()
    about = SimpleNamespace(site=SimpleNamespace(name="par1"), nodes=())
    return SimpleNamespace(directory=tmp_path / "site", inventory=about, ledger=Ledger())


@pytest.mark.parametrize(
    "said",
    [
        b"", b"Welcome to gpu1\n{}", b"[]", b"null", b'{"identity": "root"}', b'{"identity": 7}',
        json.dumps({"identity": "ab" * 31}).encode(), json.dumps({"identity": KEY, "request": 7}).encode(),
    ],
)  # fmt: skip
def test_a_node_that_says_no_key_is_not_enrolled(monkeypatch, said):
    monkeypatch.setattr(deploy_steps, "run_as", lambda *_, **__: Result(0, said, b""))
    with pytest.raises(KvctlError) as caught:
        deploy_steps.enrol(TARGET, "python3", "/opt/kvctl/x", Keys("kvctl", "/etc/kvctl/k"))
    assert caught.value.code == "KV-DEP-024"


def test_what_a_node_says_of_its_keys(monkeypatch):
    said = json.dumps({"identity": KEY, "request": "PEM"}).encode()
    monkeypatch.setattr(deploy_steps, "run_as", lambda *_, **__: Result(0, said, b""))
    assert deploy_steps.enrol(TARGET, "python3", "/opt/kvctl/x", Keys("u", "/k", "/t")) == Enrolled(KEY, "PEM")


def enrolled(identity=KEY):
    return Enrolled(identity, new_request("x")[1].decode())


def test_a_connector_with_anothers_key_is_refused_before_stores_hear_of_it(site):
    connectors.enrol_connector(site, "gpu1-engine", enrolled())
    own = site_identity(site.directory / "site.key").public.hex()
    for taken in (KEY, own):
        with pytest.raises(RefusedError) as caught:
            connectors.enrol_connector(site, "gpu2-engine", enrolled(taken))
        assert caught.value.code == "KV-DEP-025"
    assert settings_file.read(site.directory, site="par1").connectors == {"gpu1-engine": KEY}
    assert Services(site.directory / "tls").names() == ["gpu1-engine"]
    connectors.enrol_connector(site, "gpu1-engine", enrolled())


def test_who_gets_a_certificate_is_on_record(site):
    mine = enrolled()
    connectors.enrol_connector(site, "gpu1-engine", mine)
    connectors.enrol_connector(site, "gpu1-engine", mine)
    connectors.forget(site, "gpu1-engine", "connectors")
    (added, about, _), (removed, gone, _) = site.ledger.events
    assert (added, about["name"], about["identity"]) == ("deploy.enrolled", "gpu1-engine", KEY)
    assert len(about["certificate_sha256"]) == 64
    assert (removed, gone["name"]) == ("deploy.forgotten", "gpu1-engine")


def test_what_cannot_be_recorded_is_not_certified(site):
    def away(*_):
        raise UnreachableError("KV-CTL-032", "the controller does not answer")

    site.ledger.record = away
    with pytest.raises(UnreachableError) as caught:
        connectors.enrol_connector(site, "gpu1-engine", enrolled())
    assert caught.value.code == "KV-CTL-070"
    assert Services(site.directory / "tls").names() == []
    assert settings_file.read(site.directory, site="par1").connectors == {}


def test_a_node_whose_services_could_not_be_named_is_refused_before_it_is_changed():
    node = SimpleNamespace(name="g" * 60)
    site = SimpleNamespace(
        select=lambda _: (node,), inventory=SimpleNamespace(role_of=lambda _: SimpleNamespace(kind="gpu"))
    )
    with pytest.raises(UsageError) as caught:
        deploy_serving.gpu_nodes(site, (node.name,))
    assert caught.value.code == "KV-CTL-021"


class Session:
    def __init__(self, result):
        self.result = result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def run(self, *_, **__):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize(
    "result",
    [
        Result(0, b"hello from sitecustomize\n", b""), Result(0, b"[]", b""), Result(0, b'{"python": "3.11"}', b""),
        UnreachableError("KV-SSH-004", "gpu1 did not answer in time"),
    ],
    ids=["chatter", "list", "incomplete", "silent"],
)  # fmt: skip
def test_an_engine_that_does_not_say_what_it_is_concerns_its_node_alone(monkeypatch, result):
    monkeypatch.setattr(engine_view.ssh, "connect", lambda *_, **__: Session(result))
    monkeypatch.setattr(engine_view.ssh, "as_root", lambda _, command: command)
    seen, why = engine_view.look(TARGET, Source("/opt/engine"), None)
    assert seen is None
    assert why


@pytest.mark.parametrize(
    "home", ["/opt/my engine", "/opt/50%", "/opt/a\nUser=root", "/opt/$HOME", "/root/engine", "/home/a/e", "/tmp/e"]
)
def test_a_directory_that_the_unit_could_not_use_is_no_engine(home):
    with pytest.raises(UsageError) as caught:
        Source.of(home)
    assert caught.value.code == "KV-DEP-015"


def reverting(monkeypatch, exit_code=0):
    """`revert` with nodes that answer: what it carried out, in order."""
    done = []
    monkeypatch.setattr(
        deploy_revert, "observe", lambda _, nodes: SimpleNamespace(facts={n.name: None for n in nodes}, unreachable=())
    )
    monkeypatch.setattr(deploy_revert, "revert_plan", lambda *_: "revert")
    monkeypatch.setattr(deploy_revert, "tell_stores", lambda _: "stores")

    def provision(_site, plan, **_):
        done.append(plan)
        return {"id": f"r{len(done)}", "exit_code": exit_code if plan == "revert" else 0}

    monkeypatch.setattr(deploy_revert, "provision", provision)
    return done


NODES = (SimpleNamespace(name="gpu1"),)


def test_a_store_that_is_away_does_not_keep_engines_running(monkeypatch, site):
    done = reverting(monkeypatch)

    def away(_):
        raise UnreachableError("KV-SSH-001", "storage1 did not answer")

    monkeypatch.setattr(deploy_revert, "tell_stores", away)
    with pytest.raises(UnreachableError):
        deploy_revert.revert(site, "serving", NODES, on_event=print)
    assert done == ["revert"]


def test_a_revert_that_failed_on_the_node_is_on_record_as_failed(monkeypatch, site):
    for code, outcome in ((1, "failed"), (0, "ok")):
        reverting(monkeypatch, exit_code=code)
        direct = Direct(site.directory, site.directory)
        direct.__dict__["site"] = site
        direct._deployed(
            "serving, reverted", ["gpu1"], "reverted",
            lambda: deploy_revert.revert(site, "serving", NODES, on_event=print),
        )  # fmt: skip
        assert site.ledger.events[-1][::2] == ("deploy.ended", outcome)


def test_settings_written_by_two_deployments_at_once_are_all_kept(tmp_path):
    import threading

    keys = {f"gpu{n}-engine": Identity.generate().public.hex() for n in range(24)}
    start = threading.Barrier(len(keys))

    def add(name):
        start.wait()
        settings_file.add_connector(tmp_path, name, keys[name])

    threads = [threading.Thread(target=add, args=(name,)) for name in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert settings_file.read(tmp_path, site="par1").connectors == keys


def test_a_deployed_store_does_what_the_controller_says_and_nobody_else_of_the_ca():
    node = SimpleNamespace(name="storage1", address="10.0.0.2", addresses={})
    facts = SimpleNamespace(host=SimpleNamespace(memory=SimpleNamespace(or_none=lambda: None)))
    one = deploy.Wanted(node, facts, None, (deploy.Mount("/srv/kvctl/S1", 1 << 40, "S1", "flash"),))
    found = store_config(deploy.config(one, "par1", KEY, {"kvctld": KEY}).encode(), "kvstored.yaml")
    assert found.admin.tls.clients == ("kvctld",)
