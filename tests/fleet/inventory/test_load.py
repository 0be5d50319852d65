"""Loading: what is accepted, what is refused, and that the operator is told where."""

import copy
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kvctl.fleet.inventory.load import load, load_text
from kvctl.fleet.inventory.problems import CODES, InventoryError
from kvctl.types.errors import UsageError

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "inventory.example.yaml"
FIVE_LINES = """\
site: {name: oslo, country: NO}
nodes:
  - {name: store1, address: 10.0.0.11, role: storage}
  - {name: store2, address: 10.0.0.12, role: storage}
  - {name: gpu1, address: 10.0.0.21, role: gpu}
"""


def problems(text: str) -> list[tuple[int, str, str]]:
    """(line, code, field) of everything the loader says about a text that it must refuse."""
    with pytest.raises(InventoryError) as caught:
        load_text(text)
    return [(p.line, p.code, p.field) for p in caught.value.problems]


def message(text: str) -> str:
    with pytest.raises(InventoryError) as caught:
        load_text(text)
    return str(caught.value)


def test_five_lines_are_an_inventory() -> None:
    inventory = load_text(FIVE_LINES).inventory
    assert [inventory.role_of(node).kind for node in inventory.nodes] == ["storage", "storage", "gpu"]
    assert inventory.site.country == "NO"
    assert inventory.fabric.lossless_priority == 3


def test_a_definition_replaces_the_built_in_role() -> None:
    loaded = load_text(FIVE_LINES + "roles: {gpu: {kind: gpu, gpus: 8}}\n")
    assert loaded.inventory.roles["gpu"].gpus == 8
    assert loaded.inventory.roles["storage"].kind == "storage"


def test_the_example_is_valid_and_knows_its_lines() -> None:
    loaded = load(EXAMPLE)
    text = EXAMPLE.read_text().splitlines()
    assert {node.role for node in loaded.inventory.nodes} == {"storage", "gpu"}
    for index, node in enumerate(loaded.inventory.nodes):
        assert f"name: {node.name}" in text[loaded.line("nodes", index, "name") - 1]
    assert "22.43.2026" in text[loaded.line("roles", "storage", "nic", "firmware", "MT_0000000359", "version") - 1]
    assert loaded.line("nodes", 0, "port") == loaded.line("nodes", 0)


def test_the_hash_is_that_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(FIVE_LINES)
    first = load(file).sha256
    file.write_text(FIVE_LINES + "# a comment\n")
    assert load(file).sha256 != first
    assert len(first) == 64


def test_text_fields_keep_what_is_written() -> None:
    text = FIVE_LINES + (
        "fabric: {ecn: off}\n"
        "roles:\n"
        "  storage:\n"
        "    kind: storage\n"
        "    sysctls: {net.ipv4.tcp_mtu_probing: 1, a: 0x10, b: 1:30}\n"
        "    nic: {firmware: {0123: {version: 28.10}}}\n"
        "    drives: {serials: [0123, 1e5, 2026-01-01, true]}\n"
    )
    inventory = load_text(text).inventory
    role = inventory.roles["storage"]
    assert inventory.fabric.ecn == "off"
    assert role.sysctls == {"net.ipv4.tcp_mtu_probing": "1", "a": "0x10", "b": "1:30"}
    assert role.nic.firmware["0123"].version == "28.10"
    assert role.drives is not None
    assert role.drives.serials == ("0123", "1e5", "2026-01-01", "true")


@pytest.mark.parametrize(("word", "value"), [("yes", True), ("off", False), ("True", True), ("NO", False)])
def test_boolean_words(word: str, value: bool) -> None:
    assert load_text(FIVE_LINES.replace("country: NO", f"lab: {word}")).inventory.site.lab is value


@pytest.mark.parametrize("number", ["0x10", "010", "0o17", "9_000", "2:30:00", "9000.5", '"9000"', "9e3", "12", "yes"])
def test_a_number_is_a_plain_decimal(number: str) -> None:
    assert problems(FIVE_LINES + f"fabric: {{mtu: {number}}}\n") == [(6, "KV-INV-007", "fabric.mtu")]


def test_ambiguous_numbers_are_explained() -> None:
    assert "read differently by different YAML tools" in message(FIVE_LINES + "fabric: {mtu: 010}\n")
    assert "quoted, so text" in message(FIVE_LINES + 'fabric: {mtu: "9000"}\n')


