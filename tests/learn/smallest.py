"""A policy small enough to compile in a second, and samples to pack; for the tests here and the programs they start."""

import numpy as np

from gui_rl.data.packing import Branch, Sample
from gui_rl.model.config import ModelConfig, TextConfig, VisionConfig
from gui_rl.prompt.images import ImageInput

IMAGE = 40
PATCH_DIM = 24


def build_config() -> ModelConfig:
    """One decoder layer, one vision block, one DeepStack level."""
    text = TextConfig(
        vocab_size=48,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        rope_theta=10_000.0,
        mrope_section=(4, 2, 2),
        max_position_embeddings=512,
    )
    vision = VisionConfig(
        depth=1,
        hidden_size=32,
        intermediate_size=48,
        num_heads=2,
        out_hidden_size=32,
        num_position_embeddings=16,
        deepstack_visual_indexes=(0,),
        patch_size=2,
    )
    return ModelConfig(
        text=text, vision=vision, tie_word_embeddings=True, image_token_id=IMAGE, init_style="scaled", scan_layers=False
    )


def build_samples(seed: int, count: int, branches: int = 1, weighted: tuple[str, ...] = ("ce_weight",)) -> list[Sample]:
    """Random screenshots with random answers. The named weight streams are random and positive, the others 0."""
    random = np.random.default_rng(seed)
    samples = []
    for number in range(count):
        grid = (1, 2 * int(random.integers(1, 3)), 4)
        image = ImageInput(
            random.normal(size=(int(np.prod(grid)), PATCH_DIM)).astype(np.float32), grid, (grid[2], grid[1])
        )
        before, after = random.integers(0, 39, int(random.integers(1, 4))), random.integers(0, 39, 2)
        trunk = np.concatenate([before, np.full(image.tokens, IMAGE), after])
        answers = []
        for _ in range(branches):
            length = int(random.integers(2, 6))
            streams = {name: random.uniform(0.2, 2.0, length).astype(np.float32) for name in weighted}
            for weight in streams.values():
                weight[0] = 0.0 if branches > 1 else weight[0]
            answers.append(
                Branch(
                    random.integers(0, 39, length),
                    advantage=random.normal(size=length),
                    behaviour_logp=random.uniform(-5, -2, length),
                    teacher_logp=random.uniform(-5, -2, length),
                    **streams,
                )
            )
        samples.append(Sample(f"sample-{number}", trunk, (image,), tuple(answers)))
    return samples
