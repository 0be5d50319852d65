"""The tree against RFC 6962's text and the vectors that logs in the field test with."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.ledger.tree import EMPTY_ROOT, WIDTH, Edge, Proofs, consistent, leaf_hash, root_of_inclusion
from tests.ledger import oracle

# Inputs and roots of trees of 1 to 8 leaves: the test data of certificate-transparency's merkle tree.
LEAVES = [bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657",
                                            "606162636465666768696a6b6c6d6e6f")]  # fmt: skip
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


class Tiles:
    """A tree and its tiles in memory, of any width that was once there."""

    def __init__(self, entries, step=97):
        self.edge = Edge()
        self.held = {}
        for at in range(0, len(entries), step):
            tiles = self.edge.extend([leaf_hash(one) for one in entries[at : at + step]])
            self.held |= {(one.level, one.index): one.hashes for one in tiles}
        self.held |= {(one.level, one.index): one.hashes for one in self.edge.partials()}

    def read(self, level, index, width):
        found = self.held[level, index]
        assert len(found) >= width
        return found


def entries(count):
    return [b"entry %d" % i for i in range(count)]


@pytest.mark.parametrize("count", range(1, 9))
def test_roots_of_the_published_vectors(count):
    assert Tiles(LEAVES[:count]).edge.root().hex() == ROOTS[count - 1]
    assert oracle.mth(LEAVES[:count]).hex() == ROOTS[count - 1]


def test_the_empty_tree():
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert Edge().root() == EMPTY_ROOT


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_roots_and_proofs_are_those_of_the_rfc(data):
    size = data.draw(st.one_of(st.integers(1, 600), st.sampled_from([255, 256, 257, 511, 512, 513, 1024])))
    all_of = entries(size)
    tiles = Tiles(all_of, data.draw(st.integers(1, 700)))
    proofs = Proofs(tiles.read)
    assert tiles.edge.root() == oracle.mth(all_of)
    n = data.draw(st.integers(1, size))
    root = oracle.mth(all_of[:n])
    assert proofs.root(n) == root
    index = data.draw(st.integers(0, n - 1))
    path = proofs.inclusion(index, n)
    assert path == oracle.path(index, all_of[:n])
    assert root_of_inclusion(leaf_hash(all_of[index]), index, n, path) == root
    old = data.draw(st.integers(1, n))
    path = proofs.consistency(old, n)
    assert path == oracle.proof(old, all_of[:n])
    assert consistent(old, n, oracle.mth(all_of[:old]), root, path)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_changed_proof_does_not_hold(data):
    size = data.draw(st.integers(2, 300))
    all_of = entries(size)
    proofs, root = Proofs(Tiles(all_of).read), oracle.mth(all_of)
    index = data.draw(st.integers(0, size - 1))
    leaf = leaf_hash(all_of[index])
    path = proofs.inclusion(index, size)
    other = data.draw(st.integers(0, size - 1).filter(lambda i: i != index))
    assert root_of_inclusion(leaf, other, size, path) != root
    assert root_of_inclusion(leaf_hash(b"x"), index, size, path) != root
    assert root_of_inclusion(leaf, index, size, path[:-1]) != root
    assert root_of_inclusion(leaf, index, size, [*path, root]) != root
    old = data.draw(st.integers(1, size - 1))
    path, was = proofs.consistency(old, size), oracle.mth(all_of[:old])
    at = data.draw(st.integers(0, len(path) - 1))
    changed = [*path[:at], leaf_hash(b"x"), *path[at + 1 :]]
    assert not consistent(old, size, was, root, changed)
    assert not consistent(old, size, leaf_hash(b"x"), root, path)
    assert not consistent(old, size, was, leaf_hash(b"x"), path)
    assert not consistent(old, size, was, root, path[:-1])
    assert not consistent(size, old, root, was, path)


def test_a_tree_of_three_levels_of_tiles():
    count = WIDTH * WIDTH + WIDTH * 3 + 5
    all_of = entries(count)
    tiles = Tiles(all_of, 5000)
    assert [(one.level, one.index, len(one.hashes)) for one in tiles.edge.partials()] == [
        (0, 259, 5),
        (1, 1, 3),
        (2, 0, 1),
    ]
    root = oracle.mth(all_of)
    assert tiles.edge.root() == root
    assert Edge.read(count, tiles.read).root() == root
    proofs = Proofs(tiles.read)
    for index in (0, 255, 65535, 65536, count - 1):
        assert root_of_inclusion(leaf_hash(all_of[index]), index, count, proofs.inclusion(index, count)) == root
    for old in (1, 256, 65535, 65536, 65537):
        assert consistent(old, count, proofs.root(old), root, proofs.consistency(old, count))


def test_a_tree_grows_by_a_tile_of_which_only_the_root_is_known():
    all_of = entries(700)
    edge = Edge()
    edge.extend_tile(oracle.mth(all_of[:256]))
    edge.extend([leaf_hash(one) for one in all_of[256:]])
    assert (edge.size, edge.root()) == (700, oracle.mth(all_of))
