"""Every notebook runs from top to bottom on what small real runs leave behind, and draws its figures as vectors.

The runs: MRPO in simulated environments (alternating, and with the families' gradients projected), a sweep of the path
reward's weights, an evaluation, and a student with teachers on stored states.
"""

import asyncio
import dataclasses
import io
import json
import os
from pathlib import Path

import jax
import nbformat
import numpy as np
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from PIL import Image
from scripted import TASKS, Scripted, learner, policy_config

from env_servers.protocol.actions import Call
from env_servers.protocol.messages import TaskInfo
from gui_rl.commands import sweep
from gui_rl.data.samples import BatchShape, micro_batches, with_ids
from gui_rl.data.schema import Episode, Turn, TurnRecord
from gui_rl.errors import UserError
from gui_rl.evaluate.diagnostics import cosine_metrics
from gui_rl.evaluate.records import Record
from gui_rl.learn import online
from gui_rl.learn.buffer import pool_diversity
from gui_rl.learn.state import make_mesh
from gui_rl.learn.step import make_gradient, place
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.render import encode_response, response_text
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.report import frames
from gui_rl.report.metrics import RunLog
from gui_rl.rollout.episode import Spec, play_all
from gui_rl.rollout.groups import Ticket
from gui_rl.rollout.sampler import Completion
from gui_rl.rollout.simulated import SimulatedClient, Simulation
from gui_rl.rollout.stored import make_play_stored

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FIGURES = {
    "learning_curves": ("alternating", ["learning_curves", "phase_gains"]),
    "group_statistics": ("alternating", ["group_statistics"]),
    "gradient_interference": ("projected", ["gradient_interference"]),
    "reward_weights": ("runs/sweep-weights", ["sweep_lines", "sweep_grid"]),
    "teacher_corrections": ("corrections", ["teacher_corrections"]),
    "error_analysis": ("evaluation", ["failures_by_app"]),
}
CONFIG = online.MRPOConfig(
    steps=9, group=4, oversample=2, tasks=4, stage_steps=1, max_lag=0, parallel=24, checkpoint_every=100,
    shape=BatchShape(rows=8, row_length=64, row_patches=96, micro_batches=2),
)  # fmt: skip
QUICK = Simulation(mean_s=0.0, shortest=2, longest=4, faults=0.01)
SWEEP = """
method: grid
metric: {name: reward, goal: maximize}
command: [python, score.py, "${args}"]
parameters:
  tool_weight: {values: [0.0, 0.4]}
  length_weight: {values: [0.0, 0.2]}
"""
SCORE = """
import json, pathlib, sys
from gui_rl.learn.rewards import tool_efficient_path
given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
weights = {name.replace("-", "_"): float(value) for name, value in given.items() if name != "name"}
found = tool_efficient_path([True, True, False], [3, 6, 9], [1, 0, 2], 1, 30, **weights)
folder = pathlib.Path("runs") / given["name"]
folder.mkdir(parents=True)
(folder / "result.json").write_text(json.dumps({"reward": sum(one.shaped for one in found)}))
"""


def train(folder, config):
    """A run of online training in simulated environments, logged as the quickstart logs its own."""
    state, update = learner(config)
    client, agent, filled = SimulatedClient(QUICK), Scripted(), []
    folder.mkdir()

    def watched(state, given):
        filled.append(given)
        return update(state, given)

    (folder / "config.json").write_text(json.dumps({"rl": dataclasses.asdict(config)}))
    with RunLog(folder, wandb_mode="disabled") as log:

        async def report(done):
            probes = [Spec(*pairs[0], seed, run=f"probe{done.step}") for pairs in TASKS.values() for seed in range(6)]
            played = await play_all(client, agent, probes)
            told = {
                f"eval/{family}/success": np.mean([e.success for e in played if e.device == family]) for family in TASKS
            }
            family = done.families[0] if len(done.families) == 1 else "mix"
            log.log("rl", done.step, {**done.metrics, **told}, phase=family)
            log.log_pools("rl", done.step, done.episodes)

        state = asyncio.run(
            online.train(state, watched, agent, client, TASKS, range(1000), config, folder / "checkpoints", report)
        )
        if config.phases == "project":
            log.log("rl", config.steps, cosines(state.params, filled[-1], config))


