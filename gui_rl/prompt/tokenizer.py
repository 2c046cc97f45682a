"""Text to token ids and back: Qwen's byte-level BPE, for the shipped tiny policy and for Qwen's real vocabulary.

In: a `tokenizer.json` (Hugging Face format) or Qwen's tiktoken ranks. Out: `Tokenizer`.

Three kinds of token besides the BPE's own:
- *control* tokens (turn marks, image placeholders, tool and think tags). Only the renderer places them: `encode` works
  on a vocabulary that does not hold them, so no text from outside can ever become one (R41).
- *phrase* tokens (gui-tiny only): long fixed pieces of the prompt as one id each, so that a tiny policy's turn is
  short. They have no control meaning: a phrase in a text from outside is that text and no more.
- digits: one token each, so that a coordinate is three tokens.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, models, pre_tokenizers

from gui_rl.errors import UserError

SPECIAL_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
TAG_TOKENS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
CONTROL_TOKENS = (*SPECIAL_TOKENS, *TAG_TOKENS)
_FIM_TOKENS = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")
QWEN_ADDED_TOKENS = (*SPECIAL_TOKENS, *TAG_TOKENS[:2], *_FIM_TOKENS, *TAG_TOKENS[2:])
"""Qwen2.5/Qwen3's added tokens in the order of their ids (151643 on)."""

PRE_TOKENISATION = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_ASSETS = "assets"


class Tokenizer:
    """Token ids of one vocabulary. Immutable; `encode` and `decode` are exact inverses on every Unicode text.

    Qwen's own tokenizer composes characters first (NFC), which cannot be undone; here the text stays as it is, so ids
    agree with Qwen's wherever the text is composed already (nearly always).
    """

    def __init__(self, spec: dict[str, Any], source: str):
        """spec: a parsed `tokenizer.json`; source: where it comes from, for errors."""
        added = {token["content"]: token["id"] for token in spec["added_tokens"]}
        special = {token["content"] for token in spec["added_tokens"] if token["special"]}
        self._control = {name: id_ for name, id_ in added.items() if name in CONTROL_TOKENS or name in special}
        missing = [name for name in CONTROL_TOKENS if name not in self._control]
        if missing:
            raise UserError(f"{source}: not a Qwen vocabulary, it lacks {', '.join(missing)}")
        plain = [token for token in spec["added_tokens"] if token["content"] not in self._control]
        outside = {**spec, "added_tokens": plain, "normalizer": None, "post_processor": None}
        self._plain = tokenizers.Tokenizer.from_str(json.dumps(outside))
        self.phrases = tuple(token["content"] for token in plain)
        if any(self._plain.token_to_id(text) != added[text] for text in self.phrases):
            raise UserError(f"{source}: added text tokens must have the ids before those of the control tokens")
        self._vocabulary = {**self._plain.get_vocab(with_added_tokens=True), **self._control}
        self._control_pattern = re.compile("|".join(re.escape(name) for name in sorted(self._control)))
        self._control_ids = frozenset(self._control.values())
        self.source = source
        self.vocab_size = max(self._vocabulary.values()) + 1
        self.eos_id = self._control["<|im_end|>"]
        self.pad_id = self._control["<|endoftext|>"]
        self.image_id = self._control["<|image_pad|>"]
        self.video_id = self._control["<|video_pad|>"]

    # --- where they come from
    @staticmethod
    def load(path_or_name: str | Path) -> Tokenizer:
        """A packaged vocabulary by name (`gui-tiny`), or a `tokenizer.json` (or its folder) by path.

        Raises UserError where there is none, or it is no Qwen-style vocabulary.
        """
        return _load(str(path_or_name))

    @staticmethod
    def from_qwen_tiktoken(path: str | Path) -> Tokenizer:
        """Qwen's real vocabulary from its tiktoken ranks file (151,643 lines `base64 rank`); takes some seconds.

        Raises UserError where the file cannot be read.
        """
        return Tokenizer(qwen_spec(read_ranks(path)), str(path))

    # --- text to ids
    def encode(self, text: str) -> list[int]:
        """Plain text -> ids; never a control token, whatever the text holds (R41).

        Raises ValueError for a string that is not Unicode text (a lone surrogate).
        """
        try:
            return self._plain.encode(text, add_special_tokens=False).ids
        except (UnicodeEncodeError, TypeError) as error:
            raise ValueError(f"not a Unicode text: {text!r}") from error

    def encode_template(self, text: str) -> list[int]:
        """The renderer's own literals -> ids, control tokens by their names."""
        ids: list[int] = []
        for piece in self.split_control(text):
            ids.extend([piece] if isinstance(piece, int) else self.encode(piece))
        return ids

    def split_control(self, text: str) -> list[str | int]:
        """A literal of the renderer, cut into plain texts and the ids of its control tokens."""
        pieces: list[str | int] = []
        position = 0
        for match in self._control_pattern.finditer(text):
            pieces += [text[position : match.start()], self._control[match.group()]]
            position = match.end()
        return [piece for piece in [*pieces, text[position:]] if piece != ""]

    def control(self, name: str) -> int:
        """The id of a control token, e.g. `<|im_start|>`. Raises KeyError with the names there are."""
        if name not in self._control:
            raise KeyError(f"no control token {name!r}; there are {', '.join(self._control)}")
        return self._control[name]

    @property
    def control_ids(self) -> frozenset[int]:
        """The ids of all control tokens."""
        return self._control_ids

    @cached_property
    def unsampled_ids(self) -> frozenset[int]:
        """Control tokens that no response may hold: all but the end of the turn, tool-call and think tags (R9)."""
        allowed = {"<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>"}
        return frozenset(id_ for name, id_ in self._control.items() if name not in allowed)

    # --- ids to text
    @cached_property
    def _bytes(self) -> tuple[bytes | None, ...]:
        of_char = {char: bytes([byte]) for byte, char in byte_characters().items()}
        whole = {*self.phrases, *self._control}
        table: list[bytes | None] = [None] * self.vocab_size
        for token, id_ in self._vocabulary.items():
            table[id_] = token.encode() if token in whole else b"".join(of_char[char] for char in token)
        return tuple(table)

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes that a token stands for (a character may be spread over several tokens)."""
        table = self._bytes[token_id] if 0 <= token_id < self.vocab_size else None
        if table is None:
            raise ValueError(f"token id {token_id} is not in the vocabulary of {self.source} ({self.vocab_size} ids)")
        return table

    def decode(self, ids: Iterable[int]) -> str:
        """Ids -> text, control tokens by their names; bytes that are not UTF-8 become U+FFFD.

        Raises ValueError for an id outside the vocabulary.
        """
        return b"".join(self.token_bytes(int(token_id)) for token_id in ids).decode("utf-8", errors="replace")


@lru_cache(maxsize=8)
def _load(path_or_name: str) -> Tokenizer:
    path = Path(path_or_name)
    packaged = resources.files("gui_rl.prompt") / _ASSETS / path_or_name / "tokenizer.json"
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file() and not packaged.is_file():
        names = sorted(entry.name for entry in (resources.files("gui_rl.prompt") / _ASSETS).iterdir())
        raise UserError(f"{path_or_name}: no such tokenizer.json, and no packaged vocabulary ({', '.join(names)})")
    file = path if path.is_file() else packaged
    try:
        return Tokenizer(json.loads(file.read_text(encoding="utf-8")), str(path_or_name))
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{file}: not a Hugging Face tokenizer.json ({error})") from error


def byte_characters() -> dict[int, str]:
    """Byte -> the printable character that stands for it in a byte-level vocabulary (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + n) for n, byte in enumerate(others)}}


