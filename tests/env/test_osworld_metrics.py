"""OSWorld's evaluators: ours against stored scores, and against desktop-env's own functions on the same files."""

import json
import subprocess

import pytest

from env_servers.adapters.osworld_metrics import METRICS, score
from env_servers.errors import UserError

FILES = {
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "one\n2\nthree\n",
    "a.csv": "name,age\nAda,36\nAlan,41\n",
    "a.json": json.dumps({"a": {"b": 3, "c": "Text"}, "l": [1, 2], "s": "x,y"}),
    "bad.json": "{",
}
AT = "{folder}/"


def rule(*key, method="eq", ref=None):
    return {"key": list(key), "method": method, "ref": ref}


CASES = [  # metric, result, rule, options, score
    ("exact_match", "a", {"expected": "a"}, {}, 1),
    ("exact_match", "a", {"expected": "b"}, {}, 0),
    ("match_in_list", "a", {"expected": ["b", "a"]}, {}, 1),
    ("match_in_list", "c", {"expected": ["b", "a"]}, {}, 0),
    ("is_in_list", ["x", "y"], {"expected": "y"}, {}, 1),
    ("is_in_list", ["x", "y"], {"expected": "z"}, {}, 0),
    ("fuzzy_match", "kitten", {"expected": "sitting"}, {}, 8 / 13),
    ("fuzzy_match", "", {"expected": ""}, {}, 1),
    ("fuzzy_match", "abc", {"expected": "xyz"}, {}, 0),
    ("literal_match", 3, "3", {}, 1),
    ("literal_match", "Ab", "aB", {"ignore_case": True}, 1),
    ("literal_match", "Ab", "aB", {}, 0),
    ("literal_match", [1, "A"], ["1", "a"], {"type": "list", "ignore_case": True}, 1),
    ("literal_match", [1], ["1", "a"], {"type": "list"}, 0),
    ("check_include_exclude", "abc", {"include": ["a", "b"], "exclude": ["z"]}, {}, 1),
    ("check_include_exclude", "abc", {"include": ["a"], "exclude": ["c"]}, {}, 0),
    ("check_include_exclude", None, {"include": []}, {}, 0),
    ("diff_text_file", AT + "a.txt", AT + "a.txt", {}, 1),
    ("diff_text_file", AT + "a.txt", AT + "b.txt", {}, 2 / 3),
    ("diff_text_file", None, AT + "b.txt", {}, 0),
    ("check_list", AT + "a.txt", {"expect": ["^tw", "e$"], "unexpect": ["four"]}, {}, 1),
    ("check_list", AT + "a.txt", {"expect": ["^one"], "unexpect": ["two"]}, {}, 0),
    ("check_list", AT + "a.txt", {"expect": ["four"]}, {}, 0),
    ("check_csv", AT + "a.csv", {"expect": [{"name": "Ada"}, {"name": "Alan", "age": "41"}]}, {}, 1),
    ("check_csv", AT + "a.csv", {"expect": [{"name": "Ada", "age": "41"}]}, {}, 0),
    ("check_csv", AT + "a.csv", {"unexpect": [{"age": "36"}]}, {}, 0),
    ("check_json", AT + "a.json", {"expect": [rule("a", "b", ref=3), rule("l", 1, ref=2)]}, {}, 1),
    ("check_json", AT + "a.json", {"expect": [rule("a", "b", method="gt", ref=3)]}, {}, 0),
    ("check_json", AT + "a.json", {"expect": [rule("a", "z", ref=None)]}, {}, 0),
    ("check_json", AT + "a.json", {"expect": [rule("l", 7, ref=2)]}, {}, 0),
    ("check_json", AT + "a.json", {"expect": [rule("a", "c", method="re.I", ref="^tex")]}, {}, 1),
    ("check_json", AT + "a.json", {"expect": [rule("a", "b", method="approx:0.5", ref=3.4)]}, {}, 1),
    ("check_json", AT + "a.json", {"expect": [rule("a", "c", method="approx:0.5", ref=3.4)]}, {}, 0),
    ("check_json", AT + "a.json", {"expect": [rule("s", method="str_set_eq", ref=["y", "x"])]}, {}, 1),
    ("check_json", AT + "a.json", {"expect": [rule("s", method="str_list_eq", ref=["y", "x"])]}, {}, 0),
    ("check_json", AT + "a.json", {"unexpect": [rule("a", "b", ref=3)]}, {}, 0),
    ("check_json", AT + "a.json", {"unexpect": [rule("no", ref=3)]}, {}, 1),
    ("check_json", AT + "bad.json", {"expect": []}, {}, 0),
    ("check_json", AT + "none.json", {"expect": []}, {}, 0),
]
# Packages that the compared functions do not use but their file imports are left out: a stand-in for the import alone.
THEIRS = """
import contextlib, json, pathlib, sys, types
from unittest.mock import MagicMock
for name in ("pdfplumber", "formulas", "tldextract", "xmltodict", "docx"):
    sys.modules[name] = MagicMock()
import lxml.cssselect, desktop_env
for name in ("evaluators", "evaluators.metrics"):
    package = sys.modules["desktop_env." + name] = types.ModuleType("desktop_env." + name)
    package.__path__ = [str(pathlib.Path(desktop_env.__file__).parent / name.replace(".", "/"))]
with contextlib.redirect_stdout(sys.stderr):
    from desktop_env.evaluators.metrics import general
    found = [float(getattr(general, name)(*given, **more)) for name, given, more in json.load(sys.stdin)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """(metric, its arguments, options, score) with the files there."""
    folder = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (folder / name).write_text(text)

    def placed(value):
        return value.replace(AT, f"{folder}/") if isinstance(value, str) else value

    return [(name, [placed(result), placed(wanted)], more, right) for name, result, wanted, more, right in CASES]


def test_scores_are_the_stored_ones(cases):
    assert {name for name, *_ in cases} == set(METRICS)
    for name, given, more, right in cases:
        assert METRICS[name](*given, **more) == pytest.approx(right, abs=1e-12), (name, given)


@pytest.mark.desktop
def test_scores_are_those_of_desktop_env(cases, osworld_python):
    sent = json.dumps([(name, given, more) for name, given, more, _ in cases])
    asked = subprocess.run([osworld_python, "-c", THEIRS], input=sent, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    ours = [METRICS[name](*given, **more) for name, given, more, _ in cases]
    assert json.loads(asked.stdout) == pytest.approx(ours, abs=1e-12)


def verdict(gave_up=False, missing=(), **evaluator):
    def get(config):
        if config["value"] in missing:
            raise FileNotFoundError(config["value"])
        return config["value"]

    return score(evaluator, get, gave_up)


def value(found):
    return {"type": "rule", "value": found}


def test_an_evaluator_combines_its_metrics():
    two = {"func": ["exact_match", "fuzzy_match"], "result": [value("a"), value("ab")]}
    right, half, wrong = ({"expected": text} for text in ("a", "ac", "zz"))
    one = {"func": "exact_match", "result": value("a"), "expected": value(right)}
    assert verdict(**one) == 1 and verdict(**one, gave_up=True) == 0 and verdict(**one, missing=["a"]) == 0
    assert verdict(**two, expected=[value(right), value(half)]) == 0.75
    assert verdict(**two, expected=[value(wrong), value(half)]) == 0
    assert verdict(**two, conj="or", expected=[value(wrong), value(half)]) == 0.5
    assert verdict(**two, conj="or", expected=[value(wrong), value(half)], missing=["a"]) == 0.5
    assert verdict(**two, conj="or", expected=[value(right), value(wrong)]) == 1
    options = {"func": "literal_match", "result": value("A"), "expected": value("a"), "options": {"ignore_case": True}}
    assert verdict(**options) == 1


def test_what_cannot_be_done_is_solved_by_saying_so():
    assert verdict(func="infeasible", gave_up=True) == 1 and verdict(func="infeasible") == 0


def test_an_evaluator_that_is_not_supported_is_an_error():
    with pytest.raises(UserError, match="compare_gimp"):
        verdict(func="compare_gimp", result=value(1))
    with pytest.raises(UserError, match="2 func but 1 result"):
        verdict(func=["exact_match"] * 2, result=[value(1)])
    with pytest.raises(UserError, match="xor"):
        verdict(func=["exact_match"], result=[value(1)], conj="xor")
