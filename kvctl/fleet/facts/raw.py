"""Safe access to a probe's raw document: whatever it holds, a value of the right type or the reason why not."""

import importlib
import re
from collections.abc import Callable
from typing import Any, TypeVar

from kvctl.types.facts import Fact, absent, known, unknown

T = TypeVar("T")
_DECIMAL = re.compile(r"-?[0-9]{1,20}")
_NOT_READ = {"vpd_hex": "the vital product data was not read", "signature": "its blocks were not read"}
_TOOLS = "kvctl.fleet.probe.tools."


class Raw:
    """One raw document. `errors` collects what the builder could not reconcile."""

    def __init__(self, document: object) -> None:
        self.document: dict[str, Any] = document if isinstance(document, dict) else {}
        self.errors: list[str] = []
        self._answers: dict[tuple[str, str], Fact[Any]] = {}
        self.stand_ins = _stand_ins(self.document.get("lab"))
        if not isinstance(document, dict):
            self.errors.append("the probe's document is not an object")

    def at(self, *path: str) -> Any:
        value: Any = self.document
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def table(self, *path: str) -> dict[str, Any]:
        value = self.at(*path)
        return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}

    def simulated(self, source: str) -> bool:
        """True when a stand-in gave the value: the source is a tool or a path that the lab marker lists."""
        command = source.partition(" ")[0]
        name = command.rpartition("/")[2]
        return any(command.startswith(one) if one.startswith("/") else name == one for one in self.stand_ins if one)

    def fact(self, value: T, source: str) -> Fact[T]:
        return known(value, source, simulated=self.simulated(source))

    def leaf(self, *path: str) -> Fact[Any]:
        """What a leaf holds, of any type but null."""
        leaf = self.at(*path)
        if not isinstance(leaf, dict):
            return absent()
        source = leaf["src"] if isinstance(leaf.get("src"), str) else ""
        if isinstance(leaf.get("unknown"), str):
            return unknown(leaf["unknown"], source)
        if leaf.get("v") is None:
            return unknown("the probe's document holds no value", source)
        return self.fact(leaf["v"], source)

    def text(self, *path: str) -> Fact[str]:
        """A text that is not empty."""
        return convert(self.leaf(*path), _text)

    def number(self, *path: str, low: int = 0, high: int = 1 << 63) -> Fact[int]:
        """A whole number in low..high, also when it is written as a text."""
        return convert(self.leaf(*path), lambda value: integer(value, low, high))

    def flag(self, *path: str) -> Fact[bool]:
        return convert(self.leaf(*path), _flag)

    def counters(self, *path: str) -> Fact[dict[str, int]]:
        return convert(self.leaf(*path), _counters)

    def answer(self, key: str, module: str, function: str, *tools: str) -> Fact[Any]:
        """What a parser of `probe.tools` makes of an output; `tools` are the commands that could give it."""
        cached = self._answers.get((key, function))
        if cached is None:
            cached = self._answers[key, function] = self.parsed(self.output(key, *tools), module, function)
        return cached

    def parsed(self, output: Fact[Any], module: str, function: str) -> Fact[Any]:
        if not output.known:
            return output
        parse = _parser(module, function)
        if parse is None:
            return unknown(f"there is no parser {module}.{function}", output.source)
        try:
            parsed = parse(output.value if isinstance(output.value, str) else "")
        except ValueError as error:
            return unknown(f"{_name(output.source)} printed something else: {error}", output.source)
        if parsed is None:
            return unknown(f"{_name(output.source)} does not say", output.source)
        return self.fact(parsed, output.source)

    def output(self, key: str, *tools: str) -> Fact[str]:
        """What a tool printed, if it ended well and all of it is there."""
        entry = self.at("tools", key)
        if not isinstance(entry, dict):
            return self._not_run(tools or (key.partition(":")[0],))
        argv = entry.get("argv")
        source = _source(argv) or key
        name = _name(source)
        why = entry.get("unknown")
        if why is not None:
            return unknown(f"{name} {'is ' if why == 'not installed' else ''}{why}", source)
        code, out = entry.get("rc"), entry.get("out")
        if not isinstance(out, str) or isinstance(code, bool) or not isinstance(code, int):
            return unknown(f"the document does not hold what {name} printed", source)
        if code != 0:
            return unknown(f"{name} ended with status {code}{_first_line(entry.get('err'), out)}", source)
        return self.fact(out, source)

    def _not_run(self, tools: tuple[str, ...]) -> Fact[Any]:
        missing = [name for name in tools if self.at("tools", name, "unknown") == "not installed"]
        if missing:
            names = " and ".join(missing)
            return unknown(f"{names} {'is' if len(missing) == 1 else 'are'} not installed")
        return unknown(_NOT_READ.get(tools[0], f"{tools[0]} was not run"))

    def agreed(self, what: str, kernel: Fact[T], other: Fact[T], same: Callable[[T, T], bool] | None = None) -> Fact[T]:
        """`kernel` when it is known, else `other`; two known values that differ are an error line."""
        if kernel.value is not None and kernel.known and other.value is not None and other.known:
            equal = same(kernel.value, other.value) if same else kernel.value == other.value
            if not equal:
                self.errors.append(
                    f"{what}: {kernel.source} says {kernel.value}, {other.source} says {other.value}; the first is used"
                )
        return first(kernel, other)