def bpe_tokenizer(vocabulary: dict[str, int], merges: list[tuple[str, str]], whole_words: bool) -> tokenizers.Tokenizer:
    """A byte-level BPE with Qwen's pre-tokenisation and no added tokens.

    whole_words: a pre-token that is itself in the vocabulary is one token, whether or not the merges lead to it.
    """
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, merges, ignore_merges=whole_words))
    split = pre_tokenizers.Split(Regex(PRE_TOKENISATION), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def read_ranks(path: str | Path) -> dict[bytes, int]:
    """A tiktoken ranks file -> {token bytes: rank}. Raises UserError naming the file and line."""
    ranks: dict[bytes, int] = {}
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise UserError(f"{path}: cannot read the ranks file ({error.strerror})") from error
    for number, line in enumerate(lines, 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise UserError(f"{path}:{number}: a ranks file has lines `base64 rank`, got {line[:60]!r}") from error
    return ranks


def merges_of_ranks(ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The merges behind tiktoken ranks, in rank order.

    The token of rank r was made from the two parts that the merges below r leave of its bytes.
    """
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            pairs = [(ranks.get(parts[i] + parts[i + 1], rank), i) for i in range(len(parts) - 1)]
            best, i = min(pairs)
            if best >= rank:
                break
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) != 2:
            raise UserError(f"rank {rank} ({token!r}) does not follow from the ranks below it")
        merges.append((parts[0], parts[1]))
    return merges


def qwen_spec(ranks: dict[bytes, int]) -> dict[str, Any]:
    """Ranks + Qwen2.5/Qwen3's added tokens as a parsed `tokenizer.json`."""
    chars = byte_characters()

    def text(token: bytes) -> str:
        return "".join(chars[byte] for byte in token)

    vocabulary = {text(token): rank for token, rank in ranks.items()}
    merges = [(text(left), text(right)) for left, right in merges_of_ranks(ranks)]
    spec = json.loads(bpe_tokenizer(vocabulary, merges, whole_words=False).to_str())
    first = len(vocabulary)
    spec["added_tokens"] = [
        added_token(first + n, name, special=name.startswith("<|")) for n, name in enumerate(QWEN_ADDED_TOKENS)
    ]
    return spec


def added_token(token_id: int, content: str, special: bool) -> dict[str, Any]:
    """An entry of `added_tokens` in a `tokenizer.json`, matched literally."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": content, **flags, "special": special}
