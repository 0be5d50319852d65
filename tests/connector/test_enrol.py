"""Keys are made once, where they are used, and only what is public is said."""

import json

import pytest
from cryptography import x509

from kvctl.connector import enrol
from kvctl.connector.keys import Identity


def run(capsys, tmp_path, *more):
    code = enrol.main(["--identity", str(tmp_path / "id"), "--tls-key", str(tmp_path / "tls"), *more])
    return code, capsys.readouterr()


def test_enrolling_twice_keeps_the_keys(capsys, tmp_path):
    args = ("--name", "storage1", "--san", "10.0.0.1", "--san", "storage1.example")
    _, first = run(capsys, tmp_path, *args)
    _, second = run(capsys, tmp_path, *args)
    one, two = json.loads(first.out), json.loads(second.out)
    assert one["identity"] == two["identity"] == Identity.load(tmp_path / "id").public.hex()
    keys = [x509.load_pem_x509_csr(said["request"].encode()).public_key() for said in (one, two)]
    assert keys[0] == keys[1]


def test_the_request_names_the_node_and_its_addresses(capsys, tmp_path):
    _, said = run(capsys, tmp_path, "--name", "storage1", "--san", "10.0.0.1", "--san", "storage1.example")
    request = x509.load_pem_x509_csr(json.loads(said.out)["request"].encode())
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert request.is_signature_valid
    assert [str(name.value) for name in names] == ["10.0.0.1", "storage1.example"]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_nothing_private_is_printed_and_an_open_file_is_refused(capsys, tmp_path, mode):
    run(capsys, tmp_path)
    (tmp_path / "id").chmod(mode)
    code, said = run(capsys, tmp_path)
    assert "PRIVATE" not in said.out + said.err
    assert code == (0 if mode == 0o600 else 7)
