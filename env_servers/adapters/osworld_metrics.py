"""OSWorld's evaluators on values and on text, CSV and JSON files: what needs no network and no library of documents.

In: the result and the rule of a task's evaluator, as its getters give them (a value, or the path of a file; None where
the guest has none). Out: a score from 0 to 1, as `desktop_env.evaluators.metrics` of desktop-env 1.0.2 has it for the
same values. `score` combines them as a task's `evaluator` says (func, conj, options). Own code after the documented
behaviour; the tests compare both on the same files.
"""

from __future__ import annotations

import csv
import difflib
import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from ..errors import UserError

INFEASIBLE = "infeasible"
_COMPARED = ("eq", "ne", "le", "lt", "ge", "gt")


def matches(value: Any, rule: Mapping[str, Any]) -> bool:
    """Whether a value meets a rule {"method", "ref"}: re[.FLAG...], eq/ne/le/lt/ge/gt, approx:T, range.{e|t}{e|t},
    str_list_eq, str_set_eq. UserError for any other method."""
    method, ref = rule["method"], rule["ref"]
    if method.startswith("range."):
        low, high = (getattr(operator, f"l{end}") for end in method[6:8])
        return low(ref[0], value) and high(value, ref[1])
    if method.startswith("re"):
        flags = reduce(operator.or_, (getattr(re, name) for name in method.split(".")[1:]), re.RegexFlag(0))
        return re.search(ref, value, flags) is not None
    if method in _COMPARED:
        return getattr(operator, method)(value, ref)
    if method.startswith("approx:"):
        try:
            return abs(float(value) - ref) <= float(method.split(":")[1])
        except (ValueError, TypeError):
            return False
    if method in ("str_list_eq", "str_set_eq"):
        kind = list if method == "str_list_eq" else set
        return kind(value.strip("\"'").split(",")) == kind(ref)
    raise UserError(f"an evaluator's rule has the method {method!r}, which is not supported")


def ratio(one: str, other: str) -> float:
    """Normalised similarity by insertions and deletions alone: 2 LCS / (sum of both lengths), 1 for two empty texts."""
    if not one and not other:
        return 1.0
    row = [0] * (len(other) + 1)
    for left in one:
        last = 0
        for k, right in enumerate(other, start=1):
            last, row[k] = row[k], last + 1 if left == right else max(row[k], row[k - 1])
    return 2 * row[-1] / (len(one) + len(other))


# --- values ----------------------------------------------------------------------------------------------------------
def exact_match(result: Any, rules: Mapping[str, Any]) -> float:
    """Equal to rules["expected"]."""
    return float(result == rules["expected"])


def match_in_list(result: Any, rules: Mapping[str, Any]) -> float:
    """One of rules["expected"]."""
    return float(result in rules["expected"])


def is_in_list(result: Any, rules: Mapping[str, Any]) -> float:
    """Has rules["expected"] in it."""
    return float(rules["expected"] in result)


def fuzzy_match(result: str, rules: Mapping[str, Any]) -> float:
    """Similarity of two texts."""
    return ratio(result, rules["expected"]) if result is not None else 0.0


def literal_match(result: Any, expected: Any, type: str = "str", ignore_case: bool = False) -> float:
    """Equal as text, or as lists of texts (`type` "list"). UserError for another type."""

    def text(value: Any) -> str:
        return str(value).lower() if ignore_case else str(value)

    if type == "str":
        return float(text(result) == text(expected))
    if type == "list":
        lists = isinstance(result, list | tuple) and isinstance(expected, list | tuple)
        return float(lists and [text(one) for one in result] == [text(one) for one in expected])
    raise UserError(f"literal_match has the type {type!r}: it is str or list")


def check_include_exclude(result: str | None, rules: Mapping[str, Sequence[str]]) -> float:
    """All of rules["include"] are in it, none of rules["exclude"]."""
    if result is None:
        return 0.0
    wanted = all(one in result for one in rules.get("include", ()))
    return float(wanted and not any(one in result for one in rules.get("exclude", ())))


# --- files -----------------------------------------------------------------------------------------------------------
def diff_text_file(result: str | None, expect: str) -> float:
    """Similarity of two files by lines (difflib)."""
    if result is None:
        return 0.0
    lines = [Path(path).read_text().splitlines() for path in (result, expect)]
    return difflib.SequenceMatcher(a=lines[0], b=lines[1]).ratio()


