"""What every module of kvctl shares: refusals become failures with their code, and diffs show only what differs."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict

from .kvctl_refused import Refused


def diff_of(before: Any, after: Any, header: str) -> Dict[str, str]:
    """Ansible's diff of two documents."""

    def text(value: Any) -> str:
        return json.dumps(value, indent=2, sort_keys=True, default=str) + "\n"

    return {"before": text(before), "after": text(after), "before_header": header, "after_header": header}


def answer(module: Any, work: Callable[[Any], Dict[str, Any]]) -> None:
    """Run `work(module)` and exit with its result; a Refused fails the task with msg, code and fix."""
    try:
        result = work(module)
    except Refused as refused:
        module.fail_json(msg=str(refused), **refused.as_dict())
    else:
        module.exit_json(**result)
