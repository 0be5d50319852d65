"""Streams, cut into pieces in every way."""

import itertools
import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.gateway import sse
from kvctl.gateway.routes import Api
from kvctl.gateway.sse import Events, TooLong
from kvctl.gateway.usage import Meter, Used, whole

END_OF_EVENT = sse.END
TEXTS = ["", "ü\u2028", 'say "usage": {} \\n\n', "x" * 300]


def chunk(text: str, tokens: int, index: int = 0) -> dict:
    usage = {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}
    return {"id": "c", "choices": [{"index": index, "delta": {"content": text}}], "usage": usage}


END = {"id": "c", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
                                            "prompt_tokens_details": {"cached_tokens": 8}}}  # fmt: skip


def data(value: object, end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + end


STREAM = [data(chunk(text, at + 1)) for at, text in enumerate(TEXTS)] + [data(END), b": keep-alive\n\n"]
STREAM += [b"data: [DONE]\n\n"]


def pieces(whole_stream: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, len(whole_stream), *(cut % (len(whole_stream) + 1) for cut in cuts)})
    return [whole_stream[start:end] for start, end in itertools.pairwise(at)]


def through(stream: bytes, cuts: list[int], **how: bool) -> tuple[bytes, Meter]:
    meter = Meter(Api.CHAT)
    events = Events(meter, 1 << 20, **how)
    out = b"".join(events.feed(piece) for piece in pieces(stream, cuts))
    return out + events.close(), meter


@given(
    st.lists(st.integers(0, 5000), max_size=30),
    st.booleans(),
    st.booleans(),
    st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n", b"\n\r", b"\r\r\n"]),
)
def test_how_it_is_cut_changes_nothing(cuts, hide, plain, end):
    stream = b"".join(STREAM).replace(b"\n\n", end)
    out, meter = through(stream, cuts, hide=hide, plain=plain)
    assert (out, meter.used) == (through(stream, [], hide=hide, plain=plain)[0], Used(9, 8, 4))
    assert meter.final
    assert meter.deltas == len(TEXTS)
    found = [json.loads(line[6:]) for line in re.split(rb"[\r\n]+", out) if line.startswith(b"data: {")]
    assert [one["choices"][0]["delta"]["content"] for one in found if one["choices"]] == TEXTS
    assert [one for one in found if not one["choices"]] == ([] if hide else [END])
    assert all(("usage" in one) != plain for one in found if one["choices"])
    assert b": keep-alive" in out
    assert b"data: [DONE]" in out


@given(st.lists(st.integers(0, 5000), max_size=30))
def test_nothing_is_touched_for_one_who_asked_for_all(cuts):
    assert through(b"".join(STREAM), cuts)[0] == b"".join(STREAM)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_what_is_no_event_stream_passes_as_it_is(junk, cuts):
    assert through(junk, cuts, hide=True, plain=True)[0] == junk


def test_a_half_event_is_not_held_without_end():
    events = Events(Meter(Api.CHAT), 1000)
    for _ in range(10):
        events.feed(b"x" * 100)
    with pytest.raises(TooLong):
        events.feed(b"x")


def test_a_long_event_is_not_looked_through_from_its_start_each_time(monkeypatch: pytest.MonkeyPatch):
    looked = []

    class Counting:
        def finditer(self, text: bytes, start: int = 0) -> Iterator[re.Match[bytes]]:
            looked.append(len(text) - start)
            return END_OF_EVENT.finditer(text, start)

    monkeypatch.setattr(sse, "END", Counting())
    event = data(chunk("x" * (1 << 20), 1))
    events = Events(Meter(Api.CHAT), 2 << 20)
    assert b"".join(events.feed(event[at : at + 4096]) for at in range(0, len(event), 4096)) == event
    assert sum(looked) < 2 * len(event)


def test_every_end_of_an_event_is_one_as_soon_as_it_is_there():
    for end in (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n", b"\r\r\n"):
        events = Events(Meter(Api.CHAT), 1000)
        event = data({"choices": []}, end)
        assert b"".join(events.feed(event[at : at + 1]) for at in range(len(event))) == event
        assert events.close() == b""


def test_prompts_are_counted_once_each_however_many_choices_they_have():
    meter = Meter(Api.COMPLETIONS, choices=2)
    for index, prompt, tokens in ((0, 9, 3), (1, 9, 5), (2, 20, 1), (3, 20, 1), (2, 20, 2)):
        usage = {"prompt_tokens": prompt, "completion_tokens": tokens}
        meter.see(json.dumps({"choices": [{"index": index, "text": "x"}], "usage": usage}).encode())
    assert meter.used == Used(29, None, 11)


def test_the_last_usage_is_the_one_that_counts():
    def end(tokens: int) -> dict:
        return END | {"usage": END["usage"] | {"completion_tokens": tokens}}

    said = [end(0), chunk("x", 1), end(1), chunk("x", 2), chunk("x", 3)]
    meter = Meter(Api.CHAT)
    for one in said:
        meter.see(json.dumps(one).encode())
    assert (meter.used, meter.final, meter.over) == (Used(9, 8, 3), False, False)
    meter.see(json.dumps(end(4)).encode())
    assert (meter.used, meter.final, meter.over) == (Used(9, 8, 4), True, False)
    meter.see(b"[DONE]")
    assert (meter.used, meter.final, meter.over) == (Used(9, 8, 4), True, True)


def test_choices_are_counted_each():
    meter = Meter(Api.COMPLETIONS, choices=2)
    for index, tokens in ((0, 3), (1, 5), (0, 4)):
        meter.see(json.dumps(chunk("x", tokens, index)).encode())
    assert meter.used == Used(9, None, 9)
    assert not meter.final


def test_every_api_says_its_usage_in_its_own_words():
    cases = {
        Api.CHAT: {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        Api.COMPLETIONS: {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        Api.RESPONSES: {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
        Api.MESSAGES: {
            "input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2,
        },
    }  # fmt: skip
    for api, usage in cases.items():
        assert whole(api, json.dumps({"usage": usage}).encode()) == Used(9, 4, 2)
        assert whole(api, b"{}") == whole(api, b"no") == Used(), "unknown is not zero"


def test_no_details_is_no_zero():
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}
    assert whole(Api.CHAT, json.dumps({"usage": usage}).encode()) == Used(9, None, 2)
