"""The page on the block protocol shows what the code does."""

import re

from kvctl.connector import wire
from kvctl.connector.wire import GetStatus, PutStatus, Refusal, Type
from tests.connector.protocol_example import EXAMPLES, PAGE, with_frames

TEXT = PAGE.read_text()


def test_the_frames_are_what_the_code_packs():
    """When this fails: python -m tests.connector.protocol_example, and read what changed."""
    assert with_frames(TEXT) == TEXT


def test_every_type_is_shown_and_every_shown_frame_is_one():
    assert {example.type for example in EXAMPLES} == set(Type)
    for example in EXAMPLES:
        frame = wire.unpack(example.frame[: wire.HEADER.size])
        assert (frame.type, frame.length) == (example.type, len(example.body))


def test_every_limit_is_in_the_table():
    for kind, (low, high) in wire.LIMITS.items():
        length = str(low) if low == high else f"{low} to {high}"
        assert re.search(rf"^\| {kind.name} \| {int(kind)} \| (connector|store) \| {length} \|$", TEXT, re.MULTILINE)


def test_every_number_is_explained():
    for enum in (GetStatus, PutStatus, Refusal):
        for member in enum:
            assert re.search(rf"^\| {member.name} \| {int(member)} \| .+ \|$", TEXT, re.MULTILINE)