def test_all_errors_at_once_in_order_of_lines() -> None:
    text = (
        "site: {name: Oslo City, country: Norway}\n"
        "fabric:\n"
        "  mtu: 100\n"
        "  lossless_prio: 3\n"
        "  mtu: 9000\n"
        "nodes:\n"
        "  - {name: a, address: 10.0.0.1, role: storage}\n"
        "  - {name: a, address: 10.0.0.1, role: storag, pool: cold}\n"
        "  - {name: b, role: gpu, port: 70000}\n"
    )
    assert problems(text) == [
        (1, "KV-INV-007", "site.name"),
        (1, "KV-INV-007", "site.country"),
        (3, "KV-INV-007", "fabric.mtu"),
        (4, "KV-INV-006", "fabric.lossless_prio"),
        (5, "KV-INV-005", "fabric.mtu"),
        (8, "KV-INV-008", "nodes[1].name"),
        (8, "KV-INV-010", "nodes[1].address"),
        (8, "KV-INV-009", "nodes[1].role"),
        (8, "KV-INV-009", "nodes[1].pool"),
        (9, "KV-INV-007", "nodes[2].address"),
        (9, "KV-INV-007", "nodes[2].port"),
    ]
    shown = message(text)
    assert "inventory.yaml:3:8 fabric.mtu: 100; allowed: a whole number 1500 to 9978" in shown
    assert "did you mean 'lossless_priority'?" in shown
    assert "there is no role 'storag'; allowed: gpu | storage" in shown
    assert "node 'a' is listed twice (line 7)" in shown


def test_an_endpoint_is_an_address_and_a_port() -> None:
    other = FIVE_LINES.replace("10.0.0.12", "10.0.0.11")
    assert problems(other) == [(4, "KV-INV-010", "nodes[1].address")]
    assert load_text(other.replace("store2,", "store2, port: 2222,"))
    assert problems(FIVE_LINES.replace("10.0.0.11", "fd00::1").replace("10.0.0.12", "fd00:0::1")) == [
        (4, "KV-INV-010", "nodes[1].address")
    ]


def test_rail_addresses_stand_on_rails_of_the_role() -> None:
    role = "roles: {gpu: {kind: gpu, rails: [{interface: eth1, subnet: 10.9.0.0/24}]}}\n"
    node = "  - {{name: gpu9, address: 10.0.0.29, role: gpu, addresses: {{{}}}}}\n"
    assert load_text(FIVE_LINES + node.format("eth1: 10.9.0.1/24") + role)
    outside = problems(FIVE_LINES + node.format("eth1: 10.8.0.1/24") + role)
    assert outside == [(6, "KV-INV-007", "nodes[3].addresses.eth1")]
    assert problems(FIVE_LINES + node.format("eth2: 10.9.0.1/24") + role)[0][1] == "KV-INV-009"
    assert problems(FIVE_LINES + node.format("eth1: not-one") + role)[0][1] == "KV-INV-007"


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("fabric: {cnp_priority: 3}", "fabric"),
        ("fabric: {ets: {strict: [3]}}", "fabric"),
        ("fabric:", "fabric"),
        ("roles: {Gpu X: {kind: gpu}}", "roles.Gpu X"),
        ("roles: {gpu: {kind: gpu, rails: [{interface: a}, {interface: a}]}}", "roles.gpu"),
        ("roles: {gpu: {kind: gpu, nic: {firmware: {X: {version: 1, image: /a}}}}}", "roles.gpu.nic.firmware.X"),
        ("waivers: [{check: a, reason: because, until: 20260101}]", "waivers[0].until"),
        ("waivers: [{check: a, reason: because, until: 2026-02-30}]", "waivers[0].until"),
        ("version: 2", "version"),
        ("version: true", "version"),
        ("version: 1.0", "version"),
    ],
)
def test_refused_values(line: str, field: str) -> None:
    assert problems(FIVE_LINES + line + "\n") == [(6, "KV-INV-007", field)]


def test_no_nodes_is_an_error_of_its_own() -> None:
    assert problems("site: {name: oslo}\nnodes: []\n") == [(2, "KV-INV-007", "nodes")]
    assert problems("site: {name: oslo}\nnodes: [{address: a, role: gpu}]\n") == [(2, "KV-INV-007", "nodes[0].name")]


@pytest.mark.parametrize("address", ["-oProxyCommand=id", '"a b"', '"a\\nb"', '"{{ x }}"', '""'])
def test_an_address_is_never_an_option_or_a_template(address: str) -> None:
    assert problems(FIVE_LINES.replace("10.0.0.11", address))[0] == (3, "KV-INV-007", "nodes[0].address")


