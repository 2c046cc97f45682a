"""Parameter declarations: names and shapes are transformers', initial scales are as declared, shardings are checked."""

import dataclasses
import math

import jax
import numpy as np
import pytest
import torch
from jax.sharding import AbstractMesh, PartitionSpec
from transformers import (
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)

from gui_rl.errors import UserError
from gui_rl.model import hf, params
from gui_rl.model.config import PRESETS, ModelConfig, preset

MESH = AbstractMesh((2, 4, 1, 2), ("replica", "fsdp", "expert", "tensor"))
# Billions of parameters of the published checkpoints; for 32B and 235B-A22B also the sizes of their bfloat16 files
# (66.7 and 471.3 GB) over two bytes.
BILLIONS = {
    "qwen3-vl-2b": 2.13,
    "qwen3-vl-4b": 4.44,
    "qwen3-vl-8b": 8.77,
    "qwen3-vl-32b": 33.36,
    "qwen3-vl-30b-a3b": 31.07,
    "qwen3-vl-235b-a22b": 235.67,
}
# The published config.json of every preset, without what does not change the shape: {decoder} and {encoder}. Source:
# the files of the Instruct repositories on the Hugging Face Hub, as quoted in public code that embeds them.
PUBLISHED = {
    "qwen3-vl-2b": ((2048, 6144, 28, 16, 8, True), (24, 1024, 4096, 2048, [5, 11, 17])),
    "qwen3-vl-4b": ((2560, 9728, 36, 32, 8, True), (24, 1024, 4096, 2560, [5, 11, 17])),
    "qwen3-vl-8b": ((4096, 12288, 36, 32, 8, False), (27, 1152, 4304, 4096, [8, 16, 24])),
    "qwen3-vl-32b": ((5120, 25600, 64, 64, 8, False), (27, 1152, 4304, 5120, [8, 16, 24])),
    "qwen3-vl-30b-a3b": ((2048, 6144, 48, 32, 4, False, 768), (27, 1152, 4304, 2048, [8, 16, 24])),
    "qwen3-vl-235b-a22b": ((4096, 12288, 94, 64, 4, False, 1536), (27, 1152, 4304, 4096, [8, 16, 24])),
}


