"""Trajectories: what an episode and its turns hold, wherever they come from.

In: what the policy, the environment or an importer recorded. Out: frozen `Episode`s and `Turn`s, and their JSON form.
A turn holds everything that training needs and nothing that would have to be made anew: the prompt's token ids, the
response's token ids as they were sampled, and the log-probabilities they were sampled with. Nothing is ever
re-tokenised or re-rendered.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

Source = Literal["policy", "script", "human", "imported"]
SOURCES = ("policy", "script", "human", "imported")
OUTCOMES = (
    "success",
    "fail",
    "format_fail",
    "step_limit",
    "policy_timeout",
    "env_crash",
    "reset_failed",
    "grader_error",
)
"""Outcomes of an episode."""
SCORED_OUTCOMES = OUTCOMES[:5]
"""Outcomes that count. The others are faults of the environment: never scored, never in a baseline or denominator."""
CODEC = "grid-1000"
"""Coordinates are integers on a 0-1000 grid of the original screenshot."""


class SchemaError(ValueError):
    """A trajectory that contradicts itself; the message names the episode and turn."""


@dataclasses.dataclass(frozen=True)
class RoleCall:
    """What another role of the policy was asked, and said, before the turn's own response (see `rollout.roles`).

    Attributes:
      role: "manager", "reflector" or "notetaker".
      prompt_ids, image_grids, image_turns, response_ids, behaviour_logp, text: as in `Turn`, whose sampling temperature
        and policy version it has too.
      failure: why the text was of no use; "" where it was.
    """

    role: str
    prompt_ids: tuple[int, ...]
    image_grids: tuple[tuple[int, int, int], ...]
    image_turns: tuple[int, ...]
    response_ids: tuple[int, ...]
    behaviour_logp: tuple[float, ...]
    text: str
    failure: str = ""

    def __post_init__(self):
        set_field = object.__setattr__
        for name in ("prompt_ids", "image_turns", "response_ids"):
            set_field(self, name, tuple(map(int, getattr(self, name))))
        set_field(self, "image_grids", tuple(tuple(map(int, grid)) for grid in self.image_grids))
        set_field(self, "behaviour_logp", tuple(np.asarray(self.behaviour_logp, np.float32).tolist()))


@dataclasses.dataclass(frozen=True)
class Turn:
    """One observation and the response to it.

    Attributes:
      index: number of the turn in its episode, from 0.
      screenshot: the observation, PNG bytes.
      prompt_ids: token ids of the whole prompt, image placeholders expanded.
      image_grids: `(t, h, w)` in patches of each image of the prompt, in order.
      image_turns: for each image of the prompt, the turn whose screenshot it is.
      response_ids: token ids as sampled, the end token included.
      behaviour_logp: log-probability (nats, float32) of each response id when it was sampled; empty where nothing was
        sampled (scripts, humans, imports).
      temperature: sampling temperature.
      policy_version: version of the policy that sampled its first token; -1 where no policy did.
      policy_spans: `(version, tokens)` in order, where the weights were told; several where they changed on the way.
      text: the response as text.
      thought: the reasoning, for thinking policies.
      conclusion: the sentence that the history keeps.
      action: `{"name": ..., "arguments": {...}}`, or None where the text held no valid call.
      parse_error: why it held none.
      tool_result: what a tool call returned.
      target_box: `(x0, y0, x1, y1)` of the action's target on the coordinate grid, where known.
      seconds: durations by what took them ("sample", "step", ...).
      state_hash: of the world's state that was observed, where the environment told it; else "".
      use: whether the turn is a training sample; one that is not (a mistake, an unchecked step) stays in the history.
      calls: what the other roles of the policy said at this turn, in order; `data.samples.by_role` makes samples of it.
      device: the one in front, where the task has several; "" where it is the episode's (see `Episode.device_of`).
    """

    index: int
    screenshot: bytes
    prompt_ids: tuple[int, ...] = ()
    image_grids: tuple[tuple[int, int, int], ...] = ()
    image_turns: tuple[int, ...] = ()
    response_ids: tuple[int, ...] = ()
    behaviour_logp: tuple[float, ...] = ()
    temperature: float = 1.0
    policy_version: int = -1
    policy_spans: tuple[tuple[int, int], ...] = ()
    text: str = ""
    thought: str | None = None
    conclusion: str | None = None
    action: Mapping[str, Any] | None = None
    parse_error: str | None = None
    tool_result: str | None = None
    target_box: tuple[float, float, float, float] | None = None
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    state_hash: str = ""
    use: bool = True
    calls: tuple[RoleCall, ...] = ()
    device: str = ""

    def __post_init__(self):
        set_field = object.__setattr__
        set_field(self, "prompt_ids", tuple(map(int, self.prompt_ids)))
        set_field(self, "image_grids", tuple(tuple(map(int, grid)) for grid in self.image_grids))
        set_field(self, "image_turns", tuple(map(int, self.image_turns)))
        set_field(self, "response_ids", tuple(map(int, self.response_ids)))
        set_field(self, "behaviour_logp", tuple(np.asarray(self.behaviour_logp, np.float32).tolist()))
        set_field(self, "policy_spans", tuple(tuple(map(int, span)) for span in self.policy_spans))
        set_field(self, "calls", tuple(self.calls))
        if self.target_box is not None:
            set_field(self, "target_box", tuple(map(float, self.target_box)))
        if self.behaviour_logp and len(self.behaviour_logp) != len(self.response_ids):
            raise SchemaError(
                f"turn {self.index}: {len(self.behaviour_logp)} log-probabilities for {len(self.response_ids)} "
                "response ids; both must be stored as they were sampled"
            )
        if len(self.image_turns) != len(self.image_grids):
            raise SchemaError(f"turn {self.index}: {len(self.image_grids)} image grids, {len(self.image_turns)} images")
        if any(turn > self.index or turn < 0 for turn in self.image_turns):
            raise SchemaError(f"turn {self.index}: its prompt shows a turn that had not happened: {self.image_turns}")

    def to_dict(self) -> dict[str, Any]:
        """A JSON document; the screenshot in base64."""
        return {**_fields(self), "screenshot": base64.b64encode(self.screenshot).decode("ascii")}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Turn:
        """The turn of a document made by `to_dict`."""
        values = {**_known(cls, document), "screenshot": base64.b64decode(document["screenshot"])}
        values["calls"] = tuple(RoleCall(**_known(RoleCall, call)) for call in values.get("calls", ()))
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Episode:
    """A trajectory and what became of it.

    Attributes:
      id: unique name.
      suite, task, seed: what was played; `(task, seed)` is the group key.
      device: "mobile", "desktop" or "web"; where the task has several, the one that it began on.
      instruction: what was asked for.
      screen_size: `(width, height)` of the screenshots in pixels.
      turns: the turns, in order.
      outcome: one of `OUTCOMES`.
      score: the grader's score, in [0, 1].
      rewards: reward by component.
      progress, total: checkpoints met as a prefix of the path, and the path's length.
      checkpoints: for each checkpoint the first step at which it was met, or None.
      source: who acted.
      policy_version: version at the first turn; -1 where no policy acted.
      tools: the tool schemas that were offered.
      codec: how coordinates are to be read.
      final_screenshot: the observation after the last action, PNG bytes, where recorded.
      remaining: of a trajectory that was cut at its last checkpoint, the instruction of what it did not reach.
      made_by: which annotator made what, e.g. `{"instruction": "exact", "judge": "MODEL at URL"}`.
      origin, licence: the data set that it was imported from, and on which terms.
    """

    id: str
    suite: str
    task: str
    seed: int
    device: str
    instruction: str
    screen_size: tuple[int, int]
    turns: tuple[Turn, ...]
    outcome: str
    score: float = 0.0
    rewards: Mapping[str, float] = dataclasses.field(default_factory=dict)
    progress: int = 0
    total: int = 0
    checkpoints: tuple[int | None, ...] = ()
    source: Source = "policy"
    policy_version: int = -1
    tools: tuple[Mapping[str, Any], ...] = ()
    codec: str = CODEC
    final_screenshot: bytes | None = None
    remaining: str = ""
    made_by: Mapping[str, str] = dataclasses.field(default_factory=dict)
    origin: str = ""
    licence: str = ""

    def __post_init__(self):
        for name in ("screen_size", "turns", "checkpoints", "tools"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.outcome not in OUTCOMES:
            raise SchemaError(f"episode {self.id}: unknown outcome {self.outcome!r}; known are {', '.join(OUTCOMES)}")
        if self.source not in SOURCES:
            raise SchemaError(f"episode {self.id}: unknown source {self.source!r}; known are {', '.join(SOURCES)}")
        indices = [turn.index for turn in self.turns]
        if indices != list(range(len(indices))):
            raise SchemaError(f"episode {self.id}: its turns are numbered {indices}, not 0, 1, 2, ...")
        if not 0 <= self.progress <= self.total:
            raise SchemaError(f"episode {self.id}: progress {self.progress} of {self.total} checkpoints")

    @property
    def scored(self) -> bool:
        """Whether the outcome counts: faults of the environment do not."""
        return self.outcome in SCORED_OUTCOMES

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        return self.outcome == "success"

    @property
    def group(self) -> str:
        """The group key: episodes of one task and seed compete with one another."""
        return f"{self.suite}/{self.task}/{self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """A JSON document; screenshots in base64."""
        final = None if self.final_screenshot is None else base64.b64encode(self.final_screenshot).decode("ascii")
        return {**_fields(self), "turns": [turn.to_dict() for turn in self.turns], "final_screenshot": final}

    def device_of(self, turn: Turn) -> str:
        """The device family whose screen a turn shows and acts on."""
        return turn.device or self.device

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Episode:
        """The episode of a document made by `to_dict`.

        Raises:
          SchemaError: for unknown keys, or a document that contradicts itself.
        """
        values = _known(cls, document)
        values["turns"] = tuple(Turn.from_dict(turn) for turn in document["turns"])
        if values.get("final_screenshot") is not None:
            values["final_screenshot"] = base64.b64decode(values["final_screenshot"])
        return cls(**values)


class TurnRecord(NamedTuple):
    """A turn by itself: its episode (whose turns may be missing), and the PNGs of its prompt's images, in order."""

    episode: Episode
    turn: Turn
    screens: tuple[bytes, ...]


def _fields(record: Turn | RoleCall | Episode) -> dict[str, Any]:
    """The fields of a record by name, tuples as lists."""
    return {field.name: _plain(getattr(record, field.name)) for field in dataclasses.fields(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, RoleCall):
        return _fields(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _known(cls: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """The document's values, all of whose keys must be fields of the class."""
    unknown = set(document) - {field.name for field in dataclasses.fields(cls)}
    if unknown:
        raise SchemaError(f"unknown keys in a stored {cls.__name__}: {', '.join(sorted(unknown))}")
    return dict(document)
