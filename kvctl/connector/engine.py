"""Whether an engine's settings let KV be kept under names that mean the same in every process and for ever."""

from collections.abc import Mapping

from kvctl.types.errors import RefusedError

HASH_ALGORITHM = "sha256_cbor"
HASH_SEED = "PYTHONHASHSEED"


def check_engine(
    hash_algo: str, environ: Mapping[str, str], nodes: int, *, world_size: int, local_world_size: int
) -> None:
    """Raise the first of `refusals`; return when there is none."""
    for refusal in refusals(hash_algo, environ, nodes, world_size=world_size, local_world_size=local_world_size):
        raise refusal


def refusals(
    hash_algo: str, environ: Mapping[str, str], nodes: int, *, world_size: int, local_world_size: int
) -> list[RefusedError]:
    """Every reason why the connector does not start with this engine, KV-CONN-001 to 003.

    `hash_algo` is vLLM's --prefix-caching-hash-algo, `nodes` its nnodes, `world_size` and `local_world_size` the ranks
    of one replica and those of them on this node (vllm.config.ParallelConfig), `environ` the engine's environment.
    """
    found = []
    if hash_algo != HASH_ALGORITHM:
        found.append(_other_hash(hash_algo))
    if HASH_SEED in environ:
        found.append(_seeded())
    if nodes != 1 or world_size != local_world_size:
        found.append(_many_nodes(nodes, world_size, local_world_size))
    return found


def _other_hash(hash_algo: str) -> RefusedError:
    return RefusedError(
        "KV-CONN-001",
        f"the engine names its blocks by {hash_algo}",
        where="--prefix-caching-hash-algo",
        why="only sha256_cbor gives a block one name in every process and version that no attacker can make collide",
        fix=f"start the engine with --prefix-caching-hash-algo {HASH_ALGORITHM}",
    )


def _seeded() -> RefusedError:
    return RefusedError(
        "KV-CONN-002",
        f"{HASH_SEED} is set for the engine",
        where="environment",
        why="vLLM takes the root of its hashes from it, even when it is empty: engines with other values share nothing",
        fix=f"remove {HASH_SEED} from the engine's environment; sha256_cbor needs no seed",
    )


def _many_nodes(nodes: int, world_size: int, local_world_size: int) -> RefusedError:
    return RefusedError(
        "KV-CONN-003",
        "the engine runs on more than one node",
        where="--nnodes",
        why=f"{nodes} nodes, {world_size} ranks of which {local_world_size} are here: what others compute is not in the"
        " scheduler's memory, and a chunk would be stored without it",
        fix="run one engine a node",
    )
