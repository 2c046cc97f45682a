"""The tiny vocabulary: the same bytes every time, whole words, short turns with the suite's tools."""

import json
import os
import re
import subprocess
import sys

import pytest

from env_servers.protocol.actions import Call
from gui_rl.errors import UserError
from gui_rl.prompt import literals
from gui_rl.prompt.build_tokenizer import build, refresh, suite_text
from gui_rl.prompt.response import encode_response, response_text
from gui_rl.prompt.tokenizer import CONTROL_TOKENS, SPECIAL_TOKENS, Tokenizer

SENTENCES = ["Tap the apple.", "Drag the apple to the cart.", "Which folder is open?", "red"] * 3
BUILD = "import sys; from gui_rl.prompt.build_tokenizer import build; sys.stdout.write(build({!r}, {!r}))"
TOOL = {
    "name": "files.move_file",
    "description": "Move a thing.",
    "parameters": {
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}, "keep": {"type": "boolean"}},
        "required": ["item"],
    },
}


@pytest.fixture(scope="module")
def suite():
    return suite_text(count=2_000)


def test_the_same_bytes_in_every_process():
    def once(hash_seed):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", BUILD.format(SENTENCES, [TOOL])]
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout.decode()

    assert once("1") == once("2") == build(SENTENCES, [TOOL])


def test_layout():
    """Bytes, merges and words; then phrases; then control tokens: all ids in a row, none twice."""
    spec = json.loads(build(SENTENCES, [TOOL]))
    phrases = literals.phrases([TOOL])
    assert [token["content"] for token in spec["added_tokens"]] == [*phrases, *CONTROL_TOKENS]
    assert [token["content"] for token in spec["added_tokens"] if token["special"]] == list(SPECIAL_TOKENS)
    ids = [*spec["model"]["vocab"].values(), *(token["id"] for token in spec["added_tokens"])]
    assert sorted(ids) == list(range(len(ids))) and len(ids) <= 1280


def test_words_of_the_corpus_are_one_token_in_every_place(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(build(SENTENCES))
    tokenizer = Tokenizer.load(path)
    for word in ("apple", "folder", "drag"):
        for form in (f" {word}", word, word.capitalize()):
            assert len(tokenizer.encode(form)) == 1
        typed = response_text("Type.", Call("mobile_use", {"action": "type", "text": word}))
        assert tokenizer.encode(word)[0] in encode_response(tokenizer, typed)


def test_new_phrases_leave_the_other_ids_alone():
    """A changed tool changes its phrase's text and nothing else."""
    old = build(SENTENCES, [TOOL])
    assert refresh(old, [TOOL]) == old
    new = json.loads(refresh(old, [{**TOOL, "description": "Move one thing."}]))
    changed = [
        pair for pair in zip(json.loads(old)["added_tokens"], new["added_tokens"], strict=True) if pair[0] != pair[1]
    ]
    assert len(changed) == 1 and changed[0][0]["id"] == changed[0][1]["id"]
    assert new["model"] == json.loads(old)["model"]


def test_no_room():
    with pytest.raises(UserError, match="has no room"):
        build(SENTENCES, size=300)


# --- the packaged file
def test_the_suites_sentences_are_whole_words(tiny, suite):
    """Of the words in the suite's sentences, all but a few are one token where they stand."""
    sentences, _ = suite
    words = [word for sentence in sentences for word in re.findall(r" ?[A-Za-z]+", sentence)]
    whole = sum(len(tiny.encode(word)) == 1 for word in words)
    assert whole >= 0.98 * len(words)


def test_the_suites_tools_are_short(tiny, suite):
    _, tools = suite
    assert tools
    for tool in tools:
        assert len(tiny.encode(literals.json_line(tool) + "\n")) == 1
        function = tool["function"]
        values = {"string": "apple", "integer": 2, "boolean": True}
        properties = function["parameters"]["properties"]
        call = Call(function["name"], {name: values[schema["type"]] for name, schema in properties.items()})
        assert len(encode_response(tiny, response_text("Add the apple.", call))) <= 20


def test_the_packaged_file_has_todays_phrases(tiny, suite):
    """Where this fails, a literal, action or tool has changed since the build (trained policy: `--keep-words`)."""
    assert tiny.phrases == literals.phrases(suite[1])
