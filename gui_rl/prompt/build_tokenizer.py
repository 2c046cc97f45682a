"""Make the tiny policy's vocabulary: `python -m gui_rl.prompt.build_tokenizer`.

In: the virtual apps' sentences and tools (`vocabulary_samples`, `registry` of `env_servers.suites.virtual`), literals.
Out: `assets/gui-tiny/tokenizer.json`, the same bytes every time.

1. every sentence is rendered where it can stand: as an instruction, a conclusion, a question, an answer;
2. a byte-level BPE with few merges is trained on the texts between phrases (any other text stays encodable);
3. the frequent words become tokens of their own: after a space, at the start of a sentence, and bare as after a quote
   (`ignore_merges`: no chain of merges has to lead to them); words of other interfaces fill what room is left;
4. phrases and control tokens follow.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import trainers

from gui_rl.errors import UserError
from gui_rl.prompt import literals
from gui_rl.prompt.tokenizer import (
    CONTROL_TOKENS,
    SPECIAL_TOKENS,
    added_token,
    bpe_tokenizer,
    byte_characters,
)

VOCABULARY_SIZE = 1280
MERGES = 160
SAMPLES, SEED = 8_000, 0
COMMON_WORDS = (
    "an at by it or this that with all first last next previous new old left right top bottom above below more less "
    "before after then if button field text name number date time price total file files window page screen app icon "
    "image row column title color size message email user password login profile settings edit save close send share "
    "rename sort filter buy pay order product item items note notes enter submit ok go put set long double clear "
    "reset start stop play turn off again most least same different other each every only has have was were will do did"
).split()
"""Words of interfaces at large, for suites that are yet to be written."""
ASSET = Path(__file__).parent / "assets" / "gui-tiny" / "tokenizer.json"


def suite_text(count: int = SAMPLES, seed: int = SEED) -> tuple[list[str], list[dict[str, Any]]]:
    """(sentences, tool signatures) of the virtual apps. Raises UserError where the suite does not offer them."""
    try:
        suite = importlib.import_module("env_servers.suites.virtual")
        sentences, apps = suite.vocabulary_samples, suite.registry.values()
    except (ImportError, AttributeError) as error:
        raise UserError(f"env_servers.suites.virtual gives no vocabulary_samples and registry: {error}") from error
    return list(sentences(count, seed)), [tool.schema() for app in apps for tool in app.tools]


def build(
    sentences: Sequence[str],
    tools: Sequence[Mapping[str, Any]] = (),
    size: int = VOCABULARY_SIZE,
    merges: int = MERGES,
) -> str:
    """The text of a `tokenizer.json` with at most `size` ids: 256 bytes, `merges` merges, words, phrases, control.

    Raises UserError where they do not fit.
    """
    phrases = literals.phrases(tools)
    fragments = list(_fragments(sentences, phrases))
    vocabulary, merge_list = _train(fragments, 256 + merges)
    room = size - len(vocabulary) - len(phrases) - len(CONTROL_TOKENS)
    if room < 0:
        raise UserError(f"a vocabulary of {size} has no room: {len(phrases)} phrases need {size - room} ids")
    for word in _words(fragments, vocabulary, room):
        vocabulary[word] = len(vocabulary)
    spec = json.loads(bpe_tokenizer(vocabulary, merge_list, whole_words=True).to_str())
    return _with_added(spec, phrases)


def refresh(text: str, tools: Sequence[Mapping[str, Any]] = ()) -> str:
    """A built `tokenizer.json` with today's phrases and the words it had.

    Where the number of phrases is what it was, every id but those of changed phrases keeps its meaning, so a policy
    trained on the old file can go on.
    """
    return _with_added(json.loads(text), literals.phrases(tools))


def _with_added(spec: dict[str, Any], phrases: Sequence[str]) -> str:
    first = len(spec["model"]["vocab"])
    added = [(phrase, False) for phrase in phrases] + [(name, name in SPECIAL_TOKENS) for name in CONTROL_TOKENS]
    spec["added_tokens"] = [added_token(first + n, text, special) for n, (text, special) in enumerate(added)]
    return json.dumps(spec, ensure_ascii=False, indent=1) + "\n"


def _fragments(sentences: Iterable[str], phrases: Sequence[str]) -> Iterable[str]:
    """The texts between phrase tokens, for each place in which a sentence can stand."""
    pattern = re.compile("|".join(re.escape(phrase) for phrase in sorted(phrases, key=len, reverse=True)))
    for sentence in sentences:
        step = literals.STEP.format(step=1, conclusion=sentence)
        for text in (sentence, f"{literals.CONCLUSION}{sentence}\n", f"{literals.PREVIOUS}{step}\n"):
            yield from (fragment for fragment in pattern.split(text) if fragment)


def _train(fragments: Sequence[str], size: int) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A small BPE: bytes in their order, then merges in the order of training."""
    tokenizer = bpe_tokenizer({}, [], whole_words=False)
    alphabet = list(byte_characters().values())
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False, min_frequency=2)
    tokenizer.train_from_iterator(fragments, trainer)
    merges = [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    vocabulary = {char: byte for byte, char in sorted(byte_characters().items())}
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    return vocabulary, merges


def _words(fragments: Sequence[str], vocabulary: Mapping[str, int], room: int) -> list[str]:
    """The pre-tokens that become tokens: the most frequent first, in the forms that occur; then, while there is room,
    every word after a space, bare, and with a capital."""
    counts = Counter(token for fragment in fragments for token, _ in _PRE_TOKENIZER.pre_tokenize_str(fragment))
    space = byte_characters()[ord(" ")]
    totals: Counter[str] = Counter()
    for token, count in counts.items():
        totals[_lower(token.removeprefix(space))] += count
    words = sorted((word for word in totals if word), key=lambda word: (-totals[word], word))
    seen = [form for word in words for form in _forms(word, space) if form in counts]
    others = [form for word in (*words, *COMMON_WORDS) for form in _forms(word, space)[:3]]
    return [form for form in dict.fromkeys([*seen, *others]) if form not in vocabulary][:room]


def _lower(word: str) -> str:
    return word.lower() if word.isascii() and word.isalpha() else word


def _forms(word: str, space: str) -> tuple[str, ...]:
    """After a space, bare, at the start of a sentence, the last after a space; anything but a word has one form."""
    if not (word.isascii() and word.isalpha()):
        return (word,)
    capital = word[:1].upper() + word[1:]
    return space + word, word, capital, space + capital


_PRE_TOKENIZER = bpe_tokenizer({}, [], whole_words=False).pre_tokenizer


def main() -> None:
    """Makes the vocabulary and writes it; see the module."""
    parser = argparse.ArgumentParser(description="Make the tiny policy's vocabulary.")
    parser.add_argument("--out", type=Path, default=ASSET, help="where to write tokenizer.json")
    parser.add_argument("--keep-words", action="store_true", help="renew the phrases of --out, keep its words and ids")
    arguments = parser.parse_args()
    out: Path = arguments.out
    try:
        sentences, tools = suite_text()
        text = refresh(out.read_text(encoding="utf-8"), tools) if arguments.keep_words else build(sentences, tools)
    except (UserError, OSError) as error:
        raise SystemExit(f"build_tokenizer: {error}") from None
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    spec = json.loads(text)
    print(f"{out}: {len(spec['model']['vocab'])} tokens and {len(spec['added_tokens'])} added")


if __name__ == "__main__":
    main()
