"""Run by the engine's Python: fingerprints of engines that are configured by vLLM itself, and never started.

Standard input: {name: {"model": DIRECTORY, "arguments": [of vllm serve], "environment": {}}}; standard output: for each
name what stands in the fingerprint's config, or the code with which it is refused.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from vllm.engine.arg_utils import EngineArgs  # type: ignore[import-not-found]
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]

from kvctl.connector.tier_config import effective
from kvctl.connector.tier_settings import settings
from kvctl.types.errors import KvctlError


def config(asked: dict[str, Any]) -> dict[str, Any]:
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    given = parser.parse_args(["--model", asked["model"], *asked["arguments"]])
    with mock.patch.dict(os.environ, asked.get("environment", {})):
        vllm = EngineArgs.from_cli_args(given).create_engine_config()
        try:
            found = effective(vllm.model_config)
            return {**found, "engine": settings(vllm, found, Path(asked["model"]), weights_named=False)}
        except KvctlError as error:
            return {"refused": error.code}


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints is not an answer
    json.dump({name: config(asked) for name, asked in json.load(sys.stdin).items()}, out)
