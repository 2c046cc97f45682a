"""Packing against a plain token-by-token construction, and its refusals."""

import numpy as np
import pytest

from gui_rl.data.batch import split, stack, with_streams
from gui_rl.data.packing import Branch, PackingError, Sample, assign_rows, pack
from gui_rl.model.rope import mrope_positions
from gui_rl.model.vision import vision_indices
from gui_rl.prompt.images import ImageInput

IMAGE, DIM, SIDE = 99, 6, 4
WEIGHTS = ("ce_weight", "pg_weight", "kl_weight")
STREAMS = (*WEIGHTS, "advantage", "behaviour_logp", "teacher_logp")


def image(random, height=2, width=4):
    return ImageInput(random.normal(size=(height * width, DIM)).astype(np.float32), (1, height, width), (width, height))


def random_sample(random, name, branches=None):
    images = tuple(image(random, 2 * random.integers(1, 3), 4) for _ in range(random.integers(0, 3)))
    trunk = list(random.integers(0, 90, random.integers(1, 5)))
    for picture in images:
        trunk += [IMAGE] * (picture.patches.shape[0] // 4) + list(random.integers(0, 90, random.integers(1, 3)))
    answers = []
    count = int(random.integers(1, 5)) if branches is None else branches
    for _ in range(count):
        size = int(random.integers(1, 6))
        streams = {stream: random.normal(size=size).astype(np.float32) for stream in STREAMS}
        for stream in WEIGHTS:
            streams[stream] = np.abs(streams[stream])
            streams[stream][0] *= count == 1
        answers.append(Branch(random.integers(0, 90, size), **streams))
    return Sample(name, trunk, images, tuple(answers))


def expected_tokens(sample):
    """What a sample should look like, token by token: (id, branch, position, visual number) and its predictions."""
    positions, delta = mrope_positions(sample.ids, [picture.grid for picture in sample.images], IMAGE)
    rows, visual = [], 0
    for at, token in enumerate(sample.ids):
        is_image = token == IMAGE
        rows.append([int(token), 0, positions[:, at].tolist(), visual if is_image else None])
        visual += is_image
    targets = {at: (int(sample.ids[at + 1]), None, None) for at in range(len(sample.ids) - 1)}
    for number, branch in enumerate(sample.branches):
        for at, token in enumerate(branch.ids):
            rows.append([int(token), number + 1, [len(sample.ids) + delta + at] * 3, None])
            if at > 0 or len(sample.branches) == 1:
                targets[len(rows) - 2] = (int(token), number, at)
    return rows, targets


def check_batch(batch, samples, plan):
    used = np.zeros(batch.targets.shape, bool)
    used_patches = np.zeros(batch.inputs.patch_segments.shape, bool)
    owners = {}
    for index, sample in enumerate(samples):
        row, start, patch = int(plan.row[index]), int(plan.token_start[index]), int(plan.patch_start[index])
        tokens, targets = expected_tokens(sample)
        segment = int(batch.inputs.segments[row, start])
        assert segment > 0 and owners.setdefault((row, segment), index) == index
        for at, (token, branch, position, visual) in enumerate(tokens):
            place = row, start + at
            assert not used[place]
            used[place] = True
            assert batch.inputs.tokens[place] == token
            assert batch.inputs.segments[place] == segment
            assert batch.inputs.branches[place] == branch
            assert batch.inputs.positions[row, :, start + at].tolist() == position
            assert batch.inputs.visual_index[place] == (-1 if visual is None else patch // 4 + visual)
            target, number, entry = targets.get(at, (0, None, None))
            assert batch.targets[place] == target
            for stream in STREAMS:
                wanted = 0.0 if number is None else getattr(sample.branches[number], stream)[entry]
                assert getattr(batch, stream)[place] == np.float32(wanted)
        for picture in sample.images:
            count = picture.patches.shape[0]
            span = row, slice(patch, patch + count)
            assert not used_patches[span].any()
            used_patches[span] = True
            np.testing.assert_array_equal(batch.inputs.patches[span], picture.patches)
            assert owners.setdefault((row, "patches", int(batch.inputs.patch_segments[row, patch])), object())
            assert len(set(batch.inputs.patch_segments[span].tolist())) == 1
            arrays = batch.inputs.patch_yx, batch.inputs.patch_table, batch.inputs.patch_table_weight
            for got, wanted in zip(arrays, vision_indices(picture.grid, SIDE, 2), strict=True):
                np.testing.assert_array_equal(got[span], wanted)
            patch += count
    assert not batch.inputs.segments[~used].any() and not batch.inputs.patch_segments[~used_patches].any()
    for stream in ("targets", *STREAMS):
        assert not getattr(batch, stream)[~used].any()
    return owners


@pytest.mark.parametrize("seed", range(6))
def test_rows_hold_what_a_token_by_token_construction_gives(seed):
    random = np.random.default_rng(seed)
    samples = [random_sample(random, f"s{number}") for number in range(12)]
    batch = pack(samples, IMAGE, 64, 48, side=SIDE, patch_dim=DIM)
    owners = check_batch(batch, samples, assign_rows(samples, 64, 48))
    pictures = [key for key in owners if key[1] == "patches"]
    assert len(pictures) == sum(len(sample.images) for sample in samples)  # each image has a segment of its own
    assert batch.targets.dtype == np.int32 and batch.ce_weight.dtype == np.float32
    assert batch.inputs.positions.shape == (batch.targets.shape[0], 3, 64)


def test_a_response_begins_at_the_prompts_last_position():
    sample = Sample("s", [5, 6, 7], (), (Branch([8, 9], ce_weight=[0.5, 2.0], advantage=3.0),))
    batch = pack([sample], IMAGE, 8, 4, side=SIDE, patch_dim=DIM)
    assert batch.targets[0].tolist() == [6, 7, 8, 9, 0, 0, 0, 0]
    assert batch.ce_weight[0].tolist() == [0, 0, 0.5, 2.0, 0, 0, 0, 0]
    assert batch.advantage[0].tolist() == [0, 0, 3, 3, 0, 0, 0, 0]


def test_branches_do_not_predict_one_another():
    branches = (Branch([1, 2, 3], ce_weight=[0, 1, 1]), Branch([4, 5], kl_weight=[0, 2]))
    batch = pack([Sample("s", [7], (), branches)], IMAGE, 8, 0, side=SIDE, patch_dim=DIM)
    assert batch.targets[0].tolist() == [0, 2, 3, 0, 5, 0, 0, 0]
    assert batch.ce_weight[0].tolist() == [0, 1, 1, 0, 0, 0, 0, 0]
    assert batch.kl_weight[0].tolist() == [0, 0, 0, 0, 2, 0, 0, 0]
    assert batch.inputs.positions[0, 0, :6].tolist() == [0, 1, 2, 3, 1, 2]


def test_first_fit_decreasing_fills_rows_and_ignores_the_order_of_unequal_samples():
    samples = [Sample(str(n), [1] * n, (), (Branch([2]),)) for n in (1, 5, 3, 6, 2)]  # 2, 6, 4, 7, 3 tokens
    plan = assign_rows(samples, 10, 0)
    assert plan.rows == 3  # 7 + 3, 6 + 4, 2
    assert plan.row.tolist() == [2, 1, 1, 0, 0]
    back = assign_rows(samples[::-1], 10, 0)
    assert back.row[::-1].tolist() == plan.row.tolist()


def test_more_rows_than_needed_are_padding():
    batch = pack([Sample("s", [1], (), (Branch([2], ce_weight=1.0),))], IMAGE, 4, 4, rows=3, side=SIDE, patch_dim=DIM)
    assert batch.targets.shape == (3, 4) and not batch.inputs.segments[1:].any() and batch.ce_weight.sum() == 1


def one(ids=(1, 2), images=(), branches=None):
    return Sample("task-7/turn-3", list(ids), images, (Branch([3]),) if branches is None else branches)


PICTURE = image(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("sample", "match"),
    [
        (one(ids=range(20)), "21 tokens"),
        (one(ids=[IMAGE] * 6, images=(image(np.random.default_rng(0), 4, 6),)), "24 patches"),
        (one(ids=[1, IMAGE], images=(PICTURE,)), "1 image placeholders for 2 visual tokens"),
        (one(ids=[1, IMAGE, IMAGE]), "2 image placeholders for 0 visual tokens"),
        (one(ids=[1, IMAGE, 2, IMAGE], images=(PICTURE,)), "placeholders"),
        (one(branches=(Branch([1, 2], ce_weight=1.0), Branch([3]))), "branch 0 weighs its first token"),
        (one(branches=(Branch([1, IMAGE]),)), "image placeholder"),
        (one(branches=()), "at least one branch"),
        (one(ids=()), "non-empty trunk"),
        (one(ids=[IMAGE] * 2, images=(ImageInput(PICTURE.patches, (1, 2, 2), (2, 2)),)), "grid"),
    ],
)
def test_refusals_name_the_sample(sample, match):
    with pytest.raises(ValueError, match=match) as error:
        pack([sample], IMAGE, 16, 16, side=SIDE, patch_dim=DIM)
    assert "task-7/turn-3" in str(error.value)


def test_too_many_samples_for_the_rows():
    samples = [Sample(f"s{n}", [1] * 3, (), (Branch([2]),)) for n in range(5)]
    with pytest.raises(PackingError, match="sample s4: no room in 2 rows"):
        pack(samples, IMAGE, 8, 0, rows=2, side=SIDE, patch_dim=DIM)
    with pytest.raises(PackingError, match="no samples"):
        pack([], IMAGE, 8, 0)


def test_branches_refuse_streams_of_another_length():
    with pytest.raises(PackingError, match="ce_weight"):
        Branch([1, 2], ce_weight=[1.0])
    with pytest.raises(PackingError, match="non-empty"):
        Branch([])


def test_micro_batches():
    samples = [Sample(f"s{n}", [n], (), (Branch([2], ce_weight=n),)) for n in range(1, 5)]
    batch = pack(samples, IMAGE, 2, 0, rows=4, side=SIDE, patch_dim=DIM)
    parts = split(batch, 2)
    assert parts.targets.shape == (2, 2, 2) and parts.inputs.positions.shape == (2, 2, 3, 2)
    np.testing.assert_array_equal(parts.ce_weight.reshape(4, 2), batch.ce_weight)
    np.testing.assert_array_equal(stack([batch, batch]).targets[1], batch.targets)
    with pytest.raises(ValueError, match="3 micro-batches"):
        split(batch, 3)
    with pytest.raises(ValueError):
        stack([])
    scored = with_streams(batch, teacher_logp=np.full((4, 2), -1.0, np.float32))
    assert (scored.teacher_logp == -1).all() and not batch.teacher_logp.any()
    with pytest.raises(ValueError, match="teacher"):
        with_streams(batch, teacher=batch.ce_weight)
    with pytest.raises(ValueError, match="shape"):
        with_streams(batch, teacher_logp=np.zeros(3, np.float32))
