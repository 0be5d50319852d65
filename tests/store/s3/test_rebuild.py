"""The index is lost, or bucket and index went apart: a comparison puts it right."""

import shutil

import obstore
import pytest

from kvctl.store.s3.rebuild import Reindexed
from kvctl.types.chunks import Kind
from kvctl.types.errors import UnreachableError
from tests.store.s3.made import NOW, OTHER, SCOPE, Opener, chunk, get, put


def test_a_lost_index_is_made_again_from_the_bucket(opener: Opener) -> None:
    tier = opener()
    meta = {"expires_at": NOW + 60, "subject": b"s" * 16, "model": b"m" * 16, "kind": Kind.COMMON, "position": 7}
    chunks = [chunk(number, 3000, recompute_us=number, **meta) for number in range(20)]
    for record, data in chunks:
        put(tier, record, data)
    put(tier, *chunk(99), OTHER)
    before = tier.stat()
    tier.close()
    shutil.rmtree(opener.path / "tier")

    tier = opener()
    assert tier.fresh
    assert tier.has(SCOPE, [chunks[0][0].key]) == [False]
    assert tier.reindex() == Reindexed(added=21)

    assert tier.has(SCOPE, [record.key for record, _ in chunks]) == [True] * 20
    assert [tier.record(SCOPE, record.key) for record, _ in chunks] == [record for record, _ in chunks]
    assert get(tier, chunks[3][0].key) == chunks[3][1]
    assert (tier.stat().used, tier.stat().chunks) == (before.used, before.chunks)
    # The bucket does not say whose OTHER's digest is; it is known as soon as somebody asks for it.
    assert (list(tier.scopes()), tier.stat().counters["unnamed_scopes"]) == ([SCOPE], 1)
    tier.has(OTHER, [chunk(99)[0].key])
    assert set(tier.scopes()) == {SCOPE, OTHER}
    assert tier.reindex() == Reindexed(kept=21)


def test_scopes_that_are_known_elsewhere_have_their_names_at_once(opener: Opener) -> None:
    tier = opener()
    put(tier, *chunk(1))
    put(tier, *chunk(2), OTHER)
    tier.close()
    shutil.rmtree(opener.path / "tier")
    tier = opener()

    tier.reindex([SCOPE, OTHER])

    assert set(tier.scopes()) == {SCOPE, OTHER}
    assert tier.stat().counters["unnamed_scopes"] == 0


def test_rows_without_object_and_objects_without_record(opener: Opener) -> None:
    tier = opener()
    first, second = chunk(1), chunk(2)
    put(tier, *first)
    put(tier, *second)
    admin = opener.cluster.client()
    obstore.delete(admin, [opener.name(first[0].key)])
    obstore.put(admin, opener.name(b"f" * 32), b"foreign")
    obstore.put(admin, opener.name(b"f" * 32).rsplit("/", 1)[0] + "/readme.txt", b"not one of ours")

    assert tier.reindex() == Reindexed(kept=1, gone=1, foreign=1)

    assert tier.has(SCOPE, [first[0].key, second[0].key, b"f" * 32]) == [False, True, False]
    assert len(opener.objects()) == 3


def test_an_endpoint_that_fails_is_said(opener: Opener) -> None:
    tier = opener(request_seconds=1.0, retries=0)
    put(tier, *chunk(1))
    with opener.cluster.hung("s3"), pytest.raises(UnreachableError) as refused:
        tier.reindex()
    assert refused.value.code == "KV-STORE-307"
    assert tier.stat().chunks == 1
