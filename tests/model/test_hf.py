"""Checkpoints: what we save, transformers loads; what does not fit is an error that names the tensor."""

import dataclasses
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import jax
import numpy as np
import pytest
import qwen_reference as reference
from safetensors.numpy import load_file, save_file

from gui_rl.errors import UserError
from gui_rl.model import hf
from gui_rl.model.config import ModelConfig, TextConfig, VisionConfig
from gui_rl.model.params import init_params


@pytest.fixture(scope="module", params=["tied", "untied", "experts"])
def checkpoint(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoint")
    model = reference.make(directory, tied=request.param == "tied", experts=request.param == "experts")
    return request.param, model, directory


def test_saved_checkpoint_loads_in_transformers(checkpoint, tmp_path, monkeypatch):
    """One file for the tied model, several with an index for the others."""
    kind, model, directory = checkpoint
    cfg, params = hf.load(directory)
    monkeypatch.setattr(hf, "MAX_FILE_BYTES", hf.MAX_FILE_BYTES if kind == "tied" else 100_000)
    hf.save(tmp_path, cfg, params)
    files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert (files == [hf.SINGLE]) == (not (tmp_path / hf.INDEX).exists()) == (kind == "tied")
    again = type(model).from_pretrained(tmp_path).eval()
    item = reference.sample(1, 5, [(1, 4, 2)])
    expected = reference.reference_logits(model, item)
    np.testing.assert_allclose(reference.reference_logits(again, item), expected, atol=1e-4)
    weights = again.state_dict()
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(weights[name].numpy(), value.numpy(), err_msg=name)
    cfg_again, params_again = hf.load(tmp_path)
    assert cfg_again == cfg
    jax.tree.map(np.testing.assert_array_equal, params_again, params)


def test_saving_again_leaves_no_old_files(checkpoint, tmp_path, monkeypatch):
    cfg, params = hf.load(checkpoint[2])
    with monkeypatch.context() as patch:
        patch.setattr(hf, "MAX_FILE_BYTES", 100_000)
        hf.save(tmp_path, cfg, params)
    (tmp_path / "tokenizer.json").write_text("{}")
    hf.save(tmp_path, cfg, params)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]


def change(source: Path, target: Path, edit) -> Path:
    tensors = load_file(source / hf.SINGLE)
    edit(tensors)
    (target / hf.CONFIG).write_text((source / hf.CONFIG).read_text())
    save_file(tensors, target / hf.SINGLE, metadata={"format": "pt"})
    return target


NAME = "model.language_model.layers.1.mlp.up_proj.weight"
FUSED = "model.language_model.layers.1.mlp.experts.gate_up_proj"


def test_missing_unknown_and_misshapen_tensors_are_named(checkpoint, tmp_path):
    kind, _, directory = checkpoint
    name, wrong, right = (FUSED, "8, 64", "8, 64, 48") if kind == "experts" else (NAME, "64, 96", "96, 64")
    cases = {
        f"{name} is missing": lambda tensors: tensors.pop(name),
        "spare.weight belongs to no parameter": lambda tensors: tensors.update({"spare.weight": np.zeros(2)}),
        f"{name} has shape .{wrong}., the configuration needs .{right}.": lambda tensors: tensors.update(
            {name: tensors[name][:, 0].copy() if kind == "experts" else tensors[name].T.copy()}
        ),
    }
    for number, (message, edit) in enumerate(cases.items()):
        target = tmp_path / str(number)
        target.mkdir()
        with pytest.raises(UserError, match=message):
            hf.load(change(directory, target, edit))


def test_a_checkpoint_of_another_configuration_is_refused(checkpoint):
    """By the first setting that differs, also where every tensor has the same shape."""
    cfg = hf.read_config(checkpoint[2])
    theta = dataclasses.replace(cfg, text=dataclasses.replace(cfg.text, rope_theta=20_000.0))
    levels = dataclasses.replace(cfg, vision=dataclasses.replace(cfg.vision, deepstack_visual_indexes=(0,)))
    for other, says in ((theta, "rope_parameters.*20000"), (levels, r"deepstack_visual_indexes is \[0, 1\], \[0\]")):
        with pytest.raises(UserError, match=says):
            hf.load(checkpoint[2], other)
    hf.load(checkpoint[2], dataclasses.replace(cfg, dtype="bfloat16", scan_layers=True, remat="full"))


