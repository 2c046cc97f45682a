"""Documents to passages, and questions on them by recorded answers; the commands from end to end."""

import asyncio
import dataclasses
import io
import json
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from env_servers.server import running_server
from gui_rl.commands import capabilities
from gui_rl.commands.parts import ServerOptions
from gui_rl.data.store import EpisodeSource, write_episodes
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import Answer, Recorded
from gui_rl.flywheel.documents import LONGEST, read_documents, retrieve
from gui_rl.flywheel.knowledge import Pair, document_pairs, pair_episode, write_pairs
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, ScriptAgent
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Spec, play_all

PROMPTS = Prompts(Tokenizer.load("gui-tiny"), TINY_CONTEXT)
SAVING = (
    "To save a copy, open the File menu and choose **Save a Copy**. The keyboard shortcut is Ctrl+Shift+S, and the "
    "copy keeps the format of the original."
)


def picture(value):
    stream = io.BytesIO()
    Image.fromarray(np.full((64, 96, 3), value, np.uint8)).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def manual(tmp_path):
    folder = tmp_path / "manual"
    (folder / "pictures").mkdir(parents=True)
    (folder / "pictures" / "file menu.png").write_bytes(picture(9))
    (tmp_path / "secret.png").write_bytes(picture(1))
    (folder / "a.md").write_text(
        f"# Saving\n\n{SAVING}\n\n![](pictures/file%20menu.png) ![](gone.png) ![](../secret.png)\n\n"
        "## See also\n\nMore.\n"
    )
    (folder / "b.html").write_text(
        "<html><head><title>x</title><script>var a = 1;</script></head><body><nav>Home | About us | Imprint</nav>"
        f"<h2>Saving <em>again</em></h2><p>{SAVING.replace('**', '')}</p><h2>Long</h2>"
        + "".join(f"<p>Line {n} of a text that is long enough to be cut somewhere.</p>" for n in range(120))
        + "</body></html>"
    )
    (folder / "c.txt").write_bytes(b"\xff\xfe not text")
    return folder


def test_documents_are_cleaned_and_cut_at_their_headings(manual):
    counts = Counter()
    passages = read_documents(manual, counts)
    assert [passage.title for passage in passages] == ["Saving", "Long", "Long"]
    first, *rest = passages
    assert first.source == "a.md" and "Ctrl+Shift+S" in first.text and "**" not in first.text
    assert len(first.pictures) == 1 and Image.open(io.BytesIO(first.pictures[0])).size == (96, 64)
    assert all(len(passage.text) <= LONGEST for passage in passages)
    cut = "\n".join(passage.text for passage in rest)
    assert cut.count("Line") == 120 and "Imprint" not in cut and "var a" not in cut
    assert counts == {"passages": 3, "no picture": 2, "too short": 1, "repeated": 1, "no text": 1}
    for wrong in (manual / "c.pdf", manual.parent / "nothing"):
        with pytest.raises(UserError, match="documentation"):
            read_documents(wrong, Counter())


def test_the_passage_that_tells_most_is_found(manual):
    passages = read_documents(manual, Counter())
    assert retrieve(passages, "Save the copy with the shortcut.") == passages[0].text
    assert "Line 119" in retrieve(passages, "The line 119, the end of the text")
    assert retrieve(passages, "zebra") == "" == retrieve([], "copy")


class Keeper:
    """Writes down every question with a prepared answer, in the form in which an endpoint keeps them."""

    name = "wise"

    def __init__(self, folder, answers):
        self.folder, self.answers = folder, answers
        folder.mkdir(parents=True)

    async def ask(self, question):
        text = json.dumps(self.answers(question))
        document = {"annotator": self.name, "purpose": question.purpose, "text": text}
        (self.folder / f"{question.key}.json").write_text(json.dumps(document))
        return Answer(text, self.name)


def answers(question):
    if question.purpose == "world":
        return {"change": "The cart opens."}
    if question.purpose == "vqa":
        pair = {"question": "What is the next button?", "answer": "Save a Copy", "quote": "choose Save a Copy"}
        return {"pairs": [pair]}
    if "Ctrl" in question.text:
        pair = {"question": "How is a copy saved?", "answer": "Ctrl+Shift+S", "quote": "shortcut is Ctrl+Shift+S"}
        return {"pairs": [pair]}
    return {"pairs": [{"question": "What is it?", "answer": "A cat", "quote": "it is a cat"}]}  # the text says no such


