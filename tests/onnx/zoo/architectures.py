"""Networks with random weights: torchvision's and transformers', from configurations that stand here."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torchvision
import transformers


class Architecture(NamedTuple):
    """How to make a network, what it takes, and what onnxruntime's optimizer calls it."""

    make: Callable[[], Any]
    inputs: Mapping[str, tuple[str, tuple[int, ...]]]
    """By name: what kind, of which shape. The first dimension is the batch; the second of tokens is the sequence."""

    optimizer: str = ""
    """The type of model for onnxruntime.transformers.optimizer; empty where it has none."""

    heads: int = 0
    hidden: int = 0


_IMAGE = {"image": ("image", (2, 3, 64, 64))}
_TOKENS = {"input_ids": ("token", (2, 12)), "attention_mask": ("mask", (2, 12))}
_BOTH = {**_TOKENS, "decoder_input_ids": ("token", (2, 6))}
_SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
}
_GROUPED = {**_SIZES, "num_key_value_heads": 2, "pad_token_id": 0}


def _vision(name: str, size: int = 64, **options: Any) -> Architecture:
    def make() -> Any:
        return getattr(torchvision.models, name)(weights=None, **{"num_classes": 10, **options})

    return Architecture(make, {"image": ("image", (2, 3, size, size))})


def _segmentation(name: str) -> Architecture:
    def make() -> Any:
        found = getattr(torchvision.models.segmentation, name)
        return _Chosen(found(weights=None, weights_backbone=None, num_classes=5), ("out",), ("image",), False)

    return Architecture(make, _IMAGE)


def _detector(name: str, **options: Any) -> Architecture:
    def make() -> Any:
        found = getattr(torchvision.models.detection, name)
        return _Detector(found(weights=None, weights_backbone=None, num_classes=5, **options))

    return Architecture(make, {"image": ("image", (1, 3, 96, 96))})


def _language(
    model: str, config: str, sizes: Mapping[str, Any], inputs: Mapping[str, Any] = _TOKENS, optimizer: str = ""
) -> Architecture:
    def make() -> Any:
        configuration = getattr(transformers, config)(**sizes)
        configuration._attn_implementation = "eager"
        configuration.use_cache = False
        found = getattr(transformers, model)(configuration)
        return _Chosen(found, ("logits", "last_hidden_state", "pooler_output"), tuple(inputs))

    return Architecture(make, inputs, optimizer, 4, 64)


class _Chosen(torch.nn.Module):
    """Return one of the outputs of a model that returns a dictionary."""

    def __init__(self, model: Any, outputs: tuple[str, ...], inputs: tuple[str, ...], named: bool = True) -> None:
        super().__init__()
        self.model, self.outputs, self.inputs, self.named = model, outputs, inputs, named

    def forward(self, *arrays: Any) -> Any:
        given = dict(zip(self.inputs, arrays, strict=True))
        found = self.model(**given) if self.named else self.model(*arrays)
        return next(found[name] for name in self.outputs if name in found)


