"""`python -m kvctl.connector.tiny_model DIR`: a model of 22 M random weights that a real engine serves without a GPU.

For tests and trials of the data path; what it says means nothing. Run it with the engine's Python, which has torch and
transformers. The same arguments give the same bytes, so the same fingerprint.
"""

import argparse
import random
from pathlib import Path
from typing import Any

LAYERS, HIDDEN, HEADS, KV_HEADS, INNER = 6, 512, 8, 2, 1536
VOCABULARY = 4096
POSITIONS = 32768
SPECIAL = ("<s>", "</s>", "<pad>", "<|user|>", "<|assistant|>", "<|system|>")
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def make(folder: Path, seed: int = 0) -> None:
    """Write config, weights (float32) and tokenizer in the layout of Hugging Face. The tokenizer is of no seed."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save_pretrained(folder)
    weights(seed).save_pretrained(folder, safe_serialization=True)


def tokenizer() -> Any:
    """A byte-level BPE, trained on words that do not exist."""
    from tokenizers import (  # type: ignore[import-not-found]
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast  # type: ignore[import-not-found]

    made = Tokenizer(models.BPE(unk_token=None))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL), initial_alphabet=sorted(alphabet), show_progress=False
    )
    made.train_from_iterator(sentences(random.Random(0)), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    fast.chat_template = TEMPLATE
    fast.model_max_length = POSITIONS
    return fast


def sentences(chance: random.Random) -> list[str]:
    syllables = [c + v + e for c in "bcdfghklmnprstvz" for v in "aeiou" for e in ("", "n", "r", "s", "l")]
    words = ["".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(6000)]
    return [" ".join(chance.choices(words, k=30)) + "." for _ in range(4000)]


def weights(seed: int) -> Any:
    import torch  # type: ignore[import-not-found]
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=POSITIONS,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=False,
        initializer_range=0.05,
    )
    return LlamaForCausalLM(config).to(torch.float32).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    arguments = parser.parse_args()
    make(arguments.folder, arguments.seed)


if __name__ == "__main__":
    main()
