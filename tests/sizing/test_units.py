import pytest

from kvctl.sizing import units
from kvctl.sizing.models import bytes_per_token
from kvctl.sizing.plan import capacity_tokens, cases
from kvctl.sizing.tiers import parse_tier
from kvctl.types.errors import UsageError


def code(function, *given):
    with pytest.raises(UsageError) as caught:
        function(*given)
    assert caught.value.fix
    return caught.value.code


@pytest.mark.parametrize(("text", "size"), [("1TiB", 2**40), ("500GB", 500 * 10**9), ("1.5 kB", 1500), ("7B", 7)])
def test_sizes(text, size):
    assert units.size(text) == size


@pytest.mark.parametrize("text", ["", "1", "0GB", "-1GB", "1 TB/s", "1Gb", "1tib", "infGB", "1e3GB"])
def test_what_is_no_size(text):
    assert code(units.size, text) == "KV-SIZE-006"


@pytest.mark.parametrize(("text", "rate"), [("24GB/s", 24e9), ("100Gbit/s", 12.5e9), ("1MiB/s", 2**20)])
def test_rates(text, rate):
    assert units.rate(text) == rate


@pytest.mark.parametrize("text", ["24GB", "24Gb/s", "24Gbps", "0GB/s"])
def test_a_rate_that_could_be_bits_or_bytes_is_refused(text):
    assert code(units.rate, text) == "KV-SIZE-006"


@pytest.mark.parametrize(("text", "value"), [("189us", 189e-6), ("15ms", 0.015), ("2s", 2.0), ("0.5", 0.5)])
def test_seconds(text, value):
    assert units.seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["x", "-1", "nan", "inf", "1h"])
def test_what_is_no_time(text):
    assert code(units.seconds, text) == "KV-SIZE-006"


def test_capacities_in_tokens_and_bytes():
    assert capacity_tokens("3Mtokens", None) == 3_000_000
    assert capacity_tokens("1GiB", 131072) == 8192
    assert code(capacity_tokens, "1GiB", None) == "KV-SIZE-010"
    assert code(capacity_tokens, "100tokens", None) == "KV-SIZE-013"
    assert code(capacity_tokens, "1kB", 131072) == "KV-SIZE-013"


def test_policies_by_name():
    chosen = cases(["lru", "cost-aware+pressure", "belady", "lru"], [2000, 1000])
    assert [(c.policy, c.capacity) for c in chosen][:3] == [
        ("lru", 1000),
        ("cost-aware+pressure", 1000),
        ("belady", 1000),
    ]
    assert len(chosen) == 6
    for wrong in ("mru", "lru+", "lru+x", "belady+pressure", ""):
        assert code(cases, [wrong], [1000]) == "KV-SIZE-009"


@pytest.mark.parametrize(
    ("model", "dtype", "expected"),
    [("llama-3.1-8b", "bf16", 131072), ("llama-3.1-70b", "fp8", 163840), ("deepseek-v3", "bf16", 70272)],
)
def test_bytes_a_token_of_known_models(model, dtype, expected):
    assert bytes_per_token(model, dtype) == expected


def test_an_unknown_model_is_not_guessed():
    assert code(bytes_per_token, "llama-9") == "KV-SIZE-007"


def test_a_tier():
    tier = parse_tier("flash:bandwidth=24GB/s, latency=1ms,drives=4,drive=3.84TB,dwpd=1,warranty=5,model=PM9A3")
    assert (tier.name, tier.bandwidth, tier.latency, tier.capacity, tier.model) == (
        "flash",
        24e9,
        1e-3,
        15.36e12,
        "PM9A3",
    )


@pytest.mark.parametrize(
    "text",
    ["flash", "flash:", ":drives=1", "flash:speed=1GB/s", "flash:drives", "flash:drives=1.5", "flash:drives=0"]
    + ["flash:dwpd=0", "flash:dwpd=1,dwpd=2"],
)
def test_a_tier_that_cannot_be_read(text):
    assert code(parse_tier, text) == "KV-SIZE-008"


def test_how_long_drives_live():
    tier = parse_tier("flash:drives=2,drive=1TB,dwpd=1,warranty=5")
    assert tier.years(2e12) == pytest.approx(5.0)  # two drives, a drive write each a day
    assert tier.years(20e12) == pytest.approx(0.5)
    assert parse_tier("flash:drives=1,tbw=365TB").years(1e12) == pytest.approx(1.0)
    assert parse_tier("flash:drives=1,tbw=365TB,rewrite=2").years(1e12) == pytest.approx(0.5)


@pytest.mark.parametrize("text", ["drives=2,drive=1TB,dwpd=1", "drive=1TB,dwpd=1,warranty=5", "drives=2", "tbw=1TB"])
def test_what_is_missing_is_not_guessed(text):
    assert parse_tier(f"flash:{text}").years(1e12) is None


def test_nothing_written_is_no_life_either():
    assert parse_tier("flash:drives=1,tbw=365TB").years(0) is None
