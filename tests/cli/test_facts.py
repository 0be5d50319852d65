import json
from pathlib import Path

from click.testing import CliRunner

from kvctl.cli.facts import command
from kvctl.fleet.probe.tools.catalogue import PARSERS
from kvctl.types.errors import ExitCode, KvctlError

SAMPLES = Path(__file__).parents[1] / "data" / "samples"


def test_a_parsers_answer_is_json() -> None:
    sample = SAMPLES / "mlnx_qos/i_dscp_buffers_split_wrapped_dscp30.txt"
    done = CliRunner().invoke(command, ["parse", "mlnx_qos", str(sample)])
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert (answer["trust"], answer["pfc"], answer["dscp_prio"]["30"]) == ("dscp", [3], 6)
    assert answer["default_priority"] is None


def test_standard_input_is_read() -> None:
    done = CliRunner().invoke(command, ["parse", "cma_roce.tos", "-"], input="106\n")
    assert json.loads(done.stdout) == 106


def test_the_names_are_listed_without_a_file() -> None:
    done = CliRunner().invoke(command, ["parse", "--list"])
    assert done.exit_code == 0
    assert done.stdout.split() == sorted(PARSERS)


def test_another_tools_output_is_refused_with_the_reason() -> None:
    done = CliRunner().invoke(command, ["parse", "mlnx_qos", "-"], input="bash: mlnx_qos: command not found\n")
    error = done.exception
    assert isinstance(error, KvctlError)
    assert (error.code, error.exit_code, error.where) == ("KV-TOOL-002", ExitCode.FAILED, "standard input")
    assert error.why


def test_an_unknown_parser_is_a_usage_error() -> None:
    error = CliRunner().invoke(command, ["parse", "mlnx-qos", "-"], input="").exception
    assert isinstance(error, KvctlError)
    assert (error.code, error.exit_code) == ("KV-TOOL-001", ExitCode.USAGE)


def test_bytes_that_are_no_text_end_in_an_error_not_a_traceback() -> None:
    error = CliRunner().invoke(command, ["parse", "nvme.list", "-"], input=b"\xff\xfe\x00").exception
    assert isinstance(error, KvctlError)