def cosines(params, filled, config):
    """Those of the families' gradients, layer by layer."""
    cfg, mesh = policy_config(), make_mesh(devices=jax.devices()[:1])
    gradient, found = make_gradient(cfg, online.loss_config(config), mesh), {}
    for family in TASKS:
        mine = [sample for sample, other in zip(filled.samples, filled.families, strict=True) if other == family]
        found[family] = gradient(params, place(micro_batches(mine, cfg, config.shape), mesh))
    return cosine_metrics(found)


class Guesses:
    """A sampler that is right with some probability, and else presses beside the target or says nothing."""

    def __init__(self, right, tokenizer):
        self.right, self.tokenizer = right, tokenizer

    async def sample(self, prompts, params, keys):
        said = []
        for key in keys:
            drawn = np.random.default_rng(key).uniform()
            x = 500 if drawn < self.right else 900
            call = Call("mobile_use", {"action": "click", "coordinate": [x, 500]})
            said.append("Hm." if drawn > 0.9 else response_text("Press it.", call))
        ids = [encode_response(self.tokenizer, text) for text in said]
        return [Completion(one, [-0.5] * len(one), "stop", 0) for one in ids]


def correct(folder):
    """What a student did, and two teachers would have done, in twelve stored states."""
    tokenizer = Tokenizer.load("gui-tiny")
    png = io.BytesIO()
    Image.new("RGB", (128, 160)).save(png, "PNG")
    action = {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [500, 500]}}
    turn = Turn(0, png.getvalue(), action=action, target_box=(450, 450, 550, 550))
    bare = Episode("e", "virtual", "t", 0, "mobile", "Press.", (128, 160), (turn,), "success", 1.0, source="script")
    episode = with_ids(bare, tokenizer, TINY_CONTEXT)
    states = {f"s{n}": TurnRecord(episode, episode.turns[0], (png.getvalue(),)) for n in range(12)}
    tickets = [Ticket("stored", name, 0) for name in states]

    async def pools(right):
        play = make_play_stored(states, Guesses(right, tokenizer), tokenizer, 4)
        return [await play(ticket, int(100 * right)) for ticket in tickets]

    async def played():
        return [await pools(right) for right in (0.3, 0.8, 0.4)]

    student, *teachers = asyncio.run(played())
    folder.mkdir()
    with (folder / "states.jsonl").open("w") as file:
        for pool, *told in zip(student, *teachers, strict=True):
            mean = float(np.mean(pool.outcomes))
            for number, mine in enumerate(pool.episodes):
                state = {"device": mine.device, "task": mine.task, "seed": 0, "mean": mean}
                for name, other in zip(("mobile", "desktop"), told, strict=True):
                    theirs = other.episodes[number]
                    state[name] = {
                        "disagree": mine.turns[0].action != theirs.turns[0].action,
                        "useful": theirs.success and not mine.success,
                        "harmful": mine.success and not theirs.success,
                    }
                file.write(json.dumps(state) + "\n")


def evaluate(folder):
    """The records of an evaluation in simulated environments."""
    specs = [Spec(*pair, seed, run="eval") for pairs in TASKS.values() for pair in pairs for seed in range(4)]
    played = asyncio.run(play_all(SimulatedClient(QUICK), Scripted(), specs))
    folder.mkdir()
    with (folder / "records.jsonl").open("w") as file:
        for episode in played:
            info = TaskInfo(
                id=episode.task, device=episode.device, instruction_template="", tags=[], tool_beneficial=-1,
                feasible=True, max_steps=4,
            )  # fmt: skip
            file.write(json.dumps(dataclasses.asdict(Record.of(episode, info, "policy", 0))) + "\n")


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory):
    """The folder of all runs."""
    root = tmp_path_factory.mktemp("notebooks")
    train(root / "alternating", CONFIG)
    train(root / "projected", dataclasses.replace(CONFIG, steps=3, phases="project"))
    evaluate(root / "evaluation")
    correct(root / "corrections")
    (root / "weights.yaml").write_text(SWEEP)
    (root / "score.py").write_text(SCORE)
    here = Path.cwd()
    os.chdir(root)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(ROOT))
            sweep.main(sweep.SweepOptions(Path("weights.yaml"), local=2))
    finally:
        os.chdir(here)
    return root


