"""The document as one line of JSON.

Importing `json` costs a node 12 to 18 ms of processor time (it imports `re` and the decoder), more than reading all of
its sysfs; the encoder of strings, which is what is hard, is taken from the interpreter.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


try:
    from _json import encode_basestring_ascii as _quoted
except ImportError:  # an interpreter without the C accelerator
    from json.encoder import encode_basestring_ascii as _quoted


def dumps(value: Any) -> str:
    """JSON text of nested dict, list, tuple, str, int, float, bool and None; other objects raise TypeError."""
    out: list[str] = []
    _write(value, out.append)
    return "".join(out)


def _write(value: Any, put: Any) -> None:
    if isinstance(value, str):
        put(_quoted(value))
    elif value is None:
        put("null")
    elif value is True:
        put("true")
    elif value is False:
        put("false")
    elif isinstance(value, int):
        put(int.__repr__(value))
    elif isinstance(value, float):
        # JSON has no infinities and no NaN.
        put(float.__repr__(value) if value - value == 0 else "null")
    elif isinstance(value, dict):
        separator = "{"
        for key, item in value.items():
            put(separator + _quoted(str(key)) + ":")
            _write(item, put)
            separator = ","
        put("}" if separator == "," else "{}")
    elif isinstance(value, (list, tuple)):
        separator = "["
        for item in value:
            put(separator)
            _write(item, put)
            separator = ","
        put("]" if separator == "," else "[]")
    else:
        raise TypeError(f"{type(value).__name__} has no JSON form here")
