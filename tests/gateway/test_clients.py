"""The vendors' own Python clients, told nothing but the gateway's address and a key."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import anthropic
import openai
import pytest

from kvctl.bench.stub_engine import StubEngine
from tests.gateway.site import ACME, Site, change, run

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CLAUDE_TOOL = {"name": "weather", "input_schema": TOOL["function"]["parameters"]}
ASK = [{"role": "user", "content": "how is the weather in Paris"}]


def serve(folder: Path, work: Callable[[Site, str], Awaitable[None]], **how) -> None:
    """`work` with a site that listens on TCP, as the clients need it."""

    async def on_tcp(site: Site) -> None:
        port = site.daemon.addresses[1][1]
        await work(site, f"http://127.0.0.1:{port}")

    listen = [f"unix:{folder}/gate.sock", "tcp:127.0.0.1:0"]
    run(folder, on_tcp, listen=listen, **how)


def test_openai_chat(tmp_path: Path):
    async def work(site: Site, url: str):
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="acme-1", max_retries=0) as client:
            answer = await client.chat.completions.create(model="tiny", messages=ASK, user="u1")
            assert answer.choices[0].message.content.startswith("w0 w1")
            assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (6, 8)
            stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
            chunks = [chunk async for chunk in stream]
            assert all(chunk.choices for chunk in chunks)
            assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks).split()[-1] == "w7"
            options = {"include_usage": True}
            stream = await client.chat.completions.create(
                model="tiny", messages=ASK, stream=True, stream_options=options
            )
            assert [chunk.usage.completion_tokens async for chunk in stream if chunk.usage] == [8]
            assert [model.id async for model in client.models.list()] == ["tiny"]
            done = await client.completions.create(model="tiny", prompt="a b c", max_tokens=2)
            assert done.choices[0].text == "w0 w1 "
        assert len(await site.usage()) == 4

    serve(tmp_path, work)


def test_openai_tool_calls(tmp_path: Path):
    async def work(site: Site, url: str):
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="acme-1", max_retries=0) as client:
            answer = await client.chat.completions.create(model="tiny", messages=ASK, tools=[TOOL])
            call = answer.choices[0].message.tool_calls[0]
            assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Paris"})
            async with client.chat.completions.stream(model="tiny", messages=ASK, tools=[TOOL]) as stream:
                final = await stream.get_final_completion()
            call = final.choices[0].message.tool_calls[0]
            assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Paris"}')
            assert final.choices[0].finish_reason == "tool_calls"

    serve(tmp_path, work)


def test_openai_responses(tmp_path: Path):
    async def work(site: Site, url: str):
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="acme-1", max_retries=0) as client:
            answer = await client.responses.create(model="tiny", input="a b c")
            assert answer.output_text.startswith("w0 w1")
            stream = await client.responses.create(model="tiny", input="a b c", stream=True)
            kinds = [event.type async for event in stream]
            assert kinds[0] == "response.created"
            assert kinds[-1] == "response.completed"
            assert kinds.count("response.output_text.delta") == 8
        assert [record["output"] for record in await site.usage()] == [8, 8]

    serve(tmp_path, work)


def test_anthropic_messages(tmp_path: Path):
    async def work(site: Site, url: str):
        async with anthropic.AsyncAnthropic(base_url=url, api_key="acme-1", max_retries=0) as client:
            answer = await client.messages.create(
                model="tiny", max_tokens=4, messages=ASK, system="be kind", metadata={"user_id": "u1"}
            )
            assert answer.content[0].text == "w0 w1 w2 w3 "
            assert (answer.usage.input_tokens, answer.usage.output_tokens) == (8, 4)
            async with client.messages.stream(model="tiny", max_tokens=4, messages=ASK) as stream:
                assert "".join([text async for text in stream.text_stream]) == "w0 w1 w2 w3 "
                assert (await stream.get_final_message()).usage.output_tokens == 4
            counted = await client.messages.count_tokens(model="tiny", messages=ASK)
            assert counted.input_tokens == 6
            beta = await client.beta.messages.create(model="tiny", max_tokens=1, messages=ASK)
            assert beta.usage.output_tokens == 1
            assert [model.id async for model in client.models.list()] == ["tiny"]
        assert len(await site.usage()) == 3, "counting computes nothing"
        count = next(seen for seen in site.engine.seen if seen.path.endswith("count_tokens"))
        assert not {"cache_salt", "kv_transfer_params", "metadata"} & set(count.body)

    serve(tmp_path, work)


def test_anthropic_tool_use(tmp_path: Path):
    async def work(site: Site, url: str):
        async with anthropic.AsyncAnthropic(base_url=url, auth_token="acme-1", api_key=None, max_retries=0) as client:
            answer = await client.messages.create(model="tiny", max_tokens=9, messages=ASK, tools=[CLAUDE_TOOL])
            assert (answer.stop_reason, answer.content[0].input) == ("tool_use", {"city": "Paris"})
            async with client.messages.stream(model="tiny", max_tokens=9, messages=ASK, tools=[CLAUDE_TOOL]) as stream:
                final = await stream.get_final_message()
            assert (final.content[0].name, final.content[0].input) == ("weather", {"city": "Paris"})

    serve(tmp_path, work)


def test_each_client_knows_its_errors(tmp_path: Path):
    async def work(site: Site, url: str):
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="wrong", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError) as unknown:
                await client.chat.completions.create(model="tiny", messages=ASK)
            assert unknown.value.code == "KV-GATE-021"
            assert unknown.value.request_id.startswith("req_")
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="acme-1", max_retries=0) as client:
            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.create(model="none", messages=ASK)
            with pytest.raises(openai.NotFoundError):
                await client.embeddings.create(model="tiny", input="x")
        async with anthropic.AsyncAnthropic(base_url=url, api_key="acme-1", max_retries=0) as client:
            with pytest.raises(anthropic.NotFoundError) as none:
                await client.messages.create(model="none", max_tokens=1, messages=ASK)
            assert none.value.body["error"]["type"] == "not_found_error"
            with pytest.raises(anthropic.RateLimitError) as limited:
                await client.messages.create(model="tiny", max_tokens=1, messages=ASK)
            assert int(limited.value.response.headers["retry-after"]) >= 1

    serve(tmp_path, work, tenants=(change(ACME, requests_per_minute=2),))


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_stream_that_is_cut_raises(tmp_path: Path, kind: str):
    async def work(site: Site, url: str):
        async def read() -> None:
            if kind == "openai":
                async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="acme-1", max_retries=0) as client:
                    async for _ in await client.chat.completions.create(model="tiny", messages=ASK, stream=True):
                        pass
            else:
                async with anthropic.AsyncAnthropic(base_url=url, api_key="acme-1", max_retries=0) as claude:
                    async for _ in await claude.messages.create(model="tiny", messages=ASK, stream=True, max_tokens=50):
                        pass

        with pytest.raises((openai.APIError, anthropic.APIError), match="KV-GATE-044"):
            await asyncio.wait_for(read(), 10)

    serve(tmp_path, work, engines={"e1": StubEngine(words=50, fault="break")})
