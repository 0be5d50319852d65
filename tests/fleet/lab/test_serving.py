"""What a lab shows of an engine: prompts, counters, what is said of two outputs."""

import pytest

from kvctl.fleet.lab import serving, serving_engine
from kvctl.fleet.lab.serving_demo import Shown, prompt, read
from kvctl.types.errors import KvctlError, UsageError


def test_a_counter_that_has_not_counted_is_zero_and_an_unknown_one_an_error():
    text = '# TYPE a_total counter\n# TYPE b_total counter\nb_total{x="1"} 2.0\nb_total{x="2"} 3.0\n'
    assert serving.metric(text, "a_total") == 0
    assert (serving.metric(text, "b_total"), serving.metric(text, "b_total", 'x="2"')) == (5, 3)
    with pytest.raises(KvctlError):
        serving.metric(text, "c_total")


def test_without_an_engine_it_says_how_to_get_one(tmp_path):
    with pytest.raises(UsageError) as told:
        serving_engine.engine_home({"KVCTL_CACHE": str(tmp_path)})
    assert told.value.code == "KV-LAB-050"


def test_another_output_is_not_called_identical():
    assert "ANOTHER OUTPUT" in "\n".join(Shown(8192, 10.0, 0, 1.0, 8192, 1 << 20, identical=False).lines())
    assert Shown(8192, 10.0, 0, 1.0, 8192, 1 << 20, identical=True).lines()[2] == "ratio:     10.0"


def test_prompts_of_one_seed_are_equal_and_of_another_differ():
    assert prompt(256, "a") == prompt(256, "a") != prompt(256, "b")


def event(text):
    return b"data: " + text.encode() + b"\n"


STREAM = [
    event('{"choices": [{"token_ids": [7]}]}'),
    b"\n",
    event('{"choices": [{"token_ids": [8, 9]}]}'),
    event('{"choices": [], "usage": {"prompt_tokens": 1024, "prompt_tokens_details": {"cached_tokens": 1024}}}'),
    b"data: [DONE]\n",
]


def test_an_answer_has_its_tokens_and_what_was_not_computed():
    found = read(STREAM, 0.0)
    assert (found.output, found.prompt, found.cached, len(found.gaps)) == ((7, 8, 9), 1024, 1024, 1)


@pytest.mark.parametrize("stream", [[], STREAM[:-2], [event('{"error": {"message": "no"}}')]])
def test_a_stream_that_breaks_off_is_no_answer(stream):
    with pytest.raises(KvctlError, match="KV-LAB-054"):
        read(stream, 0.0)
