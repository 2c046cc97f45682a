"""What travels between an environment server and its clients, as JSON under /v1.

`VERSION` names this form: its first number changes where an older client would go wrong, its second where it may go on.
1.1: tasks of several devices (`devices` of TaskInfo and Lease, `device` of StepRecord, the tool `devices.switch`).

Sessions are leases: who creates one gets its token. An episode begins with `reset` and is numbered; a step is named by
(episode, step), where `step` is the number of the observation that it acts on: a re-sent step is recognised (R31).
A picture is base64 PNG, once (R32). Every error is a `Problem` (RFC 9457) with a stable `code`.
"""

from __future__ import annotations

import base64
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

VERSION = "1.1"
Device = Literal["mobile", "desktop", "web"]
Outcome = Literal[
    "success", "fail", "format_fail", "step_limit", "policy_timeout", "env_crash", "reset_failed", "grader_error"
]
Disturbance = Literal["popup", "cookies", "permission", "notification", "loading", "tick", "order", "rotate", "slider"]
FAULTS: tuple[Outcome, ...] = ("env_crash", "reset_failed", "grader_error")  # never scored, in no denominator (R24)
MOST_SESSIONS_A_CALL = 256


class Message(BaseModel):
    """Base of all messages: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskInfo(Message):
    """One task of a suite. tool_beneficial: +1 where its tools save actions, else -1.

    devices: all that it is done on, that of the beginning (`device`) first.
    """

    id: str
    device: Device
    devices: list[Device] = Field(default_factory=list)
    instruction_template: str
    tags: list[str]
    tool_beneficial: int
    feasible: bool
    max_steps: int


class CompositeCall(Message):
    """One member of a composite tool; arguments: of the member, by the composite's parameter that fills each."""

    tool: str
    arguments: dict[str, str] = Field(default_factory=dict)


class Composite(Message):
    """A tool that calls several tools of the app in order, in one step."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.]{1,128}$")
    description: str
    calls: list[CompositeCall] = Field(min_length=2, max_length=16)


class CreateSessions(Message):
    """A request for `count` sessions on one task and seed (a group, R38).

    ttl_s: hard limit of each session's life. idle_s: it ends earlier when its owner is silent for this long; every
    request counts, a heartbeat too. tools: true offers all tools of the app, a list those named. composites: tools made
    of the app's tools, offered after those; their members need not be on offer themselves. distractors: so many tools
    of other apps are offered too, picked by the seed; a call of one fails and changes nothing. script: the owner may
    ask for the task's scripted moves. disturb: what gets in the way, in this order, at places and times that the seed
    decides; `max_steps` of the lease grows accordingly. marks: number the elements on the screenshot, so that actions
    may name them by `label` (families whose actions take one).
    """

    suite: str = "virtual"
    task: str
    seed: int = Field(ge=0)
    count: int = Field(1, ge=1, le=MOST_SESSIONS_A_CALL)
    ttl_s: float = Field(3600, gt=0, le=86_400)
    idle_s: float = Field(300, gt=0, le=86_400)
    tools: bool | list[str] = False
    distractors: int = Field(0, ge=0, le=64)
    composites: list[Composite] = Field(default_factory=list, max_length=32)
    script: bool = False
    disturb: list[Disturbance] = Field(default_factory=list, max_length=8)
    marks: bool = False


class Ready(Message):
    """A server that takes sessions: how many it holds, and how many fit. workers: processes that serve."""

    status: Literal["ready"] = "ready"
    generation: str
    sessions: int
    limit: int
    workers: int = 1


class Lease(Message):
    """A session and what is true of it for all its life. generation: names this run of the server.

    total: the number K of checkpoints. tools: the signatures offered, as a prompt shows them.
    device: the one in front when an episode begins, of css_width x css_height. devices: all of the session's; where
    there are several, the tool `devices.switch` {"to": device} brings another one to the front, as a step.
    """

    session: str
    token: str
    generation: str
    suite: str
    task: str
    seed: int
    device: Device
    devices: list[Device] = Field(default_factory=list)
    instruction: str
    css_width: int
    css_height: int
    max_steps: int
    total: int
    tools: list[dict[str, Any]]


class Mark(Message):
    """An element as its mark names it: label as in actions, name as the page reports it, box in css px."""

    label: int
    name: str
    box: tuple[float, float, float, float]


class Observation(Message):
    """The screen before step `step` of an episode.

    device: the one in front, whose screen this is and whose actions may come next; in a session of several devices it
    changes within an episode.
    screenshot: base64 PNG of `width` x `height` pixels (measured from the PNG itself), css_width x css_height css px.
    tool_results: those of the call that led here. state_hash: SHA-256 of the state's canonical JSON. marks: what the
    numbers on the screenshot stand for, where the session asked for marks.
    """

    episode: int
    step: int
    device: Device
    instruction: str
    screenshot: str = Field(repr=False)
    width: int
    height: int
    css_width: int
    css_height: int
    device_pixel_ratio: float
    tool_results: list[dict[str, Any]]
    state_hash: str
    marks: list[Mark] = Field(default_factory=list)

    @property
    def png(self) -> bytes:
        """The screenshot's bytes."""
        return base64.b64decode(self.screenshot)