def published(name: str) -> dict:
    (hidden, inner, layers, heads, key_heads, tied, *expert), (depth, *vision, levels) = PUBLISHED[name]
    kind = "qwen3_vl_moe" if expert else "qwen3_vl"
    text = {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "dtype": "bfloat16",
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "max_position_embeddings": 262144,
        "model_type": f"{kind}_text",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": key_heads,
        "rms_norm_eps": 1e-06,
        "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
        "rope_theta": 5000000,
        "vocab_size": 151936,
    }
    if expert:
        text |= {"decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}
        text |= {"moe_intermediate_size": expert[0], "num_experts": 128, "num_experts_per_tok": 8}
    return {
        "image_token_id": 151655,
        "model_type": kind,
        "text_config": text,
        "tie_word_embeddings": tied,
        "video_token_id": 151656,
        "vision_config": {
            "deepstack_visual_indexes": levels,
            "depth": depth,
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": vision[0],
            "in_channels": 3,
            "intermediate_size": vision[1],
            "model_type": kind,
            "num_heads": 16,
            "num_position_embeddings": 2304,
            "out_hidden_size": vision[2],
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
        "vision_end_token_id": 151653,
        "vision_start_token_id": 151652,
    }


def transformers_kinds(cfg: ModelConfig):
    if cfg.text.num_experts:
        return Qwen3VLMoeForConditionalGeneration, Qwen3VLMoeConfig
    return Qwen3VLForConditionalGeneration, Qwen3VLConfig


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_are_the_published_configurations(name):
    cfg = preset(name)
    again = ModelConfig.from_hf(published(name))
    assert dataclasses.replace(again, remat=cfg.remat, scan_layers=cfg.scan_layers) == cfg


@pytest.mark.parametrize("name", PRESETS)
def test_names_and_shapes_are_those_of_transformers(name):
    cfg = preset(name)
    kind, config_kind = transformers_kinds(cfg)
    with torch.device("meta"):
        model = kind(config_kind(**cfg.to_hf()))
    expected = {}
    for parameter, value in model.named_parameters():
        shape = tuple(value.shape)  # files hold the experts' matrices the other way round than transformers' memory
        expected[parameter] = (shape[0], *shape[:0:-1]) if ".experts." in parameter else shape
    specs = jax.tree.leaves(params.param_specs(cfg), is_leaf=params.is_spec)
    assert {name: hf.hf_shape(spec, cfg) for spec in specs for name in hf.hf_names(spec)} == expected
    if name in BILLIONS:
        assert params.count_params(cfg) / 1e9 == pytest.approx(BILLIONS[name], abs=0.01)


@pytest.mark.parametrize("name", PRESETS)
def test_config_survives_transformers(name):
    cfg = preset(name)
    again = ModelConfig.from_hf(transformers_kinds(cfg)[1](**cfg.to_hf()).to_dict())
    assert (again.text, again.vision, again.tie_word_embeddings) == (cfg.text, cfg.vision, cfg.tie_word_embeddings)
    assert again.image_token_id == cfg.image_token_id


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        (None, {"model_type": "llava"}, 'model_type is "llava"'),
        ("text_config", {"hidden_act": "relu"}, "hidden_act='relu'"),
        ("text_config", {"attention_bias": True}, "attention_bias=True"),
        ("text_config", {"hidden_size": None}, 'text_config lacks "hidden_size"'),
        ("text_config", {"num_key_value_heads": 3}, "num_key_value_heads 3"),
        ("vision_config", {"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ("vision_config", {"num_position_embeddings": 200}, "200 is not a square"),
        ("vision_config", {"deepstack_visual_indexes": [1, 9]}, "go beyond depth 4"),
        ("vision_config", {"out_hidden_size": 64}, "out_hidden_size 64 differs"),
    ],
)
def test_a_setting_that_is_not_computed_is_an_error(part, change, message):
    document = preset("gui-tiny").to_hf()
    (document if part is None else document[part]).update(change)
    with pytest.raises(UserError, match=message):
        ModelConfig.from_hf(document)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("text_config", {"norm_topk_prob": False}, "norm_topk_prob=False"),
        ("text_config", {"decoder_sparse_step": 2}, "decoder_sparse_step=2"),
        ("text_config", {"mlp_only_layers": [0]}, r"mlp_only_layers=\[0\]"),
        ("text_config", {"num_experts": None}, 'text_config lacks "num_experts"'),
        ("text_config", {"num_experts_per_tok": 200}, "num_experts_per_tok 200 must be between 1 and num_experts 128"),
        ("text_config", {"moe_intermediate_size": None}, 'text_config lacks "moe_intermediate_size"'),
        (None, {"quantization_config": {"quant_method": "fp8"}}, "quantization_config="),
        (None, {"model_type": "qwen3_vl"}, "num_experts=128"),
    ],
)
def test_an_expert_setting_that_is_not_computed_is_an_error(part, change, message):
    document = published("qwen3-vl-30b-a3b")
    (document if part is None else document[part]).update(change)
    with pytest.raises(UserError, match=message):
        ModelConfig.from_hf(document)


def test_an_unknown_way_of_recomputing_names_the_known_ones():
    with pytest.raises(UserError, match="remat True is unknown; use one of none, dots, attention, full"):
        dataclasses.replace(preset("gui-tiny"), remat=True)


def test_a_token_uses_a_tenth_of_the_experts_model():
    """The names say so: 30B-A3B and 235B-A22B."""
    for name, billions in {"qwen3-vl-30b-a3b": 3.3, "qwen3-vl-235b-a22b": 22}.items():
        cfg = preset(name)
        encoder = params.param_specs(cfg)["vision"]
        seen = sum(math.prod(spec.shape) for spec in jax.tree.leaves(encoder, is_leaf=params.is_spec))
        decoder = params.count_active_params(cfg) - seen
        assert decoder / 1e9 == pytest.approx(billions, rel=0.05), name
    assert params.count_active_params(preset("gui-tiny")) == params.count_params(preset("gui-tiny"))


def test_unknown_preset_names_the_known_ones():
    with pytest.raises(UserError, match="gui-tiny"):
        preset("gui-huge")


