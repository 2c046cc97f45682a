"""FLOPs and bytes against counts by hand, and against XLA's own count of an unrolled tiny model."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from gui_rl.model import forward
from gui_rl.model.config import ModelConfig, TextConfig, VisionConfig, preset
from gui_rl.model.params import abstract_params
from gui_rl.scale import arithmetic
from gui_rl.scale.aot import batch_shapes
from gui_rl.scale.arithmetic import Roofline, Workload


def test_the_8b_by_hand():
    """Qwen3-VL-8B: 36 layers of width 4096, 32 heads of 128, 8 key-value heads, MLP 12288, vocabulary 151936."""
    cfg, work = preset("qwen3-vl-8b"), Workload(rows=3, length=8192, patches=0)
    layer = 4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 12288
    flops = arithmetic.forward_flops(cfg, work, needed=True)
    assert flops.decoder == 2 * 3 * 8192 * 36 * layer
    assert flops.head == 2 * 3 * 8192 * 4096 * 151936
    assert flops.attention == 3 * 36 * 4 * 8192 * 8192 * 4096 / 2
    assert flops.vision == flops.vision_attention == 0
    whole = dataclasses.replace(work, tiled=False)
    assert arithmetic.forward_flops(cfg, whole, needed=False).attention == 2 * flops.attention


def test_the_vision_encoder_by_hand():
    """27 blocks of width 1152 with MLP 4304; patches of 1536 values; merging 4 patches, once and for 3 DeepStacks."""
    cfg, work = preset("qwen3-vl-8b"), Workload(rows=2, length=64, patches=16000, image_patches=4000)
    blocks = 27 * (4 * 1152 * 1152 + 2 * 1152 * 4304)
    merger = (4 * 1152) ** 2 + 4 * 1152 * 4096
    needed, executed = (arithmetic.forward_flops(cfg, work, needed=it) for it in (True, False))
    assert needed.vision == 2 * 2 * (16000 * (1536 * 1152 + blocks) + 4000 * 4 * merger)
    assert needed.vision_attention == 2 * 27 * 4 * 1152 * 16000 * 4000
    assert executed.vision_attention == 4 * needed.vision_attention  # four images, each seeing all patches of the row


def test_a_train_step_is_three_forward_passes_and_what_is_computed_again():
    work = Workload(rows=1, length=1024, patches=0)
    cfg = preset("qwen3-vl-2b")
    once = arithmetic.forward_flops(cfg, work, needed=False)
    needed, executed = arithmetic.train_flops(cfg, work)
    assert needed == 3 * once.total
    assert executed == 4 * once.weights + (1 + 1 + 2.5) * once.attention
    keeps = dataclasses.replace(cfg, remat=type(cfg.remat)() if isinstance(cfg.remat, bool) else "none")
    assert arithmetic.train_flops(keeps, work)[1] == 3 * once.decoder + 4 * once.head + 3.5 * once.attention


def unrolled(**vision) -> ModelConfig:
    text = TextConfig(1000, 128, 320, 3, 4, 2, head_dim=32, mrope_section=(6, 5, 5), rope_theta=1e4)
    settings = dict(depth=3, hidden_size=96, intermediate_size=200, num_heads=2, num_position_embeddings=576)
    tower = VisionConfig(**settings, out_hidden_size=128, deepstack_visual_indexes=(0,))
    return ModelConfig(text=text, vision=tower, scan_layers=False)


@pytest.mark.parametrize(("rows", "length"), [(2, 512), (3, 256)])
def test_the_decoder_against_the_compiler(rows, length):
    cfg = unrolled()
    work = Workload(rows, length, 0, tiled=False)
    inputs = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), batch_shapes(cfg, 1, rows, length, 0).inputs
    )

    def run(params, inputs):
        return forward.logits(params, cfg, forward.hidden(params, cfg, inputs))

    counted = jax.jit(run).lower(abstract_params(cfg), inputs).cost_analysis()["flops"]
    ours = arithmetic.forward_flops(cfg, work, needed=False)
    assert ours.total <= counted <= 1.1 * ours.total  # the compiler counts element-wise work too
    backward = jax.jit(jax.grad(lambda params, inputs: jnp.sin(run(params, inputs)).sum()))
    counted = backward.lower(abstract_params(cfg), inputs).cost_analysis()["flops"]
    assert 3 * ours.total <= 1.02 * counted and counted <= 1.15 * 3 * ours.total


def test_the_vision_encoder_against_the_compiler():
    cfg = unrolled()
    work = Workload(2, 300, 1024, tiled=False)
    inputs = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), batch_shapes(cfg, 1, 2, 300, 1024).inputs
    )
    run = jax.jit(lambda params, inputs: forward.encode_images(params, cfg, inputs))
    counted = run.lower(abstract_params(cfg), inputs).cost_analysis()["flops"]
    ours = arithmetic.forward_flops(cfg, work, needed=False)
    assert ours.vision + ours.vision_attention <= counted <= 1.1 * (ours.vision + ours.vision_attention)


def test_decoding_by_hand():
    """One token through the 8B with 1000 cached ones: its weights, and a product with every key and every value."""
    cfg = preset("qwen3-vl-8b")
    layer = 4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 12288
    expected = 2 * (36 * layer + 4096 * 151936) + 4 * 1000 * 36 * 4096
    assert arithmetic.decode_flops(cfg, rows=1, filled=1000) == expected
    assert arithmetic.cache_bytes(cfg, rows=2, capacity=1000) == 2 * 1000 * 36 * (1024 + 1024) * 2


def test_traffic_of_a_step_by_hand():
    """Without images: weights, activations, logits and state, each as the docstring counts them."""
    cfg, work = preset("qwen3-vl-2b"), Workload(rows=8, length=512, patches=0)
    params = arithmetic.param_count(cfg)
    ends = 28 * (2 * (2048 + 2048) + 2 * (2048 + 1024) + 3 * (2048 + 6144)) + 2048 + 151936
    expected = params * (3 * 4 + 8) + ends * 512 * 2 * 4 + 512 * 151936 * 32 + 2 * 7.0
    found = arithmetic.train_traffic(cfg, work, chips=8, tensor=1, state_bytes=7.0)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_roofline_lies_between_its_longest_part_and_their_sum():
    roofline = Roofline(compute=3.0, memory=1.0, collectives=2.0)
    assert (roofline.overlapped, roofline.sequential, roofline.bound) == (3.0, 6.0, "compute")


def test_parameter_count():
    assert arithmetic.param_count(preset("qwen3-vl-8b")) == pytest.approx(8.77e9, rel=0.01)
    assert jnp.dtype(preset("qwen3-vl-8b").param_dtype).itemsize == 2
