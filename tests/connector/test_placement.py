import hashlib
import json
import math
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.connector.keys import Identity
from kvctl.connector.placement import Copies, Node, PoolMap, canonical, sign_map, verified_map
from kvctl.types.chunks import Kind, TierName
from kvctl.types.errors import RefusedError, UsageError

RUNS = [hashlib.sha256(bytes((number >> 8, number & 255))).digest() for number in range(4000)]


def node(name: str, weight: int = 1) -> Node:
    return Node(name, (f"tcp:{name}:7740",), "ab" * 32, weight, (TierName.FLASH,))


def pool(*nodes: Node, stripe: int = 8, version: int = 1) -> PoolMap:
    return PoolMap(version, nodes, stripe)


def owner(pool_map: PoolMap, run: bytes) -> str:
    return pool_map.owners(run, 1)[0].name


FIVE = [node(f"storage{number}", weight) for number, weight in enumerate((1, 1, 2, 3, 5), 1)]


class TestGolden:
    """Fixed for good: a change of any of these moves every chunk of every site."""

    def test_owners(self) -> None:
        names = [[found.name[-1] for found in pool(*FIVE).owners(run, 3)] for run in RUNS[:12]]
        assert ["".join(found) for found in names] == OWNERS

    def test_the_score_as_documented(self) -> None:
        run = RUNS[0]

        def score(of: Node) -> float:
            digest = hashlib.sha256(b"kvctl placement 1\0" + run + of.name.encode()).digest()
            top = int.from_bytes(digest[:8], "big") // 2**12
            return -of.weight / math.log((top + 0.5) / 2**52)

        best = sorted(FIVE, key=score, reverse=True)
        assert pool(*FIVE).owners(run, 5) == best

    def test_canonical_text(self) -> None:
        text = canonical(PoolMap(7, (node("a", 3),)))
        assert text == (
            b'{"copies":{"common":2,"private":1},"nodes":[{"addresses":["tcp:a:7740"],"name":"a",'
            b'"public_key":"' + b"ab" * 32 + b'","tiers":["flash"],"weight":3}],"schema":"kvctl.pool/1",'
            b'"stripe":8,"version":7}'
        )


OWNERS = ["435", "514", "345", "214", "452", "541", "542", "531", "253", "543", "345", "254"]


class TestRuns:
    def test_neighbours_of_one_stripe_are_of_one_run(self) -> None:
        chain = RUNS[:20]
        four = pool(*FIVE, stripe=4)
        assert [four.run(chain, position) for position in (0, 3, 4, 7, 19)] == [
            chain[0],
            chain[0],
            chain[4],
            chain[4],
            chain[16],
        ]

    @given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 12))
    def test_prompts_with_a_common_prefix_find_it_at_the_same_nodes(self, common: int, more: int, stripe: int) -> None:
        one, other = RUNS[: common + more], RUNS[:common] + RUNS[100 : 100 + more]
        five = pool(*FIVE, stripe=stripe)
        for position in range(common):
            assert five.run(one, position) == five.run(other, position)

    def test_a_run_id_is_a_key(self) -> None:
        with pytest.raises(ValueError, match="32 bytes"):
            pool(*FIVE).owners(b"short", 1)


class TestMovement:
    @given(st.sets(st.text("abcdef", min_size=1, max_size=4), min_size=2, max_size=8), st.integers(0, 2**32))
    def test_a_new_node_only_takes(self, names: set[str], seed: int) -> None:
        *old, new = [node(name, 1 + (seed + len(name)) % 5) for name in sorted(names)]
        before, after = pool(*old), pool(*old, new)
        for run in RUNS[:200]:
            assert owner(after, run) in (owner(before, run), new.name)

    def test_a_lost_node_moves_only_its_own_to_the_next_in_line(self) -> None:
        before, after = pool(*FIVE), pool(*FIVE[:-1])
        for run in RUNS:
            first, second = before.owners(run, 2)
            assert owner(after, run) == (second.name if first.name == "storage5" else first.name)

    def test_a_heavier_node_only_takes(self) -> None:
        heavier = [*FIVE[:-1], node("storage5", 9)]
        for run in RUNS[:1000]:
            assert owner(pool(*heavier), run) in (owner(pool(*FIVE), run), "storage5")

    def test_order_address_and_key_of_a_node_change_nothing(self) -> None:
        moved = Node("storage5", ("unix:/run/s",), "cd" * 32, 5)
        assert [owner(pool(moved, *FIVE[:-1]), run) for run in RUNS[:300]] == [
            owner(pool(*FIVE), run) for run in RUNS[:300]
        ]


