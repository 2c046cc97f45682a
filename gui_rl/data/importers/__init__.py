"""Public trajectories into the form of this project, and back.

In: the folders and files of `unigui` (Uni-GUI), `agentnet` (AgentNet of OpenCUA) and `androidcontrol`. Out: `Episode`s
of source `imported`, cleaned by the rules of UI-MOPD (appendix B, trajectory cleaning), without token ids (see
`gui_rl.data.samples.with_ids`).
Every reader yields `Found` trajectories or `Faulty` records; `import_all` cleans them, keeps the good ones and counts
the others by reason.
"""

from __future__ import annotations

import dataclasses
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from env_servers.protocol.actions import Call, validate_call
from gui_rl.data.schema import Episode, Turn
from gui_rl.prompt.response import CLOSE, OPEN, THINK_END, response_text

LONGEST = 40  # steps, UI-MOPD appendix B
NOT_CONTIGUOUS = "steps not contiguous"
UNMAPPABLE = "unmappable action"
TOO_LONG = f"more than {LONGEST} steps"
INCONSISTENT = "inconsistent query"
NOT_DONE = "sub-tasks not done"
NO_IMAGE = "missing image"
BROKEN = "broken record"
DELETED = "marked as deleted"


class DropError(Exception):
    """A trajectory that is not taken; `reason` is one of the names above, `detail` says where."""

    def __init__(self, reason: str, detail: str):
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclasses.dataclass(frozen=True)
class Step:
    """A step as it was found.

    Attributes:
      number: as the source numbers it.
      screenshot: of the screen before the action: PNG bytes, or a function that reads them.
      call: in this project's action language, or None where the source's action has no counterpart.
      sentence, thought: what the source says about it.
      query: the instruction that the step repeats, where it does.
      box: of the target on the 0-1000 grid.
      use: false where the source says that the step is wrong or not to be trained on.
      said: the source's own words for the action, for errors.
    """

    number: int
    screenshot: bytes | Callable[[], bytes]
    call: Call | None
    sentence: str = ""
    thought: str | None = None
    query: str | None = None
    box: tuple[float, float, float, float] | None = None
    use: bool = True
    said: str = ""


@dataclasses.dataclass(frozen=True)
class Found:
    """A trajectory as it was found. `completed`: whether its source judged every sub-task done, None where it does not
    say; `first`: the number of its first step; `app`: what it is about."""

    id: str
    device: str
    query: str
    steps: Sequence[Step]
    origin: str
    licence: str
    completed: bool | None = None
    first: int = 0
    app: str = ""
    final: Callable[[], bytes] | bytes | None = None


@dataclasses.dataclass(frozen=True)
class Faulty:
    """A record that could not even be read."""

    reason: str
    detail: str


def import_all(
    found: Iterable[Found | Faulty], keep: Callable[[Episode], None], say: Callable[[str], None] = lambda line: None
) -> Counter[str]:
    """Cleans what a reader found. Counts `kept`, `steps`, and what was dropped by reason; `say` gets a line each."""
    counts: Counter[str] = Counter()
    for item in found:
        try:
            if isinstance(item, Faulty):
                raise DropError(item.reason, item.detail)
            episode = clean(item)
        except DropError as drop:
            counts[drop.reason] += 1
            say(str(drop))
            continue
        keep(episode)
        counts["kept"] += 1
        counts["steps"] += len(episode.turns)
    return counts


def clean(found: Found) -> Episode:
    """The episode of a trajectory that passes every rule. Raises DropError for the first rule that it breaks."""
    numbers = [step.number for step in found.steps]
    if not numbers or numbers != list(range(found.first, found.first + len(numbers))):
        raise DropError(NOT_CONTIGUOUS, f"{found.id}: steps are numbered {numbers[:12]}")
    for step in found.steps:
        failure = "unknown_action" if step.call is None else validate_call(step.call, found.device)
        if failure:
            raise DropError(UNMAPPABLE, f"{found.id} step {step.number}: {failure}: {step.said or step.call}")
    if len(numbers) > LONGEST:
        raise DropError(TOO_LONG, f"{found.id}: {len(numbers)} steps")
    query = _line(found.query)
    if not query or any(step.query is not None and _line(step.query) != query for step in found.steps):
        raise DropError(INCONSISTENT, f"{found.id}: {query!r}")
    if found.completed is False:
        raise DropError(NOT_DONE, found.id)
    screens = [_png(step.screenshot, f"{found.id} step {step.number}") for step in found.steps]
    final = None if found.final is None else _png(found.final, f"{found.id}: last screen")
    sizes = {Image.open(io.BytesIO(screen)).size for screen in screens}
    if len(sizes) > 1:
        raise DropError(BROKEN, f"{found.id}: screenshots of different sizes {sorted(sizes)}")
    turns = []
    for index, (step, screen) in enumerate(zip(found.steps, screens, strict=True)):
        sentence = _line(step.sentence).replace(OPEN, "").replace(CLOSE, "") or _named(step.call)
        thought = None if step.thought is None else step.thought.replace(THINK_END, "").strip()
        action = step.call.to_json()
        turns.append(
            Turn(
                index,
                screen,
                text=response_text(sentence, step.call),
                thought=thought,
                conclusion=sentence,
                action=action,
                target_box=step.box,
                use=step.use,
            )  # fmt: skip
        )
    return Episode(
        id=f"{found.origin}:{found.id}", suite=found.origin, task=found.app or found.id, seed=0, device=found.device,
        instruction=query, screen_size=sizes.pop(), turns=tuple(turns), outcome="success", score=1.0,
        source="imported", final_screenshot=final, origin=found.origin, licence=found.licence,
        made_by={"completed": f"{found.origin}'s own judge" if found.completed else "nobody"},
    )  # fmt: skip


def _line(text: str) -> str:
    return " ".join(str(text).split())


def _named(call: Call) -> str:
    """A sentence for an action that its source says nothing about."""
    action = str(call.arguments.get("action", call.name)).replace("_", " ")
    rest = [str(value) for name, value in call.arguments.items() if name != "action"]
    return _line(f"{action.capitalize()} {' '.join(rest)}").rstrip() + "."


def _png(screenshot: bytes | Callable[[], bytes], where: str) -> bytes:
    """PNG bytes; other formats are decoded and encoded anew."""
    try:
        content = screenshot() if callable(screenshot) else screenshot
    except OSError as error:
        raise DropError(NO_IMAGE, f"{where}: {error}") from error
    try:
        image = Image.open(io.BytesIO(content))
        image.load()
        if image.format == "PNG":
            return bytes(content)
        stream = io.BytesIO()
        image.convert("RGB").save(stream, "PNG")
        return stream.getvalue()
    except (OSError, UnidentifiedImageError, SyntaxError, ValueError) as error:
        raise DropError(NO_IMAGE, f"{where}: an image that cannot be read ({error})") from error


def image_file(folder: Path, name: str) -> Callable[[], bytes]:
    """Reads an image of a folder, whatever of .png, .jpg and .jpeg it is really called; never one outside of it."""

    def read() -> bytes:
        path = folder / Path(name).name
        tried = [path, *(path.with_suffix(suffix) for suffix in (".png", ".jpg", ".jpeg"))]
        for candidate in tried:
            if candidate.is_file():
                return candidate.read_bytes()
        raise FileNotFoundError(f"no {path.name} in {folder}")

    return read


def file_name(identity: str) -> str:
    """An id as a name of files."""
    return re.sub(r"[^\w.=-]+", "_", identity)