class _Detector(torch.nn.Module):
    """Take a batch of one image."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Any) -> Any:
        found = self.model([image[0]])
        found = found[1] if isinstance(found, tuple) else found
        return found[0]["boxes"], found[0]["scores"], found[0]["labels"]


_SWIN = {"patch_size": [4, 4], "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": [4, 4]}
_VIT = {"image_size": 64, "patch_size": 16, "num_layers": 2, "num_heads": 4, "hidden_dim": 64, "mlp_dim": 128}
_T5 = {"vocab_size": 96, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
_BART = {
    "vocab_size": 96,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
}
_WHISPER = {**_BART, "num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 32, "pad_token_id": 0}
_GPT2 = {"vocab_size": 96, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
_IMAGE_MODEL = {**_SIZES, "image_size": 64, "patch_size": 16}
_SPOKEN = {
    **_SIZES,
    "conv_dim": (32, 32),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}

ARCHITECTURES: Mapping[str, Architecture] = {
    "resnet18": _vision("resnet18"),
    "mobilenet_v2": _vision("mobilenet_v2"),
    "mobilenet_v3_small": _vision("mobilenet_v3_small"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "shufflenet_v2_x0_5": _vision("shufflenet_v2_x0_5"),
    "squeezenet1_1": _vision("squeezenet1_1"),
    "mnasnet0_5": _vision("mnasnet0_5"),
    "regnet_y_400mf": _vision("regnet_y_400mf"),
    "googlenet": _vision("googlenet", aux_logits=False, init_weights=False),
    "convnext": Architecture(
        lambda: torchvision.models.ConvNeXt(
            [
                torchvision.models.convnext.CNBlockConfig(24, 48, 2),
                torchvision.models.convnext.CNBlockConfig(48, None, 2),
            ],
            num_classes=10,
        ),
        _IMAGE,
    ),
    "vit": Architecture(lambda: torchvision.models.VisionTransformer(**_VIT, num_classes=10), _IMAGE),
    "swin": Architecture(lambda: torchvision.models.SwinTransformer(**_SWIN, num_classes=10), _IMAGE),
    "lraspp_mobilenet_v3": _segmentation("lraspp_mobilenet_v3_large"),
    "deeplabv3_mobilenet_v3": _segmentation("deeplabv3_mobilenet_v3_large"),
    "ssdlite_mobilenet_v3": _detector("ssdlite320_mobilenet_v3_large"),
    "bert": _language("BertModel", "BertConfig", _SIZES, optimizer="bert"),
    "distilbert": _language(
        "DistilBertModel",
        "DistilBertConfig",
        {"vocab_size": 96, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "max_position_embeddings": 64},
        optimizer="bert",
    ),
    "roberta": _language("RobertaModel", "RobertaConfig", _SIZES, optimizer="bert"),
    "albert": _language("AlbertModel", "AlbertConfig", {**_SIZES, "embedding_size": 32}, optimizer="bert"),
    "electra": _language("ElectraModel", "ElectraConfig", {**_SIZES, "embedding_size": 32}, optimizer="bert"),
    "mpnet": _language("MPNetModel", "MPNetConfig", _SIZES, optimizer="bert"),
    "deberta_v2": _language("DebertaV2Model", "DebertaV2Config", _SIZES, optimizer="bert"),
    "modernbert": _language("ModernBertModel", "ModernBertConfig", {**_SIZES, "pad_token_id": 0}, optimizer="bert"),
    "vit_hf": _language(
        "ViTModel", "ViTConfig", _IMAGE_MODEL, {"pixel_values": ("image", (2, 3, 64, 64))}, optimizer="vit"
    ),
    "wav2vec2": _language("Wav2Vec2Model", "Wav2Vec2Config", _SPOKEN, {"input_values": ("image", (2, 800))}),
    "clip_text": _language("CLIPTextModel", "CLIPTextConfig", _SIZES, optimizer="clip"),
    "gpt2": _language("GPT2LMHeadModel", "GPT2Config", _GPT2, optimizer="gpt2"),
    "opt": _language(
        "OPTForCausalLM",
        "OPTConfig",
        {**_SIZES, "ffn_dim": 128, "word_embed_proj_dim": 64, "pad_token_id": 0},
        optimizer="gpt2",
    ),
    "bloom": _language(
        "BloomForCausalLM", "BloomConfig", {"vocab_size": 96, "hidden_size": 64, "n_layer": 2, "n_head": 4}
    ),
    "gpt_neox": _language("GPTNeoXForCausalLM", "GPTNeoXConfig", _SIZES, optimizer="gpt_neox"),
    "llama": _language("LlamaForCausalLM", "LlamaConfig", _GROUPED),
    "qwen2": _language("Qwen2ForCausalLM", "Qwen2Config", _GROUPED),
    "gemma2": _language("Gemma2ForCausalLM", "Gemma2Config", {**_GROUPED, "head_dim": 16}),
    "phi": _language("PhiForCausalLM", "PhiConfig", _SIZES, optimizer="phi"),
    "mamba": _language(
        "MambaForCausalLM",
        "MambaConfig",
        {"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8},
    ),
    "t5": _language("T5ForConditionalGeneration", "T5Config", _T5, _BOTH, optimizer="t5"),
    "bart": _language("BartForConditionalGeneration", "BartConfig", _BART, _BOTH, optimizer="bart"),
    "whisper": _language(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        _WHISPER,
        {"input_features": ("image", (2, 16, 40)), "decoder_input_ids": ("token", (2, 6))},
        optimizer="bart",
    ),
}
"""By name."""


def network(architecture: Architecture) -> Any:
    """Return the network with random weights, for inference."""
    torch.manual_seed(0)
    found = architecture.make().eval()
    for parameter in found.parameters():
        parameter.requires_grad_(False)
    return found


def examples(architecture: Architecture) -> dict[str, Any]:
    """Return inputs by name."""
    random = torch.Generator().manual_seed(1)
    made = {}
    for name, (kind, shape) in architecture.inputs.items():
        if kind == "image":
            made[name] = torch.randn(shape, generator=random)
        elif kind == "token":
            made[name] = torch.randint(3, 90, shape, generator=random)
        else:
            made[name] = torch.ones(shape, dtype=torch.int64)
    return made