class Action(Message):
    """A call: the family's GUI function with its `action`, or a tool."""

    name: str
    arguments: dict[str, Any]


class Sampled(Message):
    """How a response was sampled, where the agent loop runs beside the environment and the trainer elsewhere (R7).

    image_turns: for each image of the prompt, the observation it shows. logprobs: nats, one a response token.
    policy_spans: (version, tokens) in order.
    """

    prompt_ids: list[int]
    image_grids: list[tuple[int, int, int]]
    image_turns: list[int]
    logprobs: list[float]
    temperature: float
    policy_version: int
    policy_spans: list[tuple[int, int]] = Field(default_factory=list)


class Response(Message):
    """What the policy said, as it was sampled; the server keeps it with the episode and never re-tokenises it (R7)."""

    text: str
    token_ids: list[int] = Field(default_factory=list)
    sampled: Sampled | None = None


class StepRequest(Message):
    """One step. `action` null with a `parse_error` is a response without a valid call: it counts, and does nothing."""

    episode: int = Field(ge=1)
    step: int = Field(ge=0)
    action: Action | None = None
    parse_error: str | None = None
    response: Response | None = None

    @model_validator(mode="after")
    def _one_of(self) -> StepRequest:
        if (self.action is None) == (self.parse_error is None):
            raise ValueError("give an action, or action null and a parse_error")
        return self


class StepReply(Message):
    """terminated: the policy ended the episode. truncated: it has used all its steps.

    tool_result: of a tool call, {"success", "result", "error_message"}. error: why the call was not carried out (a
    failure of `actions.validate_call`, or `unsupported`); the step counts and does nothing.
    """

    observation: Observation
    terminated: bool
    truncated: bool
    tool_result: dict[str, Any] | None = None
    error: str | None = None


class EvaluateReply(Message):
    """The verdict on an episode, found once and cached.

    score: 1 on success, 0 otherwise, null for a fault of the environment, which is no verdict on the policy (R33).
    progress: prefix length m of K = total, c_k being the maximum over all steps of checkpoint k (GUI-Owl-1.5, 2.2.2).
    checkpoints: the first observation in which each held. parse_failures: responses without a valid call.
    """

    outcome: Outcome
    score: float | None
    progress: int
    total: int
    checkpoints: list[int | None]
    steps: int
    parse_failures: int
    detail: str | None = None


class StepRecord(Message):
    """A step as the server keeps it; state_hash and held (which checkpoints hold) are those after the step.

    device: the one that was in front before it.
    """

    step: int
    device: Device | None = None
    action: Action | None
    parse_error: str | None
    error: str | None
    tool_result: dict[str, Any] | None
    response: Response | None
    state_hash: str
    held: list[bool]


class EpisodeReply(Message):
    """A session's present episode with everything that was sent to it.

    device: the one that the episode began on.
    first_hash: the state's hash at the first observation; a step's record has that of the one after it.
    screenshots: base64 PNG of every observation, the last one included, where they were asked for.
    """

    session: str
    episode: int
    suite: str
    task: str
    seed: int
    instruction: str
    status: Literal["running", "terminated", "truncated", "fault", "closed"]
    steps: list[StepRecord]
    device: Device
    first_hash: str = ""
    tools: list[dict[str, Any]] = Field(default_factory=list)
    screenshots: list[str] = Field(default_factory=list, repr=False)


class Named(Message):
    """An interactive element on the screen: its name as the page reports it, and its box in css px."""

    name: str
    box: tuple[float, float, float, float]


class Known(Message):
    """What is true of the present state, for annotations that are right by construction.

    facts: (question, answer) pairs that the screen answers. outcome: what tasks are about; states of equal outcome
    differ in navigation only. subtasks: sentences of the path. met, holds: for every checkpoint whether it held in some
    state so far, and whether it does now. strayed: facts of the outcome that are not as they were, and that the task
    does not speak of. notes: what this screen shows that a later step of the task needs, in sentences.
    """

    facts: list[tuple[str, str]]
    outcome: dict[str, Any]
    subtasks: list[str]
    met: list[bool]
    holds: list[bool]
    strayed: list[str]
    notes: list[str] = Field(default_factory=list)


class ScriptReply(Message):
    """The task's own next move from the present state; coordinates on the 0-1000 grid, box in css px.

    elements: what the screen offers, for plans that name their targets. known: what is true of the state, where the
    suite says it.
    """

    action: Action
    conclusion: str
    box: tuple[float, float, float, float] | None
    elements: list[Named] = Field(default_factory=list)
    known: Known | None = None


class Heartbeat(Message):
    """expires_in_s: until the session's hard limit."""

    generation: str
    expires_in_s: float


class Problem(Message):
    """An error as RFC 9457 problem details; `code` never changes its meaning. outcome: set for environment faults."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    outcome: Outcome | None = None
