"""Checkpoints: what we save, transformers loads; what does not fit is an error that names the tensor."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import qwen_reference as reference
from safetensors.numpy import load_file, save_file
from transformers import Qwen3VLForConditionalGeneration

from gui_rl.errors import UserError
from gui_rl.model import hf


@pytest.fixture(scope="module", params=["tied", "untied"])
def checkpoint(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoint")
    return request.param, reference.make(directory, tied=request.param == "tied"), directory


def test_saved_checkpoint_loads_in_transformers(checkpoint, tmp_path, monkeypatch):
    """One file for the tied model, several with an index for the untied one."""
    kind, model, directory = checkpoint
    cfg, params = hf.load(directory)
    monkeypatch.setattr(hf, "MAX_FILE_BYTES", hf.MAX_FILE_BYTES if kind == "tied" else 100_000)
    hf.save(tmp_path, cfg, params)
    files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert (files == [hf.SINGLE]) == (not (tmp_path / hf.INDEX).exists()) == (kind == "tied")
    again = Qwen3VLForConditionalGeneration.from_pretrained(tmp_path).eval()
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


def test_missing_unknown_and_misshapen_tensors_are_named(checkpoint, tmp_path):
    directory = checkpoint[2]
    cases = {
        f"{NAME} is missing": lambda tensors: tensors.pop(NAME),
        "spare.weight belongs to no parameter": lambda tensors: tensors.update({"spare.weight": np.zeros(2)}),
        f"{NAME} has shape .64, 96., the configuration needs .96, 64.": lambda tensors: tensors.update(
            {NAME: np.ascontiguousarray(tensors[NAME].T)}
        ),
    }
    for number, (message, edit) in enumerate(cases.items()):
        target = tmp_path / str(number)
        target.mkdir()
        with pytest.raises(UserError, match=message):
            hf.load(change(directory, target, edit))


def test_a_tied_checkpoint_may_repeat_its_embedding(checkpoint, tmp_path):
    kind, _, directory = checkpoint
    head, embed = "lm_head.weight", "model.language_model.embed_tokens.weight"
    target = change(directory, tmp_path, lambda tensors: tensors.update({head: tensors[embed].copy()}))
    cfg, params = hf.load(target)
    assert ("head" in params["text"]) == (kind == "untied")
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


def test_half_precision_is_kept(checkpoint, tmp_path):
    cfg, params = hf.load(checkpoint[2])
    half = dataclasses.replace(cfg, dtype="bfloat16", param_dtype="bfloat16")
    hf.save(tmp_path, half, params)
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
gate = split["text"]["layers"]["gate"]
assert gate.addressable_shards[0].data.shape == (2, 32, 48), gate.addressable_shards[0].data.shape
hf.save(sys.argv[2], cfg, split)
jax.tree.map(np.testing.assert_array_equal, whole, hf.load(sys.argv[2])[1])
"""


def test_loading_onto_a_mesh(checkpoint, tmp_path):
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", SHARDED, str(checkpoint[2]), str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, env={"PYTHONPATH": str(root), **flags}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