@pytest.fixture(scope="module")
def kernel(left_behind):
    """One kernel for all notebooks, as its imports take the most time; each begins with nothing defined."""
    asked = {"RUNS": "alternating", "COSINES": "projected", "SWEEP": "runs/sweep-weights"}
    asked |= {"CORRECTIONS": "corrections", "EVAL": "evaluation"}
    told = {f"GUI_RL_{name}": str(left_behind / folder) for name, folder in asked.items()}
    manager, client = start_new_kernel(kernel_name="python3", env={**os.environ, **told, "PYTHONPATH": str(ROOT)})
    client.stop_channels()
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws(path, left_behind, kernel):
    folder, figures = FIGURES[path.stem]
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    NotebookClient(notebook, km=kernel, timeout=120).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert sum("image/svg+xml" in output.get("data", {}) for output in outputs) == len(figures)
    for name in figures:
        svg = (left_behind / folder / "figures" / f"{name}.svg").read_text()
        assert "<text" in svg and "<image" not in svg
        assert (left_behind / folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_every_notebook_has_a_test():
    assert {path.stem for path in NOTEBOOKS} == FIGURES.keys()


def test_group_rows_expect_the_closed_form(left_behind):
    """Of independent outcomes of one rate the estimates are right on average; the run's own are probabilities."""
    random, n, k, rate = np.random.default_rng(0), 4, 2, 0.8
    pools = [
        {"suite": "s", "task": f"t{n}", "step": 0, "device": "web", "outcomes": random.binomial(1, rate, 8).tolist()}
        for n in range(500)
        for _ in range(4)
    ]
    rows = frames.group_rows(pools, n, k)
    means = {name: np.mean([row[name] for row in rows]) for name in frames.STATUSES}
    assert 1 - means["empty"] == pytest.approx(pool_diversity(rate, n, k), abs=0.02)
    assert means["kept"] == pytest.approx(pool_diversity(rate, n), abs=0.02)
    assert np.mean([row["informative"] for row in rows]) == pytest.approx(1 - means["empty"], abs=0.02)
    run = left_behind / "alternating"
    told = [
        row for row in frames.group_rows(frames.pool_rows(run), *frames.group_sizes(run)) if row["kept"] is not None
    ]
    assert told and all(sum(row[name] for name in frames.STATUSES) == pytest.approx(1) for row in told)


def test_a_pool_is_no_witness_of_itself():
    outcomes = ([1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0, 0], [1])
    pools = [{"suite": "s", "task": "t", "step": 0, "device": "web", "outcomes": one} for one in outcomes]
    first, second, third = frames.group_rows(pools, 4, 2)  # one is too short for a group
    assert [row["wins"] for row in (first, second, third)] == [2, 4, 0]
    assert [row["informative"] for row in (first, second, third)] == [1, 1, 0]
    assert first["empty"] == 0 and first["kept"] == pytest.approx(1 - 2 / 70)  # 4 of the others' 8 were won
    assert second["empty"] == 0 and second["kept"] == pytest.approx(1 - 15 / 70)  # 2 of 8
    assert third["kept"] == pytest.approx(1 - 15 / 70)  # 6 of 8
    assert frames.group_rows(pools[:2], 4, 2)[0]["kept"] is None


def test_totals_are_those_of_the_groups_that_were_made(left_behind):
    run = frames.open_run(left_behind / "alternating")
    totals, pools = frames.group_totals(run), frames.pool_rows(run.path)
    whole = [pool for pool in pools if len(pool["outcomes"]) >= 4]
    empty = sum(len(set(pool["outcomes"])) == 1 for pool in whole)
    assert totals["empty"] == pytest.approx(empty / len(whole)) and sum(totals.values()) == pytest.approx(1)


def test_a_row_of_corrections_is_a_state_and_a_teacher(left_behind):
    rows = frames.correction_rows(left_behind / "corrections")
    assert len(rows) == 12 * 4 * 2 and {row["teacher"] for row in rows} == {"mobile", "desktop"}
    good, poor = ([row for row in rows if row["teacher"] == name] for name in ("mobile", "desktop"))
    assert sum(row["useful"] - row["harmful"] for row in good) > sum(row["useful"] - row["harmful"] for row in poor)


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("states.jsonl", '{"device": "web"}\n', frames.correction_rows),
        ("records.jsonl", "[]\n", frames.record_rows),
        ("records.jsonl", "", frames.record_rows),
        ("pools.jsonl", "{}\n", frames.pool_rows),
    ],
)
def test_what_is_no_row_is_named(tmp_path, name, text, read):
    with pytest.raises(UserError, match=name):
        read(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=name):
        read(tmp_path)
