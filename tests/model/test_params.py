"""Parameter declarations: names and shapes are transformers', initial scales are as declared, shardings are checked."""

import dataclasses
import math

import jax
import numpy as np
import pytest
import torch
from jax.sharding import AbstractMesh, PartitionSpec
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from gui_rl.errors import UserError
from gui_rl.model import hf, params
from gui_rl.model.config import PRESETS, ModelConfig, preset

MESH = AbstractMesh((2, 4, 1, 2), ("replica", "fsdp", "expert", "tensor"))
BILLIONS = {"qwen3-vl-2b": 2.13, "qwen3-vl-4b": 4.44, "qwen3-vl-8b": 8.77, "qwen3-vl-32b": 33.36}


@pytest.mark.parametrize("name", PRESETS)
def test_names_and_shapes_are_those_of_transformers(name):
    cfg = preset(name)
    document = cfg.to_hf()
    with torch.device("meta"):
        model = Qwen3VLForConditionalGeneration(Qwen3VLConfig(**document))
    expected = {name: tuple(value.shape) for name, value in model.named_parameters()}
    specs = jax.tree.leaves(params.param_specs(cfg), is_leaf=params.is_spec)
    assert {name: hf.hf_shape(spec, cfg) for spec in specs for name in hf.hf_names(spec)} == expected
    if name in BILLIONS:
        assert params.count_params(cfg) / 1e9 == pytest.approx(BILLIONS[name], abs=0.01)


@pytest.mark.parametrize("name", PRESETS)
def test_config_survives_transformers(name):
    cfg = preset(name)
    again = ModelConfig.from_hf(Qwen3VLConfig(**cfg.to_hf()).to_dict())
    assert (again.text, again.vision, again.tie_word_embeddings) == (cfg.text, cfg.vision, cfg.tie_word_embeddings)
    assert again.image_token_id == cfg.image_token_id


def test_published_layout_of_rope_settings():
    document = preset("qwen3-vl-2b").to_hf()
    rope = document["text_config"].pop("rope_parameters")
    document["text_config"]["rope_theta"] = rope["rope_theta"]
    document["text_config"]["rope_scaling"] = {
        "mrope_interleaved": True,
        "mrope_section": rope["mrope_section"],
        "rope_type": "default",
    }
    del document["vision_config"]["rope_parameters"]
    again = ModelConfig.from_hf(document)
    assert (again.text, again.vision) == (preset("qwen3-vl-2b").text, preset("qwen3-vl-2b").vision)


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