def test_a_tied_checkpoint_may_repeat_its_embedding(checkpoint, tmp_path):
    kind, _, directory = checkpoint
    head, embed = "lm_head.weight", "model.language_model.embed_tokens.weight"
    target = change(directory, tmp_path, lambda tensors: tensors.update({head: tensors[embed].copy()}))
    cfg, params = hf.load(target)
    assert ("head" in params["text"]) == (kind != "tied")
    if kind == "tied":
        change(directory, tmp_path, lambda tensors: tensors.update({head: tensors[embed] + 1}))
        with pytest.raises(UserError, match="lm_head.weight"):
            hf.load(target)


def test_missing_files_are_one_clear_line(checkpoint, tmp_path):
    directory = checkpoint[2]
    with pytest.raises(UserError, match="^no checkpoint directory at .*nowhere$"):
        hf.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match="^no checkpoint at .*: config.json is missing$"):
        hf.load(tmp_path)
    (tmp_path / hf.CONFIG).write_text((directory / hf.CONFIG).read_text())
    with pytest.raises(UserError, match="^no checkpoint at .*: model.safetensors is missing$"):
        hf.load(tmp_path)
    (tmp_path / hf.INDEX).write_text(json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}}))
    with pytest.raises(UserError, match="model-00001-of-00002.safetensors is missing"):
        hf.load(tmp_path)
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(UserError, match="is not a safetensors file"):
        hf.load(tmp_path)
    (tmp_path / hf.CONFIG).write_text("{")
    with pytest.raises(UserError, match="is not JSON"):
        hf.load(tmp_path)
    (tmp_path / hf.CONFIG).write_text((directory / hf.CONFIG).read_text())
    (tmp_path / hf.INDEX).write_text("{}")
    with pytest.raises(UserError, match='index.json has no "weight_map"'):
        hf.load(tmp_path)


# A tensor of every class: where it stands in our tree, and how its file's tensor becomes that.
CLASSES = {
    "vector": ("text/layers/query_norm", "model.language_model.layers.1.self_attn.q_norm.weight", lambda x: x),
    "bias": ("vision/blocks/qkv_bias", "model.visual.blocks.1.attn.qkv.bias", lambda x: x),
    "linear": ("text/layers/query", "model.language_model.layers.1.self_attn.q_proj.weight", lambda x: x.T),
    "DeepStack": ("vision/deepstack/up", "model.visual.deepstack_merger_list.1.linear_fc1.weight", lambda x: x.T),
    "merger": ("vision/merger/down", "model.visual.merger.linear_fc2.weight", lambda x: x.T),
    "patch": ("vision/patch", "model.visual.patch_embed.proj.weight", lambda x: x.reshape(32, -1).T),
    "table": ("vision/positions", "model.visual.pos_embed.weight", lambda x: x),
    "embedding": ("text/embed", "model.language_model.embed_tokens.weight", lambda x: x),
    "head": ("text/head", "lm_head.weight", lambda x: x.T),
    "dense": ("text/layers/up", NAME, lambda x: x.T),
    "router": ("text/layers/router", "model.language_model.layers.1.mlp.gate.weight", lambda x: x.T),
    "gate of experts": ("text/layers/experts_gate", FUSED, lambda x: x[:, :24].swapaxes(1, 2)),
    "up of experts": ("text/layers/experts_up", FUSED, lambda x: x[:, 24:].swapaxes(1, 2)),
    "down of experts": (
        "text/layers/experts_down",
        "model.language_model.layers.1.mlp.experts.down_proj",
        lambda x: x.swapaxes(1, 2),
    ),
}


def test_every_class_of_tensor_lands_where_it_belongs(checkpoint):
    """Read from the file by hand; every class is met in at least one kind of checkpoint."""
    kind, _, directory = checkpoint
    tensors = load_file(directory / hf.SINGLE)
    _, params = hf.load(directory)
    met = set()
    for name, (path, tensor, turn) in CLASSES.items():
        if tensor not in tensors:
            continue
        value = params
        for key in path.split("/"):
            value = value[key]
        value = value[1] if "layers" in path or "blocks" in path or "deepstack" in path else value
        np.testing.assert_array_equal(value, turn(tensors[tensor]), err_msg=name)
        met.add(name)
    missing = {"tied": {"head"}, "untied": set(), "experts": {"dense"}}[kind]
    experts = {"router", "gate of experts", "up of experts", "down of experts"}
    assert met == set(CLASSES) - missing - (set() if kind == "experts" else experts)