def _found(rows: Sequence[Any], rules: Mapping[str, Any], has: Callable[[Any, Any], bool]) -> float:
    """Every expected pattern is met by some row, no unexpected one by any."""
    wanted = all(any(has(rule, row) for row in rows) for rule in rules.get("expect", ()))
    return float(wanted and not any(has(rule, row) for rule in rules.get("unexpect", ()) for row in rows))


def check_list(result: str | None, rules: Mapping[str, Sequence[str]]) -> float:
    """Regular expressions against the lines of a file."""
    if result is None:
        return 0.0
    with open(result) as file:
        return _found(list(file), rules, lambda rule, line: re.search(rule, line) is not None)


def check_csv(result: str | None, rules: Mapping[str, Sequence[Mapping[str, str]]]) -> float:
    """Records, each some of a row's fields, against the rows of a file with a head."""
    if result is None:
        return 0.0
    with open(result) as file:
        rows = list(csv.DictReader(file))
    return _found(rows, rules, lambda rule, row: all(key in row and row[key] == rule[key] for key in rule))


def check_json(result: str | None, rules: Mapping[str, Sequence[Mapping[str, Any]]]) -> float:
    """Rules, each with the `key`s that lead to its value, against a JSON file; no file or none of JSON: 0."""
    if result is None:
        return 0.0
    try:
        data = json.loads(Path(result).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0.0

    def at(keys: Sequence[Any]) -> tuple[bool, Any]:
        value = data
        for key in keys:
            try:
                value = value[key]
            except (KeyError, TypeError):
                return False, None
        return True, value

    try:
        for rule in rules.get("expect", ()):
            there, value = at(rule["key"])
            if not there or not matches(value, rule):
                return 0.0
        return float(not any(matches(at(rule["key"])[1], rule) for rule in rules.get("unexpect", ())))
    except (IndexError, TypeError, ValueError, re.error):  # a value that its rule cannot be held against
        return 0.0


METRICS: dict[str, Callable[..., float]] = {
    function.__name__: function
    for function in (
        exact_match, match_in_list, is_in_list, fuzzy_match, literal_match, check_include_exclude, diff_text_file,
        check_list, check_csv, check_json,
    )
}  # fmt: skip


def names_of(evaluator: Mapping[str, Any]) -> list[str]:
    """The metrics of an evaluator; UserError for one that is not supported."""
    func = evaluator["func"]
    names = func if isinstance(func, list) else [func]
    for name in names:
        if name not in METRICS:
            raise UserError(f"the evaluator's func {name!r} is not supported, only: {', '.join(sorted(METRICS))}")
    return names


def score(evaluator: Mapping[str, Any], get: Callable[[Mapping[str, Any]], Any], gave_up: bool) -> float:
    """The score of an episode by a task's `evaluator`; its post-configuration has been done.

    get(config): the value of a `result` or an `expected`; FileNotFoundError where the guest lacks it. gave_up: the last
    action said that the task cannot be done. UserError for a metric that is not supported, before anything is got.
    """
    func = evaluator["func"]
    if func == INFEASIBLE:
        return float(gave_up)
    several, names = isinstance(func, list), names_of(evaluator)

    def listed(key: str, other: Any) -> list[Any]:
        found = evaluator.get(key) or other
        found = list(found) if several and isinstance(found, list) else [found] * len(names)
        if len(found) != len(names):
            raise UserError(f"the evaluator has {len(names)} func but {len(found)} {key}")
        return found

    results, expected, options = listed("result", None), listed("expected", None), listed("options", {})
    conj = evaluator.get("conj", "and")
    if conj not in ("and", "or"):
        raise UserError(f"the evaluator's conj is {conj!r}: it is and or or")
    if gave_up:
        return 0.0
    scores = []
    for name, result, wanted, more in zip(names, results, expected, options, strict=True):
        try:
            given = [get(result), *([get(wanted)] if wanted else [])]
        except FileNotFoundError:
            if conj == "and":
                return 0.0
            continue
        found = float(METRICS[name](*given, **(more or {})))
        if several and found == {"and": 0.0, "or": 1.0}[conj]:
            return found
        scores.append(found)
    if not scores:
        return 0.0
    return sum(scores) / len(scores) if conj == "and" else max(scores)
