"""An S3 server through boto3, as an application would reach it: payloads unsigned, no extra checksums."""

import importlib
from collections.abc import Sequence
from typing import Any

from kvctl.bench.store.cells import Op
from kvctl.bench.store.jobs import Chunk, Setup
from kvctl.bench.store.lanes.lane import Buffers, Kept, Lane, Sealed
from kvctl.connector.seal import Sealer

BATCH = 1000  # most keys of one DeleteObjects


class S3Wire:
    """boto3's client may be used by many threads; each has its own connection of the client's pool."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def fetch(self, chunk: Chunk, into: memoryview) -> memoryview:
        answer = self._client.get_object(Bucket=self._bucket, Key=chunk.name)
        length, got = answer["ContentLength"], 0
        with answer["Body"] as body:
            while got < length:
                more = body.readinto(into[got:length])
                if not more:
                    raise ConnectionError(f"{got} of {length} bytes of {chunk.name} came")
                got += more
        return into[:length]

    def store(self, chunk: Chunk, data: memoryview) -> None:
        self._client.put_object(Bucket=self._bucket, Key=chunk.name, Body=Reader(data), ContentLength=len(data))

    def close(self) -> None:
        return


class Reader:
    """A file of a buffer's bytes. boto3 takes no memoryview, and bytes of it would be a copy."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int = -1) -> memoryview:
        end = len(self._data) if size is None or size < 0 else min(self._at + size, len(self._data))
        part, self._at = self._data[self._at : end], end
        return part

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, len(self._data))[whence]
        return self._at

    def tell(self) -> int:
        return self._at


class S3Way(Kept):
    def __init__(self, setup: Setup, sealer: Sealer) -> None:
        self._client = client(setup.address, setup.connections)
        self._bucket = setup.address["bucket"]
        self._sealer = sealer

    def lane(self, memory: Buffers, op: Op, *, new: bool) -> Lane:
        return Sealed(S3Wire(self._client, self._bucket), self._sealer, memory)

    def clean(self, chunks: Sequence[Chunk]) -> None:
        for at in range(0, len(chunks), BATCH):
            part = [{"Key": chunk.name} for chunk in chunks[at : at + BATCH]]
            self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": part, "Quiet": True})


def client(address: dict[str, str], connections: int) -> Any:
    """boto3's client, and its bucket, which is made when it is not there."""
    config = importlib.import_module("botocore.config").Config
    made: Any = importlib.import_module("boto3").client(
        "s3", endpoint_url=address["endpoint"], region_name="us-east-1",
        aws_access_key_id=address["access"], aws_secret_access_key=address["secret"],
        config=config(
            max_pool_connections=connections, parameter_validation=False, retries={"total_max_attempts": 1},
            request_checksum_calculation="when_required", response_checksum_validation="when_required",
            s3={"payload_signing_enabled": False, "addressing_style": "path"}, proxies={},
        ),
    )  # fmt: skip
    if address["bucket"] not in [one["Name"] for one in made.list_buckets()["Buckets"]]:
        made.create_bucket(Bucket=address["bucket"])
    return made
