"""Which store holds which chunk: the pool's map, and weighted rendezvous hashing over runs of chunks. Pure.

A chain is the chunk keys of one prompt (of one group, where an engine has several) from its start. A run is `stripe`
consecutive chunks of a chain, from a multiple of `stripe` on; its id is the key of its first chunk. Two prompts with a
common prefix have the same keys there, hence the same runs: whoever knows a chunk's prompt finds the chunk, and asking
for neighbours asks one node.

A node's score for a run (Schindelhauer and Schomaker, "Weighted distributed hash tables", SPAA 2005):

    digest = SHA-256("kvctl placement 1" || 0x00 || run id, 32 bytes || node name, UTF-8)
    u      = (first 8 bytes of digest, big-endian, >> 12, + 0.5) / 2^52        # in (0, 1), exact in binary64
    score  = -weight / ln(u)

The `copies` nodes of the highest scores own the run, the highest first; equal scores go by name. A node of weight 0
owns nothing. Adding a node moves only what the new node takes; removing one moves only what it had.
"""

import hashlib
import math
from collections.abc import Collection, Sequence

import msgspec

from kvctl.connector.address import parse
from kvctl.connector.keys import Identity, verify
from kvctl.types.chunks import KEY_BYTES, Kind, TierName
from kvctl.types.errors import RefusedError, UsageError

LABEL = b"kvctl placement 1\0"
MAP_LABEL = b"kvctl pool map 1\0"
MAX_STRIPE = 4096
MAX_WEIGHT = 1 << 52  # exact in binary64


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One store. Its name is what the hash sees: a renamed node is another node, one with a new key is not."""

    name: str
    addresses: tuple[str, ...]  # tcp:host:port, one a rail
    public_key: str  # 64 hexadecimal digits
    weight: int = 1  # share of the runs, relative to the others': capacity in GiB, say
    tiers: tuple[TierName, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or not self.addresses or not 0 <= self.weight <= MAX_WEIGHT:
            raise ValueError(f"a node has a name, an address and a weight from 0 to {MAX_WEIGHT}")
        for address in self.addresses:
            parse(address)
        if len(self.key) != KEY_BYTES:
            raise ValueError(f"the public key of {self.name} is not 64 hexadecimal digits")

    @property
    def key(self) -> bytes:
        return bytes.fromhex(self.public_key)


class Copies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many nodes hold a chunk, by its kind."""

    private: int = 1
    common: int = 2

    def __post_init__(self) -> None:
        if min(self.private, self.common) < 1:
            raise ValueError("a chunk has at least one copy")

    def of(self, kind: Kind) -> int:
        return self.common if kind is Kind.COMMON else self.private

    @property
    def most(self) -> int:
        return max(self.private, self.common)


class PoolMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag="kvctl.pool/1"):
    """The stores of a site. A larger version replaces a smaller one."""

    version: int
    nodes: tuple[Node, ...]
    stripe: int = 8
    copies: Copies = Copies()

    def __post_init__(self) -> None:
        if not 0 < self.stripe <= MAX_STRIPE:
            raise ValueError(f"a stripe is 1 to {MAX_STRIPE} chunks")
        if len({node.name for node in self.nodes}) != len(self.nodes):
            raise ValueError("two nodes have one name")
        addresses = [address for node in self.nodes for address in node.addresses]
        if len(set(addresses)) != len(addresses):
            raise ValueError("two nodes have one address: both copies of a chunk could be on one store")

    def run(self, chain: Sequence[bytes], position: int) -> bytes:
        """The id of the run that the chunk at `position` of a chain belongs to."""
        return chain[position - position % self.stripe]

    def owners(self, run: bytes, copies: int, without: Collection[str] = ()) -> list[Node]:
        """The nodes of a run, first choice first: `copies` of them, or all there are. ValueError for no run id.

        Nodes named in `without` are passed over, as if the map did not have them.
        """
        if len(run) != KEY_BYTES:
            raise ValueError(f"a run's id is a chunk key of {KEY_BYTES} bytes")
        there = [node for node in self.nodes if node.weight and node.name not in without]
        scored = [(-score(run, node), node.name, node) for node in there]
        return [node for _, _, node in sorted(scored)[:copies]]


def score(run: bytes, node: Node) -> float:
    digest = hashlib.sha256(LABEL + run + node.name.encode()).digest()
    share = ((int.from_bytes(digest[:8], "big") >> 12) + 0.5) / 2.0**52
    return -node.weight / math.log(share)


class SignedMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A map as a file holds it. What is signed is MAP_LABEL and the map's `canonical` JSON."""

    signer: str  # the controller's public key, hexadecimal
    signature: str
    pool: PoolMap


def canonical(pool: PoolMap) -> bytes:
    """JSON without white space, members sorted by name, every default written out: one text a map."""
    return msgspec.json.encode(pool, order="sorted")


def sign_map(pool: PoolMap, controller: Identity) -> bytes:
    """The file form of a map, JSON with line ends, for `verified_map`."""
    signature = controller.sign(MAP_LABEL + canonical(pool))
    signed = SignedMap(controller.public.hex(), signature.hex(), pool)
    return msgspec.json.format(msgspec.json.encode(signed, order="sorted")) + b"\n"


def verified_map(data: bytes, trusted: Collection[bytes], *, where: str = "") -> PoolMap:
    """The map in a file that one of the trusted public keys signed.

    UsageError KV-CONN-030 for what is no map; RefusedError KV-CONN-031 when nobody trusted signed it.
    """
    try:
        signed = msgspec.json.decode(data, type=SignedMap)
        signer, signature = bytes.fromhex(signed.signer), bytes.fromhex(signed.signature)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(
            "KV-CONN-030",
            "this is no signed pool map",
            where=where,
            why=str(error),
            fix="ask the controller for the map again",
        ) from error
    if signer not in trusted or not verify(signer, signature, MAP_LABEL + canonical(signed.pool)):
        raise RefusedError(
            "KV-CONN-031",
            "the pool map is not signed by a controller that is trusted here",
            where=where,
            why=f"it names the key {signed.signer}",
            fix="compare that key with the controller's own; ask the controller for the map again",
        )
    return signed.pool
