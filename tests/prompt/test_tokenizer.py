"""Vocabularies: Qwen's real one, the shipped tiny one, and the wall between outside text and control tokens (R41)."""

import base64
import json
import re
from functools import cache

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from gui_rl.errors import UserError
from gui_rl.prompt import literals
from gui_rl.prompt.build_tokenizer import ASSET
from gui_rl.prompt.tokenizer import CONTROL_TOKENS, PRE_TOKENISATION, Tokenizer, byte_characters, merges_of_ranks

SAMPLES = (
    "Star the apple and move the lamp to the cart.",
    "2+2?  \n\n1234567890 naïve 北京☂️",
    "He'll say: it's  \t done\r\n\n x_y (a) {\"k\": [1, 2]}\n",
    " leading, trailing \n",
    "",
    "🙂👨‍👩‍👧 e\u0301 \u00a0\u2028 \x00 \x7f",
)
# Text that tries to be a control token: names of tokens between arbitrary characters.
hostile = st.lists(st.text(max_size=8) | st.sampled_from(CONTROL_TOKENS) | st.sampled_from(literals.phrases())).map(
    "".join
)


@cache
def transformers_tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_file=str(ASSET))


@pytest.fixture(scope="session", params=["tiny", "qwen"])
def tokenizer(request) -> Tokenizer:
    return request.getfixturevalue(request.param)


# --- both vocabularies
@settings(max_examples=300, deadline=None)
@given(text=hostile)
def test_outside_text_never_becomes_a_control_token_and_comes_back_whole(tokenizer, text):
    ids = tokenizer.encode(text)
    assert not tokenizer.control_ids.intersection(ids)
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("text", SAMPLES)
def test_samples_come_back_whole(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_control_tokens_in_templates(tokenizer):
    for name in CONTROL_TOKENS:
        assert tokenizer.encode_template(name) == [tokenizer.control(name)]
        assert tokenizer.decode([tokenizer.control(name)]) == name
        assert len(tokenizer.encode(name)) > 1
    assert tokenizer.encode_template("a<|im_end|>\n") == [
        *tokenizer.encode("a"),
        tokenizer.eos_id,
        *tokenizer.encode("\n"),
    ]
    assert (tokenizer.eos_id, tokenizer.pad_id) == (tokenizer.control("<|im_end|>"), tokenizer.control("<|endoftext|>"))
    assert tokenizer.pad_id != tokenizer.eos_id  # R8
    with pytest.raises(KeyError, match="im_start"):
        tokenizer.control("<|im_begin|>")


def test_single_digits(tokenizer):
    assert [tokenizer.decode([token]) for token in tokenizer.encode("1024")] == list("1024")


def test_bad_input(tokenizer):
    with pytest.raises(ValueError, match="Unicode"):
        tokenizer.encode("a\ud800")
    for token in (-1, tokenizer.vocab_size):
        with pytest.raises(ValueError, match="not in the vocabulary"):
            tokenizer.decode([token])


def test_half_a_character_decodes_to_the_replacement_character(tokenizer):
    ids = tokenizer.encode("\U00013000")
    assert len(ids) > 1 and "\ufffd" in tokenizer.decode(ids[:1])
    assert b"".join(tokenizer.token_bytes(token) for token in ids) == "\U00013000".encode()


# --- Qwen's
def test_qwen_ids_are_tiktokens(qwen, qwen_ranks):
    """The independent reference: tiktoken with the same ranks."""
    ranks = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in qwen_ranks.read_bytes().splitlines()}
    reference = tiktoken.Encoding("qwen", pat_str=PRE_TOKENISATION, mergeable_ranks=ranks, special_tokens={})
    text = " ".join(SAMPLES) + qwen_ranks.read_text()[:20_000] + json.dumps(literals.phrases())
    assert qwen.encode(text) == reference.encode(text, disallowed_special=())