def test_recorded_answers_make_questions_and_rubbish_is_counted(manual, tmp_path):
    passages = read_documents(manual, Counter())
    asyncio.run(document_pairs(Keeper(tmp_path / "kept", answers), passages, "desktop", Counter()))
    counts = Counter()
    pairs = asyncio.run(document_pairs(Recorded(tmp_path / "kept"), passages, "desktop", counts))
    assert counts == {"qa": 1, "vqa": 1, "rubbish qa": 2}
    qa, vqa = pairs
    assert (qa.question, qa.answer, qa.screenshot) == ("How is a copy saved?", "Ctrl+Shift+S", None)
    assert vqa.device == "desktop" and vqa.screenshot == passages[0].pictures[0]
    assert {pair.annotator for pair in pairs} == {"recorded wise"} and qa.origin == "a.md"
    made = pair_episode(qa, 0, PROMPTS)
    assert made.turns[0].image_turns == () and made.made_by == {"answer": "recorded wise"} and made.source == "imported"
    decode = PROMPTS.tokenizer.decode
    assert qa.question in decode(made.turns[0].prompt_ids)
    assert decode(made.turns[0].response_ids) == "Ctrl+Shift+S<|im_end|>"


@pytest.mark.parametrize(
    "pairs",
    [
        "none", [{"question": "Save it", "answer": "a", "quote": "File menu"}],
        [{"question": "Save it?", "answer": "", "quote": "File menu"}], [{"question": "Save it?", "answer": "a"}],
        [{"question": "How?", "answer": 3, "quote": "File menu"}],
        [{"question": "How?", "answer": "a", "quote": "File menu"}] * 5,
    ],
)  # fmt: skip
def test_what_is_no_list_of_pairs_is_rubbish(manual, tmp_path, pairs):
    (first, *_) = read_documents(manual, Counter())
    counts = Counter()
    keeper = Keeper(tmp_path / "kept", lambda question: {"pairs": pairs})
    assert asyncio.run(document_pairs(keeper, [first], "web", counts)) == []
    assert counts == {"rubbish qa": 1, "rubbish vqa": 1}


def test_what_is_too_long_is_counted():
    counts, kept = Counter(), []
    pairs = [Pair("qa", "How? " * 200, "So.", "wise", "a.md"), Pair("qa", "How?", "So.", "wise", "a.md")]
    write_pairs(pairs, PROMPTS, kept.append, counts)
    assert len(kept) == 1 and counts == {"too long": 1}
    with pytest.raises(UserError, match="nothing to store"):
        write_pairs([], PROMPTS, kept.append, counts)


def test_the_commands(manual, tmp_path, chromium, monkeypatch, capsys):
    """Trajectories from a real world, one of them of another seed than it says: it is left out and counted."""

    async def play(server):
        async with EnvClient(server.url, server.token) as client:
            specs = [Spec("virtual", "shop/cart", 7), Spec("virtual", "shop/checkout", 8)]
            return await play_all(client, ScriptAgent(PROMPTS), specs, script=True, keep_final=True)

    with running_server() as server:
        episodes = asyncio.run(play(server))
        monkeypatch.setenv("GUI_RL_ENV_TOKEN", server.token)
        there = ServerOptions(server.url)
        wrong = dataclasses.replace(episodes[0], id="wrong", seed=9)
        write_episodes(tmp_path / "played", [*episodes, wrong])
        capabilities.knowledge(
            capabilities.KnowledgeOptions(tmp_path / "exact", trajectories=tmp_path / "played", server=there)
        )
        capabilities.thoughts(capabilities.ThoughtsOptions(tmp_path / "played", tmp_path / "thoughts", server=there))
        capabilities.thoughts(
            capabilities.ThoughtsOptions(tmp_path / "played", tmp_path / "roles", roles=True, server=there)
        )
    out = capsys.readouterr().out
    assert out.count("wrong turn 0: played again, it shows another screen") == 3
    card = json.loads((tmp_path / "exact" / "card.json").read_text())
    assert card["dropped"] == {"not the same again": 1} and card["annotator"] == {"answer: exact": card["episodes"]}
    thinking = EpisodeSource(tmp_path / "thoughts")
    assert [episode.id for episode in (thinking[0], thinking[1])] == [episode.id for episode in episodes]
    assert all(turn.thought for turn in thinking[1].turns)
    roles = EpisodeSource(tmp_path / "roles")
    assert [roles[k].made_by.get("role") for k in range(4)] == [None, "manager", "reflector", "notetaker"]

    # documents, and changes by an annotator whose answers were kept
    kept = Keeper(tmp_path / "kept", answers)
    asyncio.run(document_pairs(kept, read_documents(manual, Counter()), "desktop", Counter()))
    options = capabilities.KnowledgeOptions(
        tmp_path / "told", manual, "desktop", recorded=tmp_path / "kept", trajectories=tmp_path / "played"
    )
    capabilities.knowledge(options)
    card = json.loads((tmp_path / "told" / "card.json").read_text())
    assert card["annotator"] == {"answer: recorded wise": 2} and card["dropped"]["rubbish qa"] == 2
    assert card["dropped"]["unanswered world"] >= 3  # nobody had asked about these
    with pytest.raises(UserError, match="need an annotator"):
        capabilities.knowledge(capabilities.KnowledgeOptions(tmp_path / "no", manual))
    with pytest.raises(UserError, match="nothing to ask"):
        capabilities.knowledge(capabilities.KnowledgeOptions(tmp_path / "no"))
    assert not (tmp_path / "no").exists()
