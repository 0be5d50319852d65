"""Forms of browsers as requests of operations."""

import dataclasses
import re
from typing import Any
from urllib.parse import parse_qsl

from pydantic import ValidationError

from kvctl.api.menu import Form
from kvctl.api.routes import model_of
from kvctl.types.errors import UsageError
from kvctl.types.operations import OPERATIONS

WHOLE = ("text", "since")  # fields that hold a policy file and a checkpoint
MINUTE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")  # of datetime-local, which has no zone


def fields_of(body: bytes) -> dict[str, str]:
    """Each field once; of one that stands several times, all, comma separated. UsageError KV-API-016."""
    found: dict[str, str] = {}
    try:
        for name, value in parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100):
            found[name] = f"{found[name]},{value}" if name in found else value
    except ValueError as error:
        raise UsageError("KV-API-016", "the request is not right", why="the form cannot be read") from error
    return found


def plain(field: str, text: str) -> str:
    """A field as it was meant. Whole texts keep every line: their bytes are signed or hashed; browsers send CRLF."""
    if MINUTE.fullmatch(text.strip()):
        return text.strip() + "Z"  # the pages say that times are UTC
    if field not in WHOLE:
        return text.strip()
    lines = text.replace("\r\n", "\n")
    return lines.rstrip("\n") + "\n" if field == "since" else lines  # a signed note ends with one line break


def read(name: str, fields: dict[str, str]) -> Any:
    """A form's texts as the operation's request. An empty field was not given. UsageError KV-API-016."""
    kind: Any = OPERATIONS[name].request
    known = {field.name: field for field in dataclasses.fields(kind)}
    given: dict[str, Any] = {}
    for field, text in fields.items():
        if field in known and text.strip():
            is_list = "list" in str(known[field].type)
            given[field] = [part.strip() for part in text.split(",") if part.strip()] if is_list else plain(field, text)
    try:
        found = model_of(kind, strict=False).model_validate(given)
    except ValidationError as error:
        why = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])
        raise UsageError("KV-API-016", "the form is not right", why=why, fix="fill in what is named") from None
    return kind(**{field: getattr(found, field) for field in known})


def filled(form: Form, address: dict[str, str]) -> dict[str, str]:
    """What the address of a page fills in."""
    return {field: address[name] for field, name in form.fills if name in address}
