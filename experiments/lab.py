"""The kinds of stages that experiments are made of: demonstrations, trainings, merged policies, evaluations.

In: settings and stages. Out: `Made` stages (see `experiments.bench`). A stage that is done is not made again, whatever
asks for it, so that the arms of an experiment, and experiments, share demonstrations and policies. One that was killed
goes on: a training from its last checkpoint, an evaluation from its last episode. The digest is of settings, not of
code: `settings.json` says which revision made a stage; remove the folder to make it anew. An experiment may have stages
of its own kind: `lab.stage(kind, settings, inputs, make)`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp

from env_servers.suites.suite import SEEDS
from experiments.bench import VOCABULARY, Bench, Made, Tasks, form, policy_form
from experiments.trainer import begun
from gui_rl.data import card
from gui_rl.data.pipeline import TurnSource
from gui_rl.data.samples import by_role
from gui_rl.data.schema import Episode
from gui_rl.data.store import EpisodeSource
from gui_rl.evaluate.command import Journal
from gui_rl.evaluate.records import Record
from gui_rl.flywheel.annotator import AnnotatorError
from gui_rl.flywheel.role_data import EXACT, with_roles
from gui_rl.flywheel.thoughts import exact, with_thoughts
from gui_rl.flywheel.witness import witness
from gui_rl.learn import merge, online, sft, toolcua
from gui_rl.prompt.context import ContextConfig
from gui_rl.report.metrics import read_metrics
from gui_rl.rollout import policy
from gui_rl.rollout.agents import Prompts
from gui_rl.rollout.episode import Spec, play_all
from gui_rl.rollout.stored import SUITE, make_play_stored

SEEDS_A_RUN = 2000
"""Demonstrations with different seeds are this many environment seeds apart."""


class Lab(Bench):
    """See the module; use it as `async with Lab(root) as lab`."""

    async def collect(
        self,
        tasks: Tasks,
        episodes: int,
        seed: int = 0,
        *,
        agent: Made | Literal["script"] = "script",
        keep: Literal["success", "scored"] = "success",
        tools: bool = False,
        thinking: bool = False,
        roles: bool = False,
        room: int | None = None,
        split: Literal["train", "evaluation"] = "train",
    ) -> Made:
        """A dataset of `episodes` episodes a family, its tasks in turn, a training seed each.

        Args:
          tasks: what is played.
          episodes: a family.
          seed: another one takes other environment seeds.
          agent: the tasks' script, or a policy (sampled at temperature 1).
          keep: solved ones, or all that the environment did not lose.
          tools: tools are offered.
          thinking: with exact thoughts, in few words (`flywheel.thoughts`).
          roles: told in roles, an episode for each (`flywheel.role_data`).
          room: tokens of a prompt, where not those of `bench.form`.
          split: of the environment seeds; `evaluation` is for sets that policies are asked about.
        """
        context, seeds = form(tools, thinking, room), SEEDS[split]
        specs = [
            Spec(*pairs[number % len(pairs)], seed=seeds[-1 - number - SEEDS_A_RUN * seed], run="demo")
            for pairs in tasks.values()
            for number in range(episodes)
        ]

        async def make(folder: Path) -> dict[str, Any]:
            counts: Counter[str] = Counter()
            acting = await self.agent(agent, context=None if isinstance(agent, Made) else form(tools, room=room))
            with self.progress.stage("episodes", len(specs), "episode") as stage:
                played = await play_all(
                    self.client, acting, specs, script=agent == "script", keep_final=True, lease={"tools": tools},
                    parallel=self.parallel, deadline_s=60.0 + 20.0 * len(specs), tick=lambda _: stage.advance(),
                )  # fmt: skip
            kept = [e for e in played if (e.success if keep == "success" else e.scored and e.turns)]
            if thinking or roles:
                kept = await self._annotated(kept, context, counts)
            self.write_data(folder, kept, context)
            return {"played": len(played), "kept": len(kept), "turns": sum(len(e.turns) for e in kept), **counts}

        settings = {
            "tasks": listed(tasks), "episodes": episodes, "seed": seed, "keep": keep, "tools": tools,
            "thinking": thinking, "roles": roles, "room": room, "split": split,
        }  # fmt: skip
        return await self.stage("data", settings, {} if agent == "script" else {"agent": agent}, make)

    async def _annotated(
        self, episodes: Sequence[Episode], context: ContextConfig, counts: Counter[str]
    ) -> list[Episode]:
        """The episodes with thoughts, or told in roles; those that do not play again as they did are counted."""
        prompts, gate = Prompts(self.tokenizer, context), asyncio.Semaphore(8)

        async def one(episode: Episode) -> list[Episode]:
            try:
                async with gate:
                    witnessed = await witness(self.client, episode)
                if context.thinking:
                    return [await with_thoughts(exact(brief=True), episode, prompts, witnessed)]
                return by_role(await with_roles(EXACT, episode, prompts, witnessed))
            except AnnotatorError:
                counts["not the same again"] += 1
            except ValueError:
                counts["too long"] += 1
            return []

        return [made for each in await asyncio.gather(*map(one, episodes)) for made in each]

    async def given(self, path: Path, context: ContextConfig) -> Made:
        """A dataset that is there, as a stage; `context` is the form of its prompts. Raises UserError where there is
        none."""
        path = path.absolute()
        EpisodeSource(path)

        async def make(folder: Path) -> dict[str, Any]:
            policy.write_form(folder, VOCABULARY, context)
            (folder / "data").unlink(missing_ok=True)
            (folder / "data").symlink_to(path, target_is_directory=True)
            return {}

        digest = hashlib.sha256((path / card.JSON).read_bytes()).hexdigest()
        return await self.stage("given", {"path": path, "card": digest}, {}, make)

    async def sft(self, start: Made, sources: Mapping[str, tuple[Made, float]], config: sft.SFTConfig) -> Made:
        """A policy: `start` fine-tuned on datasets by name, each with its weight; in the form of the first of them."""

        async def make(folder: Path) -> dict[str, Any]:
            directory = folder / "checkpoints"
            (first, _), *_ = sources.values()
            mixture = {name: (data.data, weight) for name, (data, weight) in sources.items()}
            with self.training(folder, "sft", config.steps, begun(directory)) as (log, stage):

                async def report(number: int, values: Mapping[str, float], params: Any) -> None:
                    log.log("sft", number, values)
                    stage.advance(loss=values["loss"])

                params = await self.trainer.sft(self.params(start), mixture, config, directory, report)
            self.write_policy(folder, params, policy.read_form(first.folder)[1])
            return {"steps": config.steps, "loss": read_metrics(folder)[-1]["metrics"]["loss"]}

        inputs = {"start": start, **{f"data {name}": data for name, (data, _) in sources.items()}}
        settings = {"config": config, "weights": {name: weight for name, (_, weight) in sources.items()}}
        return await self.stage("sft", settings, inputs, make)

    async def mrpo(
        self,
        start: Made,
        tasks: Tasks,
        config: online.MRPOConfig,
        *,
        teachers: Mapping[str, Made] | None = None,
        stored: Made | None = None,
        tools: bool = False,
    ) -> Made:
        """A policy: `start` trained online. Its numbers: episodes, turns (environment steps), groups by status.

        Args:
          start: a policy.
          tasks: what is played, by family; with `stored`, only which families.
          config: settings; `teaching` for teachers.
          teachers: policies by name.
          stored: a dataset whose turns are single steps to be answered anew, in place of episodes.
          tools: tools are offered.
        """

        async def make(folder: Path) -> dict[str, Any]:
            directory, agent = folder / "checkpoints", await self.agent(start)
            loaded = {name: (self.cfg, self.params(made)) for name, made in (teachers or {}).items()}
            playing: dict[str, Any] = {"lease": {"tools": tools}}
            played = tasks
            if stored is not None:
                turns = TurnSource(stored.data)
                states = {f"{r.episode.id} {r.turn.index}": r for r in (turns[n] for n in range(len(turns)))}
                names = {family: [n for n, r in states.items() if r.episode.device == family] for family in tasks}
                played = {family: [(SUITE, name) for name in mine] for family, mine in names.items()}
                playing = {
                    "play": make_play_stored(
                        states, agent.sampler, self.tokenizer, config.group * config.oversample,
                        thinking=agent.prompts.context.thinking,
                    )
                }  # fmt: skip
            with self.training(folder, "rl", config.steps, begun(directory, config.epochs)) as (log, stage):

                async def report(done: online.StepReport) -> None:
                    phase = done.families[0] if len(done.families) == 1 else "mix"
                    log.log_pools("rl", done.step, done.episodes)
                    log.log("rl", done.step, done.metrics, phase=phase)
                    stage.advance(metrics=done.metrics)

                params = await self.trainer.online(
                    self.params(start), agent, self.client, played, config, directory, report, teachers=loaded,
                    **playing,
                )  # fmt: skip
            self.write_policy(folder, params, agent.prompts.context)
            return totals(folder)

        inputs = {"start": start, **{f"teacher {name}": made for name, made in (teachers or {}).items()}}
        inputs |= {} if stored is None else {"stored": stored}
        return await self.stage("rl", {"config": config, "tasks": listed(tasks), "tools": tools}, inputs, make)

    async def switches(
        self, start: Made, data: Made, config: toolcua.SwitchConfig, rates: tuple[float, float] = (8e-4, 1.6e-4)
    ) -> Made:
        """A policy: single-turn RL on the turns of a dataset (`learn.toolcua`); rates: of matrices and of the rest."""

        async def make(folder: Path) -> dict[str, Any]:
            directory, agent = folder / "checkpoints", await self.agent(start)
            with self.training(folder, "switches", config.steps, begun(directory)) as (log, stage):

                async def report(number: int, values: Mapping[str, float]) -> None:
                    log.log("switches", number, values)
                    stage.advance(reward=values["reward"])

                params = await self.trainer.switches(
                    self.params(start), agent, TurnSource(data.data), config, rates, directory, report
                )
            self.write_policy(folder, params, agent.prompts.context)
            return {"steps": config.steps}

        return await self.stage("switches", {"config": config, "rates": rates}, {"start": start, "data": data}, make)

    async def merged(self, how: Literal["average", "ties"], base: Made, policies: Sequence[Made], **options) -> Made:
        """A policy: others merged by their parameters (`learn.merge`), in the form of the first."""

        async def make(folder: Path) -> dict[str, Any]:
            models = [self.params(made) for made in policies]
            found = merge.ties(self.params(base), models, **options) if how == "ties" else merge.average(models)
            self.write_policy(folder, jax.tree.map(jnp.asarray, found), policy_form(policies[0]))
            return {}

        inputs = {"base": base, **{f"policy {number}": made for number, made in enumerate(policies)}}
        return await self.stage("merged", {"how": how, **options}, inputs, make)

    async def evaluate(
        self,
        acting: Made | Literal["script", "random"],
        tasks: Tasks,
        episodes: int,
        *,
        seeds: str = "evaluation",
        temperature: float = 1.0,
        repeat: int = 1,
        **options: Any,
    ) -> Made:
        """Records of `episodes` (task, seed) pairs a family: its tasks in turn, a new seed each, the same for every
        policy that is asked.

        Args:
          acting: a policy, or who else acts.
          tasks: what is played.
          episodes: pairs a family, each played `repeat` times.
          seeds: the split.
          temperature: of sampling; 0 is greedy.
          repeat: times.
          options: `roles` for the four roles, and those of the sessions: tools, disturb, marks.
        """
        settings = {
            "tasks": listed(tasks), "episodes": episodes, "seeds": seeds, "temperature": temperature, "repeat": repeat,
            **options, "agent": acting if isinstance(acting, str) else "policy",
        }  # fmt: skip

        async def make(folder: Path) -> dict[str, Any]:
            lease = {name: value for name, value in options.items() if name != "roles"}
            journal = Journal(folder / "records.jsonl")
            agent = await self.agent(acting, temperature, roles=options.get("roles", False))
            infos = {name: await self.infos(suite) for suite, name in {p for ps in tasks.values() for p in ps}}
            specs = [
                Spec(*pairs[number % len(pairs)], SEEDS[seeds][number], copy, "eval")
                for pairs in tasks.values()
                for number in range(episodes)
                for copy in range(repeat)
            ]
            left = [spec for spec in specs if spec.id not in journal.done]
            copies = {spec.id: spec.copy for spec in specs}
            with self.progress.stage("evaluate", len(specs), "episode", len(specs) - len(left)) as stage:

                def ended(episode: Episode) -> None:
                    task = infos[episode.task][episode.task]
                    journal.put(Record.of(episode, task, settings["agent"], copies[episode.id]))
                    stage.advance()

                await play_all(
                    self.client, agent, left, script=acting == "script", lease=lease, parallel=self.parallel,
                    deadline_s=60.0 + 20.0 * len(left), tick=ended,
                )  # fmt: skip
            scored = [record for record in journal.records.values() if record.scored]
            return {"episodes": len(scored), "faults": len(specs) - len(scored)}

        return await self.stage("records", settings, {} if isinstance(acting, str) else {"policy": acting}, make)


def totals(folder: Path) -> dict[str, float]:
    """Sums over the steps of an online training: what it took, and what became of its groups."""
    names = ("episodes", "turns", "faults", "groups_kept", "groups_swapped", "groups_empty", "groups_short")
    steps = [record["metrics"] for record in read_metrics(folder) if record["stage"] == "rl"]
    return {"steps": len(steps), **{name: sum(step.get(name) or 0.0 for step in steps) for name in names}}


def listed(tasks: Tasks) -> list:
    """Tasks for the settings of a stage, whose digest depends on the families' order."""
    return [[family, list(pairs)] for family, pairs in tasks.items()]