@pytest.mark.parametrize("width", [24, 32, 64])
def test_experts_may_lie_either_way(tmp_path, width):
    """We write them as published, transformers 5 writes them transposed; a square matrix (32: gate with up, 64: down)
    must mean the same to both."""
    model = reference.make(tmp_path / "theirs", True, experts=True, text={"moe_intermediate_size": width})
    cfg, params = hf.load(tmp_path / "theirs")
    hf.save(tmp_path / "ours", cfg, params)
    shape = load_file(tmp_path / "ours" / hf.SINGLE)[FUSED].shape
    assert shape == (8, 64, 2 * width)
    jax.tree.map(np.testing.assert_array_equal, hf.load(tmp_path / "ours")[1], params)
    weights = type(model).from_pretrained(tmp_path / "ours").state_dict()
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(weights[name].numpy(), value.numpy(), err_msg=name)


def test_layers_travel_in_chunks_within_twice_the_largest_tensor(tmp_path, monkeypatch):
    """Counted by tracemalloc, which sees every numpy array: many shards, stacks of four times the largest tensor."""
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256}
    cfg = ModelConfig(
        text=TextConfig(512, 128, 256, 8, 2, 1, 64, mrope_section=(16, 8, 8), **experts),
        vision=VisionConfig(1, 32, 32, 2, 128, 16, patch_size=2),
    )
    params = init_params(cfg, jax.random.key(0))
    monkeypatch.setattr(hf, "MAX_FILE_BYTES", 2**20)
    hf.save(tmp_path, cfg, params)
    assert len(list(tmp_path.glob("*.safetensors"))) > 10
    largest = 4 * 128 * 512 * 4  # gate and up of four experts
    stacked = params["text"]["layers"]["experts_gate"].nbytes
    assert stacked == 4 * largest

    def peak(chunk):
        monkeypatch.setattr(hf, "CHUNK_BYTES", chunk)
        hf.load(tmp_path)  # what is compiled stays
        tracemalloc.start()
        try:
            _, again = hf.load(tmp_path)
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        jax.tree.map(np.testing.assert_array_equal, again, params)
        return held

    slack = 2**18  # names, headers and other small objects
    assert peak(0) < 2 * largest + slack
    assert peak(stacked) > stacked  # with room for a whole stack, the count sees it


def test_half_precision_is_kept(checkpoint, tmp_path):
    cfg, params = hf.load(checkpoint[2])
    hf.save(tmp_path, cfg, params, dtype="bfloat16")
    cfg_again, params_again = hf.load(tmp_path)
    assert cfg_again.param_dtype == "bfloat16"
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b.astype("bfloat16")), params_again, params)


SHARDED = """
import sys
import jax, numpy as np
from jax.sharding import Mesh
from gui_rl.model import hf
from gui_rl.model.params import ShardingRules
mesh = Mesh(np.array(jax.devices()).reshape(1, 2, 1, 2), ("replica", "fsdp", "expert", "tensor"))
cfg, whole = hf.load(sys.argv[1])
_, split = hf.load(sys.argv[1], mesh=mesh, rules=ShardingRules(vocab=None))
jax.tree.map(np.testing.assert_array_equal, whole, split)
layers = split["text"]["layers"]
name, shape = ("experts_gate", (2, 8, 32, 12)) if "router" in layers else ("gate", (2, 32, 48))
assert layers[name].addressable_shards[0].data.shape == shape, layers[name].addressable_shards[0].data.shape
hf.save(sys.argv[2], cfg, split)
jax.tree.map(np.testing.assert_array_equal, whole, hf.load(sys.argv[2])[1])
"""


def test_loading_onto_a_mesh(checkpoint, tmp_path):
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", SHARDED, str(checkpoint[2]), str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, env={"PYTHONPATH": str(root), **flags}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