def test_scaled_start_has_the_declared_scales():
    cfg = preset("gui-tiny")
    init = jax.jit(params.init_params, static_argnums=0)
    tree, again, other = (init(cfg, jax.random.key(seed)) for seed in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, tree, again)
    assert not np.array_equal(tree["text"]["embed"], other["text"]["embed"])
    described = [jax.tree.map(lambda x: (x.shape, x.dtype), part) for part in (tree, params.abstract_params(cfg))]
    assert described[0] == described[1]
    text, vision = tree["text"], tree["vision"]
    width = cfg.text.hidden_size
    expected = {
        "embedding": (text["embed"], 1.0),
        "vision positions": (vision["positions"], 0.5),
        "patches": (vision["patch"], 1536**-0.5),
        "query": (text["layers"]["query"], width**-0.5),
        "output": (text["layers"]["output"], 0.3 * width**-0.5),
        "down": (text["layers"]["down"], 0.3 * cfg.text.intermediate_size**-0.5),
    }
    for name, (value, std) in expected.items():
        assert float(np.std(value)) == pytest.approx(std, rel=0.03), name
    np.testing.assert_allclose(text["norm"], width**-0.5, rtol=1e-6)
    assert not np.any(vision["blocks"]["qkv_bias"]) and np.all(vision["blocks"]["mlp_norm"] == 1)
    layers = text["layers"]["query"]
    assert abs(np.corrcoef(layers[0].ravel(), layers[1].ravel())[0, 1]) < 0.05
    assert abs(np.corrcoef(text["layers"]["gate"].ravel(), text["layers"]["up"].ravel())[0, 1]) < 0.05


def test_qwen_start():
    specs = params.param_specs(dataclasses.replace(preset("gui-tiny"), init_style="qwen"))
    matrices = [spec for spec in jax.tree.leaves(specs, is_leaf=params.is_spec) if spec.layout != "vector"]
    assert {spec.init for spec in matrices} == {params.Init(std=0.02)}
    assert specs["text"]["norm"].init == params.Init(mean=1.0)


def test_every_large_parameter_is_split_over_all_axes():
    cfg = preset("qwen3-vl-2b")
    specs = params.param_specs(cfg)
    placed = params.shardings(specs, MESH, params.ShardingRules())
    assert placed["text"]["layers"]["gate"].spec == PartitionSpec(None, "fsdp", "tensor")
    assert placed["text"]["layers"]["down"].spec == PartitionSpec(None, "tensor", "fsdp")
    pairs = zip(jax.tree.leaves(specs, is_leaf=params.is_spec), jax.tree.leaves(placed), strict=True)
    for spec, sharding in pairs:
        whole, part = math.prod(spec.shape), math.prod(sharding.shard_shape(spec.shape))
        if whole > 10_000_000:
            assert whole == 8 * part, spec.hf_name


def test_experts_are_split_over_all_axes():
    specs = params.param_specs(preset("qwen3-vl-30b-a3b"))
    mesh = AbstractMesh((2, 2, 4, 2), ("replica", "fsdp", "expert", "tensor"))
    layers = params.shardings(specs, mesh, params.ShardingRules())["text"]["layers"]
    assert layers["experts_gate"].spec == PartitionSpec(None, "expert", "fsdp", "tensor")
    assert layers["experts_down"].spec == PartitionSpec(None, "expert", "tensor", "fsdp")
    assert layers["router"].spec == PartitionSpec(None, "fsdp", None)
    assert params.ShardingRules().spec(("batch",)) == PartitionSpec(("replica", "fsdp", "expert"))


def test_sharding_errors_name_the_cause():
    specs = params.param_specs(preset("gui-tiny"))
    with pytest.raises(UserError, match='"heads" and "embed".*both split over the mesh axis "fsdp"'):
        params.shardings(specs, MESH, params.ShardingRules(heads="fsdp"))
    with pytest.raises(UserError, match='no logical axis "colour"'):
        params.ShardingRules().spec(("embed", "colour"))
    with pytest.raises(UserError, match='"embed" is split over "pipe", but the mesh has'):
        params.shardings(specs, MESH, params.ShardingRules(embed="pipe"))
    wide = AbstractMesh((1, 1, 1, 5), ("replica", "fsdp", "expert", "tensor"))
    with pytest.raises(UserError, match=r"parameter .*: axis .* cannot be split 5 ways"):
        params.shardings(specs, wide, params.ShardingRules())
