"""What kvctl deploy refuses before anything is read or changed."""

from pathlib import Path

import pytest

from kvctl.types.errors import ExitCode
from tests.cli.governed import Kvctl
from tests.fleet.remote.conftest import free_port

URL = "https://10.0.0.1:8443"


@pytest.fixture
def kvctl(tmp_path: Path) -> Kvctl:
    """A site of one GPU node that nobody answers for, and a description."""
    nodes = f"- {{name: gpu1, address: 127.0.0.1, port: {free_port()}, role: gpu}}\n"
    (tmp_path / "inventory.yaml").write_text("site: {name: local}\nnodes:\n" + nodes)
    (tmp_path / "serving.yaml").write_text("schema: 1\nengine: /opt/e\nmodel: {name: tiny, directory: /opt/m}\n")
    return Kvctl(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "\n", "kv-acme-id-SECRET\nkv-globex-id-SECRET", "{api_key: SECRET}", "kv-SECRET…"]
)
def test_a_file_that_holds_no_key_is_refused_and_not_shown(kvctl: Kvctl, text: str):
    (kvctl.folder / "key").write_text(text)
    done = kvctl("deploy", "gateway", "-f", "serving.yaml", "--kvctld", URL, "--key-file", "key", code=ExitCode.USAGE)
    assert "KV-DEP-023" in done.stderr
    assert "SECRET" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "url", ["10.0.0.1:8443", "http://10.0.0.1:8443", "https://", "https://a b", "https://h:8443/v1", "https://h:1\nUser=x",
            "https://h%n:1", "https://h:99999"],
)  # fmt: skip
def test_a_controller_that_nodes_could_not_ask_is_refused(kvctl: Kvctl, url: str):
    done = kvctl("deploy", "serving", "-f", "serving.yaml", "--kvctld", url, "--yes", code=ExitCode.USAGE)
    assert "KV-DEP-022" in done.stderr


@pytest.mark.parametrize("url", [URL, "https://kvctld.par1.example:8443", "https://kvctld", "https://[fd00::1]:8443"])
def test_what_a_controllers_address_looks_like(url: str):
    from kvctl.cli.deploy import address_for_nodes

    assert address_for_nodes(url) == url


@pytest.mark.parametrize("how", ["--dry-run", "--yes"])
def test_a_gateway_is_not_taken_from_engines_that_stay(kvctl: Kvctl, how: str):
    kvctl.site.mkdir(parents=True)
    (kvctl.site / "controller.yaml").write_text(
        f"connectors: {{gpu1-engine: '{'ab' * 32}'}}\ngateways: {{gpu1-gateway: {{admin: 'unix:/nowhere'}}}}\n"
    )
    before = (kvctl.site / "controller.yaml").read_bytes()
    done = kvctl("deploy", "gateway", "--revert", how, code=ExitCode.REFUSED)
    assert "KV-DEP-026" in done.stderr
    assert "kvctl deploy serving --revert --limit gpu1" in done.stderr
    assert (kvctl.site / "controller.yaml").read_bytes() == before
    (kvctl.site / "controller.yaml").write_text("gateways: {gpu1-gateway: {admin: 'unix:/nowhere'}}\n")
    assert "gpu1" in kvctl("deploy", "gateway", "--revert", "--dry-run").stdout