class TestBalance:
    def test_shares_follow_weights(self) -> None:
        counts = Counter(owner(pool(*FIVE), run) for run in RUNS)
        for each in FIVE:
            expected = len(RUNS) * each.weight / 12
            assert abs(counts[each.name] - expected) < 4 * math.sqrt(expected)

    def test_a_node_without_weight_owns_nothing(self) -> None:
        idle = pool(node("a", 0), node("b"))
        assert {found.name for run in RUNS[:100] for found in idle.owners(run, 2)} == {"b"}


class TestCopies:
    @given(st.integers(1, 7), st.integers(1, 9), st.sampled_from(RUNS))
    def test_copies_are_distinct_nodes_and_the_first_ones_stay(self, nodes: int, copies: int, run: bytes) -> None:
        some = pool(*[node(f"n{number}") for number in range(nodes)])
        names = [found.name for found in some.owners(run, copies)]
        assert len(names) == len(set(names)) == min(nodes, copies)
        assert names == [found.name for found in some.owners(run, nodes)][:copies]

    def test_by_kind(self) -> None:
        assert [Copies().of(kind) for kind in (Kind.PRIVATE, Kind.COMMON)] == [1, 2]

    def test_no_copy_is_no_map(self) -> None:
        with pytest.raises(ValueError, match="at least one"):
            Copies(0, 1)


class TestFile:
    def test_a_signed_map_comes_back(self) -> None:
        controller = Identity.generate()
        signed = sign_map(pool(*FIVE), controller)
        assert verified_map(signed, {controller.public}) == pool(*FIVE)

    def test_defaults_may_be_left_out_and_are_signed_all_the_same(self) -> None:
        controller = Identity.generate()
        tree = json.loads(sign_map(pool(*FIVE), controller))
        del tree["pool"]["stripe"]
        assert verified_map(json.dumps(tree).encode(), [controller.public]) == pool(*FIVE)

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("version",), 2),
            (("stripe",), 9),
            (("copies", "common"), 1),
            (("nodes", 0, "weight"), 100),
            (("nodes", 0, "public_key"), "cd" * 32),
            (("nodes", 0, "addresses", 0), "tcp:evil:7740"),
        ],
    )
    def test_any_change_is_refused(self, path: tuple[str | int, ...], value: object) -> None:
        controller = Identity.generate()
        tree = json.loads(sign_map(pool(*FIVE), controller))
        place = tree["pool"]
        for step in path[:-1]:
            place = place[step]
        assert place[path[-1]] != value
        place[path[-1]] = value
        with pytest.raises(RefusedError, match="KV-CONN-031"):
            verified_map(json.dumps(tree).encode(), {controller.public}, where="/etc/kvctl/pool.json")

    def test_a_stranger_is_refused(self) -> None:
        with pytest.raises(RefusedError, match="KV-CONN-031"):
            verified_map(sign_map(pool(*FIVE), Identity.generate()), {Identity.generate().public})

    @pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"signer": "zz", "signature": "", "pool": null}'])
    def test_what_is_no_map_is_said_to_be_none(self, text: bytes) -> None:
        with pytest.raises(UsageError, match="KV-CONN-030"):
            verified_map(text, {bytes(32)})

    @pytest.mark.parametrize(
        "change",
        [
            {"nodes": [{"name": "a", "addresses": [], "public_key": "ab" * 32}]},
            {"nodes": [{"name": "a", "addresses": ["http://x"], "public_key": "ab" * 32}]},
            {"nodes": [{"name": "a", "addresses": ["tcp:x:1"], "public_key": "ab"}]},
            {"nodes": [{"name": "a", "addresses": ["tcp:x:1"], "public_key": "ab" * 32}] * 2},
            {"nodes": [{"name": name, "addresses": ["tcp:x:1"], "public_key": "ab" * 32} for name in "ab"]},
            {"nodes": [{"name": "a", "addresses": ["tcp:x:1"], "public_key": "ab" * 32, "weight": 1 << 53}]},
            {"stripe": 0},
            {"unheard": 1},
        ],
    )
    def test_an_impossible_map_does_not_load(self, change: dict[str, object]) -> None:
        tree = {"schema": "kvctl.pool/1", "version": 1, "nodes": [], **change}
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps(tree), type=PoolMap)