def test_qwen_special_ids(qwen):
    expected = {
        "<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645, "<|object_ref_start|>": 151646,
        "<|vision_start|>": 151652, "<|vision_end|>": 151653, "<|vision_pad|>": 151654, "<|image_pad|>": 151655,
        "<|video_pad|>": 151656, "<tool_call>": 151657, "</tool_call>": 151658, "<|fim_prefix|>": 151659,
        "<|file_sep|>": 151664, "<tool_response>": 151665, "</tool_response>": 151666, "<think>": 151667,
        "</think>": 151668,
    }  # fmt: skip
    assert {name: qwen.control(name) for name in expected} == expected
    assert qwen.vocab_size == 151669


def test_ranks_that_do_not_follow():
    assert merges_of_ranks({b"a": 0, b"b": 1, b"ab": 2, b"aba": 3}) == [(b"a", b"b"), (b"ab", b"a")]
    with pytest.raises(UserError, match="rank 2"):
        merges_of_ranks({b"a": 0, b"b": 1, b"abb": 2})


@pytest.mark.parametrize("content", [b"IQ== zero\n", b"IQ==\n", b"?? 3\n"])
def test_broken_ranks_are_named(tmp_path, content):
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(content)
    with pytest.raises(UserError, match="ranks.tiktoken:1"):
        Tokenizer.from_qwen_tiktoken(path)
    with pytest.raises(UserError, match="nowhere"):
        Tokenizer.from_qwen_tiktoken(tmp_path / "nowhere")


# --- gui-tiny's
def test_tiny_layout(tiny):
    assert tiny.vocab_size <= 1280
    assert [tiny.token_bytes(byte) for byte in range(256)] == [bytes([byte]) for byte in range(256)]
    assert set(tiny.phrases) >= set(literals.phrases())
    assert len({tiny.token_bytes(token) for token in range(tiny.vocab_size)}) == tiny.vocab_size


def test_phrases_are_one_token_and_hold_no_control_token(tiny):
    for phrase in literals.phrases():
        assert len(tiny.encode(phrase)) == 1
        assert not any(name in phrase for name in CONTROL_TOKENS)


def test_transformers_reads_the_file_and_agrees(tiny):
    fast = transformers_tokenizer()
    texts = [*SAMPLES, *literals.phrases(), "Action: Tap the apple.\n", "the user\nand so on, Step 2: x"]
    for text in texts:
        assert fast(text, add_special_tokens=False)["input_ids"] == tiny.encode(text)
    template = literals.SYSTEM + literals.TOOLS_HEADER + literals.TOOLS_FOOTER + literals.TURN_END
    assert fast(template, add_special_tokens=False)["input_ids"] == tiny.encode_template(template)
    assert fast.convert_tokens_to_ids(list(CONTROL_TOKENS)) == [tiny.control(name) for name in CONTROL_TOKENS]


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=60))
def test_transformers_agrees_on_any_text(tiny, text):
    fast = transformers_tokenizer()
    if not any(name in text for name in CONTROL_TOKENS):
        assert fast(text, add_special_tokens=False)["input_ids"] == tiny.encode(text)


# --- loading
def test_load_by_path(tiny):
    assert Tokenizer.load(ASSET).encode("Tap") == Tokenizer.load(ASSET.parent).encode("Tap") == tiny.encode("Tap")


def test_load_errors(tmp_path):
    with pytest.raises(UserError, match="gui-tiny"):
        Tokenizer.load("gui-huge")
    path = tmp_path / "tokenizer.json"
    path.write_text("{")
    with pytest.raises(UserError, match=re.escape(str(path))):
        Tokenizer.load(path)
    spec = json.loads(ASSET.read_text())
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**spec, "added_tokens": spec["added_tokens"][:-1]}))
    with pytest.raises(UserError, match="it lacks </think>"):
        Tokenizer.load(other)


def test_byte_characters_are_printable_and_distinct():
    table = byte_characters()
    assert sorted(table) == list(range(256)) and len(set(table.values())) == 256
    assert table[ord("A")] == "A" and table[ord(" ")] == "Ġ" and table[ord("\n")] == "Ċ"
    assert all(char.isprintable() and not char.isspace() for char in table.values())
