"""The vendors' own Python clients and an agent, told nothing but the gateway's address and a key, against a real vLLM.

The model says nothing that means anything. Where a test needs a tool called, the engine holds the model to the tool's
schema; where an agent needs a certain command, its own configuration holds the model to that.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.engine.agent import agent_home
from tests.engine.gated import ACME, CONTEXT, GLOBEX, Gated, start
from tests.gateway.site import change

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

CITIES = ["Paris", "Rome"]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "enum": CITIES}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": SCHEMA}}
FLAT_TOOL = {"type": "function", "name": "weather", "parameters": SCHEMA}
CLAUDE_TOOL = {"name": "weather", "input_schema": SCHEMA}
ASK = [{"role": "user", "content": "how is the weather in Paris"}]
ROOMY = 400  # tokens
TOO_LONG = [{"role": "user", "content": "word " * 4 * CONTEXT}]


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gated]:
    made = start(tmp_path_factory.mktemp("gated"))
    yield made
    made.stop()


@pytest.fixture
def gpt(gated: Gated) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=gated.url + "/v1", api_key="acme-1", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(gated: Gated) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=gated.url, api_key="acme-1", max_retries=0) as client:
        yield client


def until(true: Callable[[], bool], seconds: float = 20) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() < began + seconds, "it did not come true"
        time.sleep(0.05)
    return time.monotonic() - began


def test_openai_chat(gated: Gated, gpt: openai.OpenAI):
    assert [model.id for model in gpt.models.list()] == ["tiny"]
    answer = gpt.chat.completions.create(model="tiny", messages=ASK, max_tokens=8, user="u1")
    assert answer.choices[0].message.content
    record = gated.usage()[-1]
    assert (record["prompt"], record["output"]) == (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    chunks = list(gpt.chat.completions.create(model="tiny", messages=ASK, max_tokens=8, stream=True))
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "length"
    assert gated.usage()[-1]["output"] == 8
    more = {"stream_options": {"include_usage": True}}
    chunks = list(gpt.chat.completions.create(model="tiny", messages=ASK, max_tokens=4, n=2, stream=True, **more))
    assert {chunk.choices[0].index for chunk in chunks if chunk.choices} == {0, 1}
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [8]
    assert gated.usage()[-1]["output"] == 8


def test_openai_completions(gated: Gated, gpt: openai.OpenAI):
    done = gpt.completions.create(model="tiny", prompt="a b c", max_tokens=4)
    assert (done.usage.completion_tokens, done.choices[0].finish_reason) == (4, "length")
    stream = gpt.completions.create(model="tiny", prompt="a b c", max_tokens=4, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream)
    assert [record["output"] for record in gated.usage()[-2:]] == [4, 4]


def test_openai_responses(gated: Gated, gpt: openai.OpenAI):
    answer = gpt.responses.create(model="tiny", input="a b c", max_output_tokens=6)
    assert answer.output_text
    kinds = [event.type for event in gpt.responses.create(model="tiny", input="a b", max_output_tokens=6, stream=True)]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert kinds.count("response.output_text.delta") >= 2
    first, second = gated.usage()[-2:]
    assert (first["prompt"], first["output"]) == (answer.usage.input_tokens, answer.usage.output_tokens)
    assert second["output"] == 6


def test_anthropic_messages(gated: Gated, claude: anthropic.Anthropic):
    assert [model.id for model in claude.models.list()] == ["tiny"]
    answer = claude.messages.create(model="tiny", max_tokens=8, messages=ASK, metadata={"user_id": "u1"})
    assert answer.content[0].text
    assert answer.stop_reason == "max_tokens"
    counted = claude.messages.count_tokens(model="tiny", messages=ASK)
    record = gated.usage()[-1]
    assert record["prompt"] == answer.usage.input_tokens == counted.input_tokens
    assert record["output"] == answer.usage.output_tokens == 8
    with claude.messages.stream(model="tiny", max_tokens=8, messages=ASK, system="be kind") as stream:
        assert "".join(stream.text_stream)
        assert stream.get_final_message().usage.output_tokens == gated.usage()[-1]["output"] == 8


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "weather"}}], ids=["required", "named"]
)
def test_openai_tool_calls(gpt: openai.OpenAI, choice: Any):
    """A whole round: the call, its result, and the answer to that."""
    more = {"model": "tiny", "tools": [TOOL], "tool_choice": choice, "max_tokens": ROOMY, "parallel_tool_calls": False}
    message = gpt.chat.completions.create(messages=ASK, **more).choices[0].message
    with gpt.chat.completions.stream(messages=ASK, **more) as stream:
        streamed = stream.get_final_completion().choices[0].message
    for said in (message, streamed):
        (call,) = said.tool_calls
        assert call.function.name == "weather"
        assert json.loads(call.function.arguments)["city"] in CITIES
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}
    after = [*ASK, message.model_dump(exclude_none=True), result]
    assert gpt.chat.completions.create(model="tiny", messages=after, max_tokens=4).choices[0].message.content


def test_openai_responses_tool_calls(gpt: openai.OpenAI):
    more = {
        "model": "tiny",
        "input": "a b",
        "tools": [FLAT_TOOL],
        "max_output_tokens": ROOMY,
        "parallel_tool_calls": False,
    }
    calls = gpt.responses.create(tool_choice="required", **more).output
    with gpt.responses.stream(tool_choice="required", **more) as stream:
        streamed = stream.get_final_response().output
    for output in (calls, streamed):
        (call,) = [item for item in output if item.type == "function_call"]
        assert json.loads(call.arguments)["city"] in CITIES


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}], ids=["any", "named"])
def test_anthropic_tool_use(claude: anthropic.Anthropic, choice: Any):
    choice = {"disable_parallel_tool_use": True, **choice}
    more = {"model": "tiny", "tools": [CLAUDE_TOOL], "tool_choice": choice, "max_tokens": ROOMY}
    answer = claude.messages.create(messages=ASK, **more)
    with claude.messages.stream(messages=ASK, **more) as stream:
        streamed = stream.get_final_message()
    for said in (answer, streamed):
        (block,) = [block for block in said.content if block.type == "tool_use"]
        assert (block.name, said.stop_reason) == ("weather", "tool_use")
        assert block.input["city"] in CITIES
    result = {"type": "tool_result", "tool_use_id": block.id, "content": "rain"}
    blocks = [block.model_dump(include={"type", "id", "name", "input"}) for block in streamed.content]
    after = [*ASK, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
    assert claude.messages.create(model="tiny", messages=after, max_tokens=4).content[0].text


def test_openai_errors(gated: Gated, gpt: openai.OpenAI):
    with pytest.raises(openai.NotFoundError, match="KV-GATE-040"):
        gpt.chat.completions.create(model="none", messages=ASK)
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="maximum context length"):
            gpt.chat.completions.create(model="tiny", messages=TOO_LONG, stream=stream)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        gpt.chat.completions.create(model="tiny", messages=ASK, temperature=-3)
    with pytest.raises(openai.NotFoundError):
        gpt.embeddings.create(model="tiny", input="x")
    with pytest.raises(openai.AuthenticationError) as wrong:
        gpt.with_options(api_key="wrong").chat.completions.create(model="tiny", messages=ASK)
    assert (wrong.value.code, wrong.value.request_id[:4]) == ("KV-GATE-021", "req_")


def test_anthropic_errors(claude: anthropic.Anthropic):
    with pytest.raises(anthropic.NotFoundError, match="KV-GATE-040"):
        claude.messages.create(model="none", max_tokens=4, messages=ASK)
    for stream in (False, True):
        with pytest.raises(anthropic.BadRequestError, match="maximum context length") as long:
            claude.messages.create(model="tiny", max_tokens=4, messages=TOO_LONG, stream=stream)
        assert long.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.BadRequestError, match="max_tokens") as none:
        claude.messages.create(model="tiny", max_tokens=0, messages=ASK)
    assert none.value.body["type"] == "error"
    with pytest.raises(anthropic.AuthenticationError, match="KV-GATE-021"):
        claude.with_options(api_key="wrong").messages.create(model="tiny", max_tokens=4, messages=ASK)


def test_metering_is_what_the_engine_counted(gated: Gated, gpt: openai.OpenAI, claude: anthropic.Anthropic):
    """Every way of asking, part of it from the cache: the records' sums are those of the engine's own counters."""
    before, known = gated.counted(), len(gated.usage())
    long = [{"role": "user", "content": "metered " * 200}]
    for stream in (False, True):
        for count in (1, 3):
            found = gpt.chat.completions.create(model="tiny", messages=long, max_tokens=5, n=count, stream=stream)
            list(found)
    list(gpt.completions.create(model="tiny", prompt=["a b", "c d"], max_tokens=3, n=2, stream=True))
    list(gpt.responses.create(model="tiny", input="metered " * 200, max_output_tokens=5, stream=True))
    with claude.messages.stream(model="tiny", messages=long, max_tokens=5) as messages:
        messages.until_done()
    records = gated.usage()[known:]
    assert [record["output"] for record in records] == [5, 15, 5, 15, 12, 5, 5]
    assert [record["cached"] for record in records[1:4]] != [0, 0, 0]
    assert not any(record["partial"] for record in records)
    after = gated.counted()
    assert sum(record["output"] for record in records) == after["output"] - before["output"]


def test_a_client_that_leaves_stops_the_engine_and_is_metered(gated: Gated, gpt: openai.OpenAI):
    before, known = gated.counted()["output"], len(gated.usage())
    stream = gpt.chat.completions.create(model="tiny", messages=ASK, max_tokens=8000, stream=True,
                                         extra_body={"ignore_eos": True})  # fmt: skip
    seen = [next(stream) for _ in range(5)]
    stream.close()
    until(lambda: len(gated.usage()) > known and gated.counted()["running"] == 0)
    record = gated.usage()[-1]
    assert record["partial"]
    assert len(seen) - 1 <= record["output"] <= gated.counted()["output"] - before < 4000


def test_tenants_share_no_cache_whatever_they_say(gated: Gated, gpt: openai.OpenAI):
    globex = gpt.with_options(api_key="globex-1")
    prompt = "shared by nobody " * 120
    forged = {"cache_salt": "mine", "kv_transfer_params": {"kvctl": "forged"}, "x-tenant-id": "acme"}

    def cached(client: openai.OpenAI, **more: Any) -> int:
        done = client.completions.create(model="tiny", prompt=prompt, max_tokens=1, **more)
        return int(done.usage.prompt_tokens_details.cached_tokens)

    assert cached(gpt) == 0
    assert cached(gpt) > 0
    assert cached(gpt, extra_body=forged) > 0, "its own cache, in spite of its salt"
    assert cached(globex) == 0
    assert cached(gpt.with_options(api_key="acme-2")) > 0


@pytest.mark.parametrize("why", ["suspended", "revoked"])
def test_a_suspension_cuts_running_streams_within_five_seconds(gated: Gated, why: str):
    told: dict[str, Exception] = {}
    gpt = openai.OpenAI(base_url=gated.url + "/v1", api_key="acme-1", max_retries=0)
    claude = anthropic.Anthropic(base_url=gated.url, api_key="acme-1", max_retries=0)
    began = {"gpt": threading.Event(), "claude": threading.Event()}

    def read(name: str, stream: Callable[[], Any]) -> None:
        try:
            for _ in stream():
                began[name].set()
        except (openai.APIError, anthropic.APIError) as error:
            told[name] = error

    more = {"model": "tiny", "messages": ASK, "max_tokens": 12_000, "stream": True}
    eos = {"extra_body": {"logit_bias": {"1": -100}}}
    streams = {
        "gpt": lambda: gpt.chat.completions.create(**more, **eos),
        "claude": lambda: claude.messages.create(**more, **eos),
    }
    threads = [threading.Thread(target=read, args=pair) for pair in streams.items()]
    for thread in threads:
        thread.start()
    assert all(event.wait(60) for event in began.values())
    try:
        gated.publish(change(ACME, state="suspended") if why == "suspended" else change(ACME, keys=()), GLOBEX)
        until(lambda: len(told) == 2 and gated.counted()["running"] == 0, 5)
        code = "KV-GATE-022" if why == "suspended" else "KV-GATE-021"
        assert all(code in str(error) for error in told.values())
        with pytest.raises(openai.PermissionDeniedError if why == "suspended" else openai.AuthenticationError):
            gpt.models.list()
    finally:
        gated.publish(ACME, GLOBEX)
        for thread in threads:
            thread.join(60)
    until(lambda: served(gpt))


def served(client: openai.OpenAI) -> bool:
    try:
        return len(client.models.list().data) == 1
    except openai.APIStatusError:
        return False


# What it does is decided by the folder it works in, so that one command makes a session of two rounds.
COMMAND = "test -e seen && echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat seen || uname >seen"


def test_an_agent_completes_a_session(gated: Gated, tmp_path: Path):
    """mini-swe-agent with its own prompts and tool: it runs a command, sees what came of it, and hands in."""
    call = json.dumps({"name": "bash", "arguments": {"command": COMMAND}})
    config = {
        "agent": {"step_limit": 6},
        "model": {
            "model_name": "openai/tiny",
            "cost_tracking": "ignore_errors",
            "model_kwargs": {
                "api_base": gated.url + "/v1",
                "max_tokens": 500,
                "extra_body": {"structured_outputs": {"choice": [f"<tool_call>{call}</tool_call>"]}},
            },
        },
    }
    (tmp_path / "agent.yaml").write_text(json.dumps(config))
    work = tmp_path / "work"
    work.mkdir()
    known = len(gated.usage())
    command = [
        *(str(agent_home() / "bin" / "mini"), "-c", "mini.yaml", "-c", str(tmp_path / "agent.yaml")),
        *("-t", "say what machine this is", "--yolo", "--exit-immediately", "-o", str(tmp_path / "session.json")),
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "OPENAI_API_KEY": "acme-1",
        "MSWEA_GLOBAL_CONFIG_DIR": str(tmp_path),
        "MSWEA_CONFIGURED": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    session = json.loads((tmp_path / "session.json").read_text())
    assert session["info"]["exit_status"] == "Submitted", done.stdout[-3000:]
    roles = [message["role"] for message in session["messages"]]
    assert roles[:5] == ["system", "user", "assistant", "tool", "assistant"]
    assert session["info"]["model_stats"]["api_calls"] == 2
    assert session["info"]["submission"].strip() == os.uname().sysname, "what it found out in its first round"
    records = gated.usage()[known:]
    assert [(record["tenant"], record["partial"]) for record in records] == [("acme", False)] * 2
