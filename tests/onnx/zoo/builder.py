"""Language models as onnxruntime-genai's builder writes them, from tiny configurations."""

import contextlib
import io
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"  # Read when the next are imported.

import onnx
import tokenizers
import torch
import transformers
from onnxruntime_genai.models import builder

_SIZES = {
    "vocab_size": 128,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_HEADS = {"head_dim": 32}

FAMILIES: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", {}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {"sliding_window": 8}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", _HEADS),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", _HEADS),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**_HEADS, "sliding_window": 8}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**_HEADS, "sliding_window": 8}),
    "phi": ("PhiForCausalLM", "PhiConfig", {"num_key_value_heads": 4}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {"original_max_position_embeddings": 128}),
    "nemotron": ("NemotronForCausalLM", "NemotronConfig", {}),
    "olmo": ("OlmoForCausalLM", "OlmoConfig", {}),
    "granite": ("GraniteForCausalLM", "GraniteConfig", {}),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", {}),
    "ernie": ("Ernie4_5ForCausalLM", "Ernie4_5Config", _HEADS),
    "gpt_oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {**_HEADS, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    ),
    "lfm2": ("Lfm2ForCausalLM", "Lfm2Config", {"layer_types": ["conv", "full_attention"]}),
}
"""By name: the model, its configuration, and what it has besides the sizes of all."""

TARGETS = {
    "cpu.float32": ("fp32", "cpu", ()),
    "cpu.int4": ("int4", "cpu", ()),
    "cpu.int8": ("int8", "cpu", ()),
    "cpu.int4.qdq": ("int4", "cpu", ("use_qdq=true",)),
    "dml.float16": ("fp16", "dml", ()),
    "dml.int4": ("int4", "dml", ()),
}
"""By name: precision, execution provider, and further options."""


def weights(name: str, folder: Path) -> None:
    """Write a model with random weights, and a tokenizer, as a hub would hold them."""
    model, config, more = FAMILIES[name]
    torch.manual_seed(0)
    configuration = getattr(transformers, config)(**{**_SIZES, **more})
    made = getattr(transformers, model)(configuration).eval()
    made.save_pretrained(folder)
    words = tokenizers.models.WordLevel({f"w{i}": i for i in range(_SIZES["vocab_size"])}, unk_token="w0")
    plain = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(words), bos_token="w1", eos_token="w2", pad_token="w0", unk_token="w0"
    )
    plain.save_pretrained(folder)


def build(source: Path, path: Path, target: str) -> None:
    """Run the builder on a local model."""
    precision, provider, more = TARGETS[target]
    folder = path.with_suffix("")
    given = "", str(source), str(folder), precision, provider, str(folder / "cache")
    with contextlib.redirect_stderr(io.StringIO()):
        found = builder.parse_extra_options(*given, list(more))
        builder.create_model(*given, **found)
    # One file: with the weights inside.
    onnx.save(onnx.load(folder / "model.onnx"), path)
    shutil.rmtree(folder)
