"""An engine without a model: answers as vLLM 0.32 does, with words for tokens, for benchmarks and tests of the gateway.

Its prefix cache is real enough to tell salts apart: blocks of BLOCK words, chained from the salt on.
"""

import asyncio
import hashlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

BLOCK = 16
TOOL_ARGUMENTS = '{"city": "Paris"}'
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Usage:
    prompt: int = 0
    cached: int = 0
    output: int = 0  # of each choice
    choices: int = 1


@dataclass
class StubEngine:
    """`first`: seconds to the first token, `each`: to each further one; `slots`: requests that are computed at once.

    `fault`: "error" (500), "refuse" (400), "break" (the connection ends after 3 tokens), "silent" (no answer),
    "no_usage".
    """

    models: Sequence[str] = ("tiny",)
    words: int = 8  # of an answer that has no max_tokens
    first: float = 0.0
    each: float = 0.0
    slots: int = 1 << 20
    fault: str = ""
    resettable: bool = True
    unsalted: Sequence[str] = ()  # routes whose requests have no cache_salt in this version
    stamped: bool = False  # each chunk of OpenAI's older routes says when it was sent (time.monotonic)
    seen: list[Seen] = field(default_factory=list)
    cancelled: int = 0
    running: int = 0
    most_running: int = 0
    resets: int = 0
    said: list[Usage] = field(default_factory=list)  # of every request, in the order in which they ended
    release: asyncio.Event | None = None  # when set up: no answer goes beyond its second token before it is set
    _cache: set[bytes] = field(default_factory=set)
    _room: asyncio.Semaphore | None = None
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """For aiohttp.web.Server."""
        data = await request.content.read(-1)
        body = json.loads(data) if data else {}
        path = request.raw_path
        self.seen.append(Seen(request.method, path, {k.lower(): v for k, v in request.headers.items()}, body))
        serve = getattr(self, "_serve_" + ROUTES.get(path.partition("?")[0], "nothing"))
        self._room = self._room or asyncio.Semaphore(self.slots)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            return await serve(request, body)  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def _serve_nothing(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"detail": "Not Found"}, status=404)

    async def _serve_invocations(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"reached": True})

    async def _serve_models(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        data = [{"id": name, "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": 4096, "root": "/w"}
                for name in self.models]  # fmt: skip
        return web.json_response({"object": "list", "data": data})

    async def _serve_openapi(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        salted: dict[str, Any] = {"properties": {"model": {}, "cache_salt": {}}}
        plain: dict[str, Any] = {"properties": {"model": {}}}
        paths = {}
        for path, name in ROUTES.items():
            ref = {"$ref": "#/components/schemas/" + ("Plain" if name in self.unsalted else "Salted")}
            paths[path] = {"post": {"requestBody": {"content": {"application/json": {"schema": ref}}}}}
        return web.json_response({"paths": paths, "components": {"schemas": {"Salted": salted, "Plain": plain}}})

    async def _serve_reset(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        if not self.resettable:
            return web.json_response({"detail": "Not Found"}, status=404)
        self._cache.clear()
        self.resets += 1
        return web.json_response({"success": True})

    async def _serve_count(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"input_tokens": len(prompt_words(body))})

    async def _serve_chat(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        return await self._openai(request, body, chat=True)

    async def _serve_completions(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        return await self._openai(request, body, chat=False)

    def _begin(self, body: dict[str, Any]) -> Usage:
        """What is found in the cache for a prompt; afterwards all of it is there."""
        words = prompt_words(body)
        parent = hashlib.sha256(str(body.get("cache_salt")).encode()).digest()
        cached, unbroken = 0, True
        for at in range(0, len(words) - len(words) % BLOCK, BLOCK):
            parent = hashlib.sha256(parent + " ".join(words[at : at + BLOCK]).encode()).digest()
            unbroken = unbroken and parent in self._cache
            cached += BLOCK if unbroken else 0
            self._cache.add(parent)
        return Usage(len(words), min(cached, max(0, len(words) - 1)))

    async def _words(self, body: dict[str, Any], usage: Usage) -> AsyncIterator[str]:
        count = body.get("max_completion_tokens") or body.get("max_tokens") or body.get("max_output_tokens")
        assert self._room is not None
        async with self._room:
            for at in range(count or self.words):
                if at == 2 and self.release is not None:
                    await self.release.wait()
                wait = self.each if at else self.first
                if wait:
                    await asyncio.sleep(wait)
                usage.output += 1
                yield f"w{at} "
        self.said.append(usage)

    async def _text(self, body: dict[str, Any], usage: Usage) -> str:
        return "".join([word async for word in self._words(body, usage)])

    async def _fail(self) -> web.Response | None:
        if self.fault == "silent":
            await asyncio.Event().wait()
        if status := {"error": 500, "refuse": 400}.get(self.fault):
            error = {"message": "no", "type": "NoGoodError", "param": None, "code": status}
            return web.json_response({"error": error}, status=status)
        return None

    async def _openai(self, request: web.BaseRequest, body: dict[str, Any], *, chat: bool) -> web.StreamResponse:
        failed = await self._fail()
        if failed is not None:
            return failed
        usage = self._begin(body)
        usage.choices = body.get("n") or 1
        head = {"id": f"c-{next(self._numbers)}", "created": int(time.time()), "model": body["model"]}
        if not body.get("stream"):
            text = await self._text(body, usage)
            return web.json_response(head | openai_whole(body, text, chat=chat) | self._usage(usage, details=True))
        options = body.get("stream_options") or {}
        at_end = bool(options.get("include_usage"))
        always = at_end and bool(options.get("continuous_usage_stats"))
        response = await _stream(request)
        async for choices in openai_chunks(self._words(body, usage), body, chat=chat):
            kind = "chat.completion.chunk" if chat else "text_completion"
            for index in range(usage.choices):
                said = {"object": kind, "choices": [choices[0] | {"index": index}]}
                chunk = head | said | (self._usage(usage) if always else {})
                if self.stamped:
                    chunk["sent"] = time.monotonic()
                await response.write(_data(chunk))
            if self._broken(request, usage):
                return response
        if at_end and self.fault != "no_usage":
            kind = "chat.completion.chunk" if chat else "text_completion"
            await response.write(_data(head | {"object": kind, "choices": []} | self._usage(usage, details=True)))
        await response.write(b"data: [DONE]\n\n")
        return response

    def _broken(self, request: web.BaseRequest, usage: Usage) -> bool:
        broken = self.fault == "break" and usage.output == 3
        if broken and request.transport is not None:
            request.transport.close()
        return broken

    def _usage(self, usage: Usage, *, details: bool = False) -> dict[str, Any]:
        if self.fault == "no_usage":
            return {}
        # A chunk says what its own choice has so far, the end what all have.
        output = usage.output * (usage.choices if details else 1)
        found: dict[str, Any] = {
            "prompt_tokens": usage.prompt,
            "total_tokens": usage.prompt + output,
            "completion_tokens": output,
        }
        return {"usage": found | ({"prompt_tokens_details": {"cached_tokens": usage.cached}} if details else {})}

    async def _serve_responses(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        usage = self._begin(body)
        head = {
            "id": f"resp_{next(self._numbers)}", "object": "response", "created_at": int(time.time()),
            "model": body["model"], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        }  # fmt: skip
        if not body.get("stream"):
            text = await self._text(body, usage)
            return web.json_response(head | {"status": "completed", "output": [_item(text)], "usage": _used(usage)})
        response = await _stream(request)
        numbers = itertools.count()

        async def send(kind: str, **fields: Any) -> None:
            event = {"type": kind, "sequence_number": next(numbers), **fields}
            await response.write(f"event: {kind}\n".encode() + _data(event))

        await send("response.created", response=head | {"status": "in_progress", "output": [], "usage": None})
        await send("response.output_item.added", output_index=0, item=_item("", "in_progress"))
        at: dict[str, Any] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        await send("response.content_part.added", **at, part=_part(""))
        text = ""
        async for word in self._words(body, usage):
            text += word
            await send("response.output_text.delta", **at, delta=word, logprobs=[])
        await send("response.output_text.done", **at, text=text, logprobs=[])
        await send("response.output_item.done", output_index=0, item=_item(text))
        whole = head | {"status": "completed", "output": [_item(text)], "usage": _used(usage)}
        await send("response.completed", response=whole)
        return response

    async def _serve_messages(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        failed = await self._fail()
        if failed is not None:
            return failed
        usage = self._begin(body)
        head = {"id": f"msg_{next(self._numbers)}", "type": "message", "role": "assistant", "model": body["model"]}
        tool = body["tools"][0]["name"] if body.get("tools") else None
        stop = "tool_use" if tool else "end_turn"
        if not body.get("stream"):
            text = await self._text(body, usage)
            block = _tool_block(tool, json.loads(TOOL_ARGUMENTS)) if tool else {"type": "text", "text": text}
            whole = head | {"content": [block], "stop_reason": stop, "stop_sequence": None, "usage": _anthropic(usage)}
            return web.json_response(whole)
        response = await _stream(request)

        async def send(kind: str, **fields: Any) -> None:
            await response.write(f"event: {kind}\n".encode() + _data({"type": kind, **fields}))

        begun = head | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": _anthropic(usage)}
        await send("message_start", message=begun)
        block = _tool_block(tool, {}) if tool else {"type": "text", "text": ""}
        await send("content_block_start", index=0, content_block=block)
        async for word in self._words(body, usage):
            if not tool:
                await send("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
            if self._broken(request, usage):
                return response
        for piece in (TOOL_ARGUMENTS[:9], TOOL_ARGUMENTS[9:]) if tool else ():
            await send("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": piece})
        await send("content_block_stop", index=0)
        end = {"stop_reason": stop, "stop_sequence": None}
        await send("message_delta", delta=end, usage=_anthropic(usage))
        await send("message_stop")
        return response


ROUTES = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    "/v1/messages/count_tokens": "count",
    "/v1/models": "models",
    "/openapi.json": "openapi",
    "/reset_prefix_cache": "reset",
    "/invocations": "invocations",
    "/tokenize": "invocations",
    "/v1/load_lora_adapter": "invocations",
    "/metrics": "invocations",
}


def prompt_words(body: dict[str, Any]) -> list[str]:
    """The prompt as an engine would see it, one word a token."""
    parts = [body.get("system") or "", body.get("instructions") or ""]
    parts += [str(message.get("content")) for message in body.get("messages", ())]
    parts += [str(body.get("prompt") or ""), str(body.get("input") or "")]
    return " ".join(part if isinstance(part, str) else json.dumps(part) for part in parts).split()


def openai_whole(body: dict[str, Any], text: str, *, chat: bool) -> dict[str, Any]:
    if not chat:
        return {"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}
    message: dict[str, Any] = {"role": "assistant", "content": text}
    finish = "stop"
    if body.get("tools"):
        call = {"name": body["tools"][0]["function"]["name"], "arguments": TOOL_ARGUMENTS}
        message |= {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": call}]}
        finish = "tool_calls"
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}


async def openai_chunks(
    words: AsyncIterator[str], body: dict[str, Any], *, chat: bool
) -> AsyncIterator[list[dict[str, Any]]]:
    tools = body.get("tools")
    if chat:
        yield [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    async for word in words:
        if not chat:
            yield [{"index": 0, "text": word, "finish_reason": None}]
        elif not tools:
            yield [{"index": 0, "delta": {"content": word}, "finish_reason": None}]
    if chat and tools:
        call = {"index": 0, "id": "call_1", "type": "function"}
        name = {"name": tools[0]["function"]["name"], "arguments": ""}
        yield [{"index": 0, "delta": {"tool_calls": [call | {"function": name}]}, "finish_reason": None}]
        for piece in (TOOL_ARGUMENTS[:9], TOOL_ARGUMENTS[9:]):
            part = {"index": 0, "function": {"arguments": piece}}
            yield [{"index": 0, "delta": {"tool_calls": [part]}, "finish_reason": None}]
    finish = "tool_calls" if chat and tools else "stop"
    yield [{"index": 0, **({"delta": {}} if chat else {"text": ""}), "finish_reason": finish}]


async def _stream(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _item(text: str, status: str = "completed") -> dict[str, Any]:
    content = [_part(text)] if status == "completed" else []
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content}


def _used(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.output,
    }


def _anthropic(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt - usage.cached,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }


def _tool_block(name: str | None, value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": value}
