"""Model configuration: the shape of a Qwen3-VL policy, dense or mixture of experts, as frozen dataclasses.

In: the `config.json` of a Hugging Face checkpoint, or a preset name. Out: a hashable `ModelConfig` (usable as a static
argument of `jax.jit`) whose field names are Qwen3-VL's own. Reference: Qwen3-VL as implemented in
`transformers.models.qwen3_vl` and `transformers.models.qwen3_vl_moe`.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gui_rl.errors import UserError

Remat = Literal["none", "dots", "attention", "full"]
DENSE, MOE = "qwen3_vl", "qwen3_vl_moe"  # Hugging Face's model types
SCAN_ABOVE_LAYERS = 8  # deeper stacks are compiled once and scanned; shallower ones are unrolled (faster on CPU)


@dataclass(frozen=True)
class VisionConfig:
    """The vision encoder (Qwen3-VL's field names)."""

    depth: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    out_hidden_size: int
    num_position_embeddings: int = 2304
    deepstack_visual_indexes: tuple[int, ...] = ()
    in_channels: int = 3
    patch_size: int = 16
    temporal_patch_size: int = 2
    spatial_merge_size: int = 2
    rope_theta: float = 10_000.0

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_heads or (self.hidden_size // self.num_heads) % 4:
            raise UserError(
                f"vision hidden_size {self.hidden_size} over num_heads {self.num_heads} must be a multiple of 4"
            )
        if self.position_side**2 != self.num_position_embeddings:
            raise UserError(f"vision num_position_embeddings {self.num_position_embeddings} is not a square")
        if any(not 0 <= index < self.depth for index in self.deepstack_visual_indexes):
            raise UserError(f"deepstack_visual_indexes {self.deepstack_visual_indexes} go beyond depth {self.depth}")
        if list(self.deepstack_visual_indexes) != sorted(set(self.deepstack_visual_indexes)):
            raise UserError(f"deepstack_visual_indexes {self.deepstack_visual_indexes} must increase")

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden_size // self.num_heads

    @property
    def position_side(self) -> int:
        """Side of the square grid of learned position embeddings."""
        return int(self.num_position_embeddings**0.5)

    @property
    def patch_values(self) -> int:
        """Numbers in one flattened patch: channels x frames x height x width."""
        return self.in_channels * self.temporal_patch_size * self.patch_size**2

    @property
    def merge_unit(self) -> int:
        """Patches that become one visual token."""
        return self.spatial_merge_size**2


@dataclass(frozen=True)
class TextConfig:
    """The decoder (Qwen3-VL's field names; `rope_theta` and `mrope_section` lifted out of `rope_parameters`).

    `num_experts=0` is a dense decoder. Otherwise every layer is a mixture of experts (`gui_rl.model.moe`), each expert
    `moe_intermediate_size` wide, and `intermediate_size` is only carried along, as in the published files.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int = 128
    rms_norm_eps: float = 1e-6
    rope_theta: float = 5_000_000.0
    mrope_section: tuple[int, int, int] = (24, 20, 20)
    max_position_embeddings: int = 262_144
    num_experts: int = 0
    num_experts_per_tok: int = 0
    moe_intermediate_size: int = 0
    router_aux_loss_coef: float = 0.001

    def __post_init__(self) -> None:
        if self.num_experts and not 1 <= self.num_experts_per_tok <= self.num_experts:
            raise UserError(
                f"num_experts_per_tok {self.num_experts_per_tok} must be between 1 and num_experts {self.num_experts}"
            )
        if self.num_experts and self.moe_intermediate_size < 1:
            raise UserError(
                f"moe_intermediate_size {self.moe_intermediate_size} must be positive where there are experts"
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise UserError(
                f"num_attention_heads {self.num_attention_heads} is no multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        if len(self.mrope_section) != 3 or sum(self.mrope_section) != self.head_dim // 2:
            half = self.head_dim // 2
            raise UserError(
                f"mrope_section {self.mrope_section} must be three numbers with the sum {half} (head_dim / 2)"
            )


@dataclass(frozen=True)
class ModelConfig:
    """A whole policy. `dtype` is what activations are computed in, `param_dtype` what parameters are stored in.

    `init_style`: "qwen" draws every matrix with standard deviation 0.02; "scaled" keeps token embeddings, visual
    features and position embeddings at one scale, which tiny policies need in order to learn grounding from scratch.

    `remat` says what a layer keeps for the backward pass; the rest is computed again: "none" keeps everything, "dots"
    the results of matrix products, "attention" what attention gives, "full" only the layer's input.
    """

    text: TextConfig
    vision: VisionConfig
    tie_word_embeddings: bool = False
    image_token_id: int = 151_655
    video_token_id: int = 151_656
    vision_start_token_id: int = 151_652
    vision_end_token_id: int = 151_653
    init_style: Literal["qwen", "scaled"] = "qwen"
    dtype: str = "float32"
    param_dtype: str = "float32"
    scan_layers: bool = True
    remat: Remat = "none"

    def __post_init__(self) -> None:
        if self.vision.out_hidden_size != self.text.hidden_size:
            raise UserError(
                f"vision out_hidden_size {self.vision.out_hidden_size} differs from "
                f"text hidden_size {self.text.hidden_size}"
            )
        if len(self.vision.deepstack_visual_indexes) > self.text.num_hidden_layers:
            raise UserError(
                f"{len(self.vision.deepstack_visual_indexes)} DeepStack features need as many decoder layers; "
                f"num_hidden_layers is {self.text.num_hidden_layers}"
            )
        if self.init_style not in ("qwen", "scaled"):
            raise UserError(f'init_style "{self.init_style}" is unknown; use "qwen" or "scaled"')
        if self.remat not in get_args(Remat):
            raise UserError(f"remat {self.remat!r} is unknown; use one of {', '.join(get_args(Remat))}")

    @staticmethod
    def from_hf(document: Mapping[str, Any]) -> "ModelConfig":
        """The configuration of a Hugging Face `config.json` (published layout with `rope_scaling`, or
        `rope_parameters`).

        Raises `UserError` that names the first setting this implementation does not compute.
        """
        return _from_hf(document)

    def to_hf(self) -> dict[str, Any]:
        """A `config.json` document from which transformers builds the same model."""
        return _to_hf(self)


def preset(name: str) -> ModelConfig:
    """The configuration called `name`; `UserError` lists the known names."""
    if name not in PRESETS:
        raise UserError(f'no model preset "{name}"; known: {", ".join(sorted(PRESETS))}')
    return PRESETS[name]


_EXPERT_FIELDS = ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "router_aux_loss_coef")


def _from_hf(document: Mapping[str, Any]) -> ModelConfig:
    model_type = document.get("model_type")
    if model_type not in (DENSE, MOE):
        raise UserError(f'config.json: model_type is "{model_type}", expected "{DENSE}" or "{MOE}"')
    for part in ("text_config", "vision_config"):
        if part not in document:
            raise UserError(f'config.json: "{part}" is missing')
    text, vision = dict(document["text_config"]), document["vision_config"]
    if model_type == MOE:
        text.setdefault("num_experts", text.get("num_local_experts"))  # as transformers writes it
        for name in _EXPERT_FIELDS[:3]:
            if not text.get(name):
                raise UserError(f'config.json: text_config lacks "{name}"')
        _only(text, "text_config", norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])
    else:
        _only(text, "text_config", num_experts=0)
    rope = {**(text.get("rope_scaling") or {}), **(text.get("rope_parameters") or {})}
    vision_rope = vision.get("rope_parameters") or {}
    _only(document, "top level", quantization_config=None)
    _only(text, "text_config", hidden_act="silu", attention_bias=False, attention_dropout=0.0)
    _only(vision, "vision_config", hidden_act="gelu_pytorch_tanh")
    _only(rope, "text_config rope settings", rope_type="default", mrope_interleaved=True)
    _only(vision_rope, "vision_config.rope_parameters", rope_type="axial")
    text_values = _fields(TextConfig, text, "text_config", optional={"head_dim", "mrope_section"})
    text_values.setdefault("rope_theta", rope.get("rope_theta", TextConfig.rope_theta))
    text_values["mrope_section"] = tuple(rope.get("mrope_section", TextConfig.mrope_section))
    vision_values = _fields(VisionConfig, vision, "vision_config")
    vision_values["deepstack_visual_indexes"] = tuple(vision_values.get("deepstack_visual_indexes", ()))
    vision_values.setdefault("rope_theta", vision_rope.get("rope_theta", VisionConfig.rope_theta))
    top = {
        name: document[name]
        for name in ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
        if name in document
    }
    dtype = document.get("dtype") or document.get("torch_dtype") or text.get("dtype") or "float32"
    return ModelConfig(
        dtype=dtype,
        param_dtype=dtype,
        text=TextConfig(**text_values),
        vision=VisionConfig(**vision_values),
        tie_word_embeddings=document.get("tie_word_embeddings", text.get("tie_word_embeddings", False)),
        scan_layers=text_values["num_hidden_layers"] > SCAN_ABOVE_LAYERS,
        **top,
    )


def _fields(kind: type, document: Mapping[str, Any], where: str, optional: set[str] = frozenset()) -> dict[str, Any]:
    values = {}
    for field in dataclasses.fields(kind):
        if document.get(field.name) is not None:
            values[field.name] = document[field.name]
        elif field.default is dataclasses.MISSING and field.name not in optional:
            raise UserError(f'config.json: {where} lacks "{field.name}"')
    return values


def _only(document: Mapping[str, Any], where: str, **expected: Any) -> None:
    for name, value in expected.items():
        if document.get(name, value) not in (value, None):
            raise UserError(f"config.json: {where} has {name}={document[name]!r}; only {value!r} is implemented")


def _to_hf(cfg: ModelConfig) -> dict[str, Any]:
    text = dataclasses.asdict(cfg.text)
    if cfg.text.num_experts:
        architecture, model_type = "Qwen3VLMoeForConditionalGeneration", MOE
        text |= {"norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}
    else:
        architecture, model_type = "Qwen3VLForConditionalGeneration", DENSE
        text = {name: text[name] for name in text if name not in _EXPERT_FIELDS}
    theta, section = text.pop("rope_theta"), list(text.pop("mrope_section"))
    vision = dataclasses.asdict(cfg.vision)
    vision_theta = vision.pop("rope_theta")
    vision["deepstack_visual_indexes"] = list(vision["deepstack_visual_indexes"])
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "dtype": cfg.param_dtype,
        "image_token_id": cfg.image_token_id,
        "video_token_id": cfg.video_token_id,
        "vision_start_token_id": cfg.vision_start_token_id,
        "vision_end_token_id": cfg.vision_end_token_id,
        "tie_word_embeddings": cfg.tie_word_embeddings,
        "text_config": {
            **text,
            "model_type": f"{model_type}_text",
            "hidden_act": "silu",
            "attention_bias": False,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": theta,
                "mrope_section": section,
                "mrope_interleaved": True,
            },
        },
        "vision_config": {
            **vision,
            "model_type": f"{model_type}_vision",
            "hidden_act": "gelu_pytorch_tanh",
            "rope_parameters": {"rope_type": "axial", "rope_theta": vision_theta},
        },
    }


def _published(text: dict[str, int], vision: dict[str, Any], tied: bool) -> ModelConfig:
    return ModelConfig(
        text=TextConfig(vocab_size=151_936, **text),
        vision=VisionConfig(num_heads=16, out_hidden_size=text["hidden_size"], **vision),
        tie_word_embeddings=tied,
        dtype="bfloat16",
        param_dtype="bfloat16",
        remat="full",
    )


_VISION_SMALL: dict[str, Any] = {
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "deepstack_visual_indexes": (5, 11, 17),
}
_VISION_LARGE: dict[str, Any] = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "deepstack_visual_indexes": (8, 16, 24),
}


def _decoder(
    hidden_size: int, intermediate_size: int, num_hidden_layers: int, num_attention_heads: int
) -> dict[str, int]:
    return {
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": num_attention_heads,
        "num_key_value_heads": 8,
    }


def _experts(moe_intermediate_size: int) -> dict[str, int]:
    return {
        "num_key_value_heads": 4,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": moe_intermediate_size,
    }


# One preset serves a model's Instruct and Thinking variants: their shapes are the same.
PRESETS: dict[str, ModelConfig] = {
    "gui-tiny": ModelConfig(
        text=TextConfig(
            vocab_size=1536,
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            rope_theta=10_000.0,
            mrope_section=(6, 5, 5),
            max_position_embeddings=4096,
        ),
        vision=VisionConfig(
            depth=4,
            hidden_size=96,
            intermediate_size=256,
            num_heads=4,
            out_hidden_size=128,
            num_position_embeddings=256,
            deepstack_visual_indexes=(1, 2),
        ),
        tie_word_embeddings=True,
        init_style="scaled",
        scan_layers=False,
    ),
    "qwen3-vl-2b": _published(_decoder(2048, 6144, 28, 16), _VISION_SMALL, tied=True),
    "qwen3-vl-4b": _published(_decoder(2560, 9728, 36, 32), _VISION_SMALL, tied=True),
    "qwen3-vl-8b": _published(_decoder(4096, 12_288, 36, 32), _VISION_LARGE, tied=False),
    "qwen3-vl-32b": _published(_decoder(5120, 25_600, 64, 64), _VISION_LARGE, tied=False),
    "qwen3-vl-30b-a3b": _published(_decoder(2048, 6144, 48, 32) | _experts(768), _VISION_LARGE, tied=False),
    "qwen3-vl-235b-a22b": _published(_decoder(4096, 12_288, 94, 64) | _experts(1536), _VISION_LARGE, tied=False),
}
