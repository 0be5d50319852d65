"""No client says what its media are cached by; nothing else in its messages changes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.gateway import parts, strip
from kvctl.gateway.answers import Refused
from kvctl.gateway.routes import Api
from tests.gateway.site import Site, run

PIXEL = "data:image/png;base64,iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": PIXEL}}
SOURCE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
ARGUMENTS = {"uuid": "of the tool", "deep": [{"uuid": 12345678901234567890123}]}
CALL = {"type": "tool_use", "id": "t1", "name": "find", "input": ARGUMENTS}
DECLARED = {"type": "object", "properties": {"uuid": {"type": "string"}}}
FUNCTION = {"type": "function", "function": {"name": "find", "parameters": DECLARED}}
CALLED = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"uuid": "a"}'}}
OBJECTS = CALLED | {"function": {"name": "find", "arguments": {"uuid": "a"}}}


def named(part: dict) -> dict:
    return part | {"uuid": "mine"}


BODIES = {
    "/v1/chat/completions": lambda name: {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": 'what is "uuid": here'}, name(IMAGE)]},
            {"role": "user", "content": [name({"image_url": PIXEL}), name({"type": "input_audio", "input_audio": {}})]},
            {"role": "user", "content": [name({"type": "video_url", "video_url": name({"url": PIXEL})})]},
            {"role": "assistant", "content": None, "tool_calls": [CALLED, OBJECTS]},
            {"role": "tool", "tool_call_id": "c1", "content": [name({"type": "image_embeds", "image_embeds": "AA"})]},
        ],
        "tools": [FUNCTION],
    },
    "/v1/messages": lambda name: {
        "max_tokens": 8,
        "system": [name({"type": "text", "text": "be kind"})],
        "messages": [
            {"role": "user", "content": [name(SOURCE)]},
            {"role": "assistant", "content": [CALL]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [name(SOURCE)]}]},
        ],
        "tools": [{"name": "find", "input_schema": DECLARED}],
    },
    "/v1/responses": lambda name: {
        "input": [
            {"role": "user", "content": [name({"type": "input_image", "image_url": PIXEL})]},
            {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"uuid": "a"}'},
            {"type": "function_call_output", "call_id": "c1", "output": [name({"type": "input_image"})]},
        ],
        "tools": [{"type": "function", "name": "find", "parameters": DECLARED}],
    },
    "/v1/completions": lambda name: {
        "prompt": [name({"prompt": "a"}), {"prompt_token_ids": [1], "multi_modal_uuids": {"image": ["mine"]}}]
        if name is named
        else [{"prompt": "a"}, {"prompt_token_ids": [1]}],
    },
}
APIS = dict(zip(BODIES, (Api.CHAT, Api.MESSAGES, Api.RESPONSES, Api.COMPLETIONS), strict=True))


@pytest.mark.parametrize("path", BODIES)
def test_media_are_named_by_nobody_and_calls_stay_as_they_are(path: str):
    api = APIS[path]
    with_names = strip.read(json.dumps({"model": "tiny"} | BODIES[path](named)).encode())
    without = strip.read(json.dumps({"model": "tiny"} | BODIES[path](lambda part: part)).encode())
    clean, stripped = strip.clean(with_names, api)
    assert "uuid" in stripped
    plain, nothing = strip.clean(without, api)
    assert nothing == []
    assert json.loads(strip.write(clean)) == json.loads(strip.write(plain))
    assert strip.prefix(clean, 4096).replace(b" ", b"") == strip.prefix(plain, 4096).replace(b" ", b"")


def test_no_name_reaches_an_engine_and_it_is_counted(tmp_path: Path):
    async def work(site: Site):
        text = {"type": "text", "text": "a b"}
        body = {"model": "tiny", "messages": [{"role": "user", "content": [text, named(IMAGE)]}]}
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"):
            assert (await site.post(path, body | {"max_tokens": 4}))[0] == 200
            sent = site.last(site.engine).body
            assert sent["messages"] == [{"role": "user", "content": [text, IMAGE]}]
        plain = {"model": "tiny", "messages": [{"role": "user", "content": [text, IMAGE]}]}
        await site.post("/v1/chat/completions", plain | {"max_tokens": 4})
        first, _, last = await site.usage()
        assert (first["prompt"], first["output"]) == (last["prompt"], last["output"])
        _, text = await site.admin_get("/metrics")
        assert 'kvgated_stripped_total{field="uuid"} 3' in text

    run(tmp_path, work)


@pytest.mark.parametrize("name", [r"\u0075uid", r"u\u0075\u0069d", r"uui\u0064", r"\u0075\u0075\u0069\u0064", "uuid"])
@pytest.mark.parametrize("space", ["", " ", "\n\t "])
def test_a_name_is_found_however_it_is_written(name: str, space: str):
    data = '{"messages": [{"role": "user", "content": [{"a": 1.10, "' + name + f'"{space}: "x", "b": 1e3' + "}]}]}"
    clean, stripped = strip.clean(strip.read(data.encode()), Api.CHAT)
    assert stripped == ["uuid"]
    assert bytes(clean["messages"]) == b'[{"role":"user","content":[{"a":1.10,"b":1e3}]}]', "the rest as it was written"


WORDS = st.sampled_from(['"uuid":', "uuid", '\\"uuid":'])
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=6) | WORDS
NAMES = st.sampled_from(["uuid", "UUID", "x", "content", "type", "input", "arguments", "tools", 'a"uuid', "\\uuid"])
PART = st.recursive(
    LEAVES | st.sampled_from(["tool_use", "image_url"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def plain(value):
    """The same rule on plain data."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    call = str(value.get("type", "")).endswith("tool_use")
    kept = {name: one for name, one in value.items() if name not in parts.NAMES}
    return {
        name: one if name in parts.OPAQUE or (call and name == "input") else plain(one) for name, one in kept.items()
    }


@given(PART, st.booleans(), st.sampled_from(parts.ROOTS))
def test_nothing_else_is_changed(value, spaced: bool, root: str):
    data = json.dumps({root: value}, ensure_ascii=spaced, indent=1 if spaced else None)
    before = strip.read(data.encode("utf-8", "surrogatepass"))
    clean = dict(before)
    found = parts.clean(clean)
    assert json.loads(bytes(clean[root])) == plain(value)
    assert bool(found) == (plain(value) != value)
    if not found and '"uuid"' not in data:
        assert bytes(clean[root]) == bytes(before[root])


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 11 + b'{"uuid":1}' + b"]" * 11,
        b"[" * 900 + b'{"uuid":1}' + b"]" * 900,
        b"[" + b'{"uuid":1},' * 60_000 + b"1]",
        b"[" + b'"",' * 60_000 + b'{"uuid":1}]',
        b'[{"content":' + b'{"a":' * 20 + b'{"uuid":1}' + b"}" * 21 + b"]",
    ],
)
def test_what_would_keep_the_gateway_busy_is_refused(data: bytes):
    with pytest.raises(Refused) as refused:
        strip.clean(strip.read(b'{"messages":' + data + b"}"), Api.CHAT)
    assert (refused.value.status, refused.value.code) == (400, "KV-GATE-026")


def test_a_name_at_the_top_is_taken_out_too():
    body = strip.read(b'{"uuid": "x", "multi_modal_uuids": {}, "a": 1}')
    assert strip.write(strip.clean(body, Api.COMPLETIONS)[0]) == b'{"a":1}'