def first(*facts: Fact[T]) -> Fact[T]:
    """The first known fact; when there is none, one unknown with all the reasons."""
    for fact in facts:
        if fact.known:
            return fact
    reasons = dict.fromkeys(fact.unknown for fact in facts)
    return unknown("; ".join(reasons), next((fact.source for fact in facts if fact.source), ""))


def convert(fact: Fact[Any], into: Callable[[Any], T | None], otherwise: str = "") -> Fact[T]:
    """The fact with its value converted; unknown when `into` gives None. Source and mark stay."""
    if not fact.known:
        return fact
    value = into(fact.value)
    if value is None:
        return unknown(otherwise or f"the value {str(fact.value)[:60]!r} is not one of its kind", fact.source)
    return Fact(value, fact.source, "", fact.simulated)


def field(fact: Fact[Any], name: str) -> Fact[Any]:
    """One field of a parsed answer; None in it means that the output does not say."""
    return convert(fact, lambda parsed: getattr(parsed, name, None), f"{_name(fact.source)} does not say")


def integer(value: object, low: int = 0, high: int = 1 << 63) -> int | None:
    """A whole number in low..high from a number or a decimal text; None for everything else."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if low <= value <= high else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"0": False, "1": True}.get(str(value)) if isinstance(value, (str, int)) else None


def _counters(value: object) -> dict[str, int] | None:
    if not isinstance(value, dict):
        return None
    found = {str(name): integer(count, high=1 << 64) for name, count in value.items()}
    return {name: count for name, count in found.items() if count is not None} or None


def _name(source: str) -> str:
    if source.startswith(("/sys/", "/dev/")):
        return source
    return source.partition(" ")[0].rpartition("/")[2] or "the tool"


def _source(argv: object) -> str:
    """The command, or the path of something that the probe itself read in a process of its own."""
    if not isinstance(argv, list):
        return ""
    words = [str(word) for word in argv]
    return " ".join(words[1:] if words[:1] == ["read"] else words)


def _first_line(*texts: object) -> str:
    """ ": " and the first line that says anything, or nothing."""
    lines = [line.strip() for text in texts if isinstance(text, str) for line in text.splitlines()]
    said = next((line for line in lines if line), "")
    return f": {said[:200]}" if said else ""


def _parser(module: str, function: str) -> Callable[[str], Any] | None:
    try:
        return getattr(importlib.import_module(_TOOLS + module), function, None)
    except ModuleNotFoundError:
        return None


def _stand_ins(lab: object) -> tuple[str, ...]:
    """The lab marker's list; the probe ships the marker's text because a node's JSON parser is slow to import."""
    import json

    if isinstance(lab, dict) and isinstance(lab.get("text"), str):
        try:
            lab = json.loads(lab["text"])
        except ValueError:
            return ()
    listed = lab.get("simulated") if isinstance(lab, dict) else None
    return tuple(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else ()