def test_a_secret_in_place_of_a_reference_is_not_printed() -> None:
    shown = message(FIVE_LINES.replace("gpu}", "gpu, bmc: {address: 10.1.1.1, credentials: hunter2}}"))
    assert "nodes[2].bmc.credentials" in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("", "KV-INV-003", 1),
        ("# nothing\n", "KV-INV-003", 1),
        ("a: 1\nb: [1\n", "KV-INV-003", 3),
        ("a: 1\nb: \t- 1\n", "KV-INV-003", 2),
        ("a: *nowhere", "KV-INV-003", 1),
        ("a: !!python/object:os.system x", "KV-INV-003", 1),
        ('a: "\\U00110000"', "KV-INV-003", 1),
        ("a: 1\nb: \x01", "KV-INV-003", 2),
        (FIVE_LINES + "---\n" + FIVE_LINES, "KV-INV-003", 6),
        ("&a [*a]", "KV-INV-004", 1),
        ("[" * 200_000, "KV-INV-004", 1),
        ("- " * 100_000, "KV-INV-004", 1),
        ("? " * 100_000, "KV-INV-004", 1),
        ("{a: " * 100_000, "KV-INV-004", 1),
        ("- a\n" * 300_000, "KV-INV-004", 200_000),
        ("a" * (5 << 20), "KV-INV-004", 1),
        ("- 1", "KV-INV-007", 1),
        ("null", "KV-INV-007", 1),
        ("12", "KV-INV-007", 1),
    ],
)
def test_texts_that_are_no_inventory(text: str, code: str, line: int) -> None:
    began = time.monotonic()
    found = problems(text)
    assert found[0][:2] == (line, code)
    assert time.monotonic() - began < 20


def bomb(levels: int, width: int) -> str:
    lines = ["a0: &a0 [x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        bomb(20, 9),
        bomb(5000, 1),
        "a0: &a0 {x: 1}\n" + "\n".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 60)),
    ],
)
def test_aliases_do_not_explode(text: str) -> None:
    began = time.monotonic()
    assert problems(text)[0][1] == "KV-INV-004"
    assert time.monotonic() - began < 20


def test_anchors_and_merges_work() -> None:
    text = (
        "site: {name: oslo}\n"
        "roles:\n"
        "  storage: &all\n"
        "    kind: storage\n"
        "    addressing: netplan\n"
        "  cold: {<<: *all, addressing: none}\n"
        "nodes:\n"
        "  - {name: a, address: a, role: cold}\n"
    )
    roles = load_text(text).inventory.roles
    assert (roles["cold"].kind, roles["cold"].addressing) == ("storage", "none")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, code in (
        (tmp_path / "absent.yaml", "KV-INV-001"),
        (tmp_path, "KV-INV-002"),
        (Path("a\0b"), "KV-INV-002"),
    ):
        with pytest.raises(UsageError) as caught:
            load(path)
        assert caught.value.code == code
        assert caught.value.exit_code == 2
    (tmp_path / "latin1.yaml").write_bytes("site: {name: ok}\nentity: Bærum\n".encode("latin-1"))
    with pytest.raises(InventoryError) as error:
        load(tmp_path / "latin1.yaml")
    assert (error.value.problems[0].line, error.value.code) == (2, "KV-INV-003")


def try_load(text: str) -> InventoryError | None:
    """None when it loads; any other exception than the lawful one propagates and fails the test."""
    try:
        load_text(text)
    except InventoryError as error:
        return error
    return None


def outcome(text: str) -> None:
    """Whatever the text is, the answer is an inventory or errors that stand inside the text."""
    error = try_load(text)
    if error is None:
        return
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029") + 2
    assert error.problems
    assert all(p.code in CODES and 1 <= p.line <= lines and p.column >= 1 for p in error.problems)
    assert str(error).replace("\n", "").isprintable()


PROPERTY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@PROPERTY
@given(st.text() | st.text(alphabet="ab:-[]{}&*!?|>#'\"%@,\n \t<~01.", max_size=60))
def test_any_text(text: str) -> None:
    outcome(text)


@PROPERTY
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(raw)
    with pytest.raises(UsageError):
        load(file)


@PROPERTY
@given(st.data())
def test_mutations_of_the_example(data: st.DataObject) -> None:
    text = EXAMPLE.read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(st.text(alphabet=":-[]{}&*!?|>#'\"\n a0", max_size=4)) + text[at + cut :]
    outcome(text)


def leaves(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(leaf for key, value in items for leaf in leaves(value, (*path, key)))]


PLAIN = yaml.load(EXAMPLE.read_text(), Loader=yaml.BaseLoader)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@PROPERTY
@given(st.sampled_from(leaves(PLAIN)[1:]), ANYTHING)
@example(("roles", "storage", "rails", 1, "interface"), "\x1f")  # a name that is offered as allowed
def test_any_part_replaced_by_anything(path: tuple[str | int, ...], value: object) -> None:
    data = copy.deepcopy(PLAIN)
    here = data
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    outcome(yaml.safe_dump(data))
