"""The LibreOffice tasks without LibreOffice: goals, near-misses, files, tools' signatures, measured labels."""

import ast
import base64
import copy
import io
import random
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.env_desktop import DOCUMENT, actions, document
from env_servers.desktop import tools
from env_servers.protocol.actions import Call, validate_call
from env_servers.suites import instantiate, tasks
from env_servers.suites.libreoffice import KINDS
from env_servers.suites.libreoffice.case import HAND, script
from env_servers.suites.libreoffice.tools import SPECS
from env_servers.suites.virtual.gestures import Element

DESKTOP = Path(tools.__file__).parent
SEEDS = (0, 7, 1_000_000)
FEASIBLE = [name for name, kind in KINDS.items() if kind.feasible]


def played(instance, document=None, saved=None, **more):
    """A state at the end: all right, unless said otherwise."""
    case = instance.case
    end = case.before if case.after is None else case.after
    state = {"document": end, "saved": end, "answer": case.answer, "files": case.files, "acted": 0, **more}
    state |= {key: value for key, value in (("document", document), ("saved", saved)) if value is not None}
    return state


def verdict(instance, state, declared="success"):
    complete = all(checkpoint(state) for checkpoint in instance.checkpoints)
    return instance.succeeded(state, declared, complete)


def blemished(model, rng):
    """The model with one number or text in it changed, somewhere."""
    found = copy.deepcopy(model)
    places = []

    def walk(value):
        for key in value if isinstance(value, dict) else range(len(value)):
            inner = value[key]
            if isinstance(inner, dict | list):
                walk(inner)
            else:
                places.append((value, key))

    walk(found)
    holder, key = rng.choice(places)
    old = holder[key]
    holder[key] = (not old) if isinstance(old, bool) else old + 1 if isinstance(old, int | float) else f"{old}x"
    return found


@pytest.mark.parametrize("name", FEASIBLE)
def test_the_goal_is_met_by_the_right_end_and_by_no_near_miss(name):
    for seed in SEEDS:
        instance = instantiate("libreoffice", name, seed)
        case, rng = instance.case, random.Random(seed)
        assert verdict(instance, played(instance)), "the right end"
        assert not verdict(instance, played(instance), declared="failure")
        end = case.after or case.before
        misses = {
            "the document has one thing more changed": played(instance, document=blemished(end, rng)),
            "saved, then changed": played(instance, document=case.before) if case.after else None,
            "did it but did not save": played(instance, saved=case.before) if case.after else None,
            "saved something else": played(instance, saved=blemished(end, rng)) if case.after else None,
            "nothing done": played(instance, case.before, case.before, answer="", files={}),
            "wrong answer": played(instance, answer=f"{case.answer}x") if case.answer else None,
            "no such file": played(instance, files={}) if case.files else None,
            "empty file": played(instance, files=dict.fromkeys(case.files, "")) if case.files else None,
        }
        if case.after is None:  # a question or an export: what the document is does not matter to an answer
            del misses["the document has one thing more changed"]
        tried = {what: state for what, state in misses.items() if state is not None}
        assert len(tried) >= (3 if case.after or case.files else 2)
        assert [what for what, state in tried.items() if verdict(instance, state)] == []


def test_there_are_enough_tasks_of_every_kind():
    counted = {app: [k for k in KINDS.values() if k.app == app] for app in ("calc", "writer", "impress")}
    assert {app: len(kinds) >= least for (app, kinds), least in zip(counted.items(), (30, 20, 10), strict=True)} == {
        "calc": True,
        "writer": True,
        "impress": True,
    }
    assert all(any(not kind.feasible for kind in kinds) for kinds in counted.values())
    labels = [task.tool_beneficial for task in tasks("libreoffice").values()]
    assert {1, -1} == set(labels)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.feasible])
def test_what_cannot_be_done_is_solved_by_saying_so_alone(name):
    instance = instantiate("libreoffice", name, 3)
    right = played(instance)
    assert verdict(instance, right, declared="failure")
    assert not verdict(instance, right, declared="success")
    assert not verdict(instance, right, declared=None)
    assert not verdict(instance, played(instance, saved=blemished(instance.case.before, random.Random(1))), "failure")


@pytest.mark.parametrize("name", FEASIBLE)
def test_whether_tools_help_is_measured_on_the_scripts(name):
    task = tasks("libreoffice")[name]
    instance = instantiate("libreoffice", name, 0)
    offered = [spec.name for spec in instance.tools]
    by_hand, mixed = (
        script(instance.case.way, instance.page.name, []),
        script(instance.case.way, instance.page.name, offered),
    )
    assert task.tool_beneficial == (1 if len(by_hand) - len(mixed) >= 2 else -1)
    assert len(by_hand) < task.max_steps
    for call in mixed:
        if isinstance(call, dict):
            specs = [spec.schema() for spec in instance.tools]
            assert validate_call(Call(**call), "desktop", specs) is None, call


@pytest.mark.parametrize("name", FEASIBLE)
def test_every_move_of_a_script_is_a_valid_call(name):
    instance = instantiate("libreoffice", name, 11)
    moves = script(instance.case.way, instance.page.name, [])
    named = [Element(word, (10, 10, 30, 20)) for move in moves for word in move[1:] if isinstance(word, str)]
    for k in range(len(moves) + 1):
        move = instance.move({"acted": k}, named, [], [])
        assert validate_call(Call(**move.call), "desktop") is None
    assert move.call == HAND.finish().call


def test_the_same_seed_gives_the_same_file_and_another_seed_another():
    for name in ("calc/sum", "writer/word", "impress/title"):
        one, again, other = (instantiate("libreoffice", name, seed) for seed in (5, 5, 6))
        assert one.initial == again.initial and one.instruction == again.instruction
        assert one.initial["data"] != other.initial["data"]
    with pytest.raises(ValueError, match="no split"):
        instantiate("libreoffice", "calc/sum", 10**9)


OFFICE, TABLE, TEXT = (f"{{urn:oasis:names:tc:opendocument:xmlns:{name}:1.0}}" for name in ("office", "table", "text"))


def content(instance):
    archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(instance.initial["data"])))
    assert archive.infolist()[0].filename == "mimetype" and archive.testzip() is None
    return ElementTree.fromstring(archive.read("content.xml"))


def test_files_hold_what_their_models_say():
    """Read by the standard alone."""
    book = instantiate("libreoffice", "calc/sum", 2)
    for table, sheet in zip(content(book).iter(f"{TABLE}table"), book.case.before["sheets"], strict=True):
        cells = {}
        for y, row in enumerate(table.iter(f"{TABLE}table-row")):
            for x, cell in enumerate(row.iter(f"{TABLE}table-cell")):
                kind, text = cell.get(f"{OFFICE}value-type"), "".join(cell.itertext())
                if kind:
                    cells[f"{chr(65 + x)}{y + 1}"] = float(cell.get(f"{OFFICE}value")) if kind == "float" else text
        assert table.get(f"{TABLE}name") == sheet["name"] and cells == sheet["cells"]
    letter = instantiate("libreoffice", "writer/word", 2)
    lines = ["".join(p.itertext()) for p in content(letter).iter(f"{TEXT}p")]
    assert lines == [one["text"] for one in letter.case.before["paragraphs"]]
    slides = instantiate("libreoffice", "impress/title", 2)
    words = ["".join(p.itertext()) for p in content(slides).iter(f"{TEXT}p")]
    boxes = [box["text"] for slide in slides.case.before["slides"] for box in slide["boxes"]]
    assert words == [line for text in boxes for line in text.split("\n")]


# --- tools -----------------------------------------------------------------------------------------------------------
def written(app):
    """By tool the names of its arguments and how many of them have no default, from the source: UNO is not here."""
    found = {}
    for path in DESKTOP.glob(f"{app}*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and [a.arg for a in node.args.args][:1] == ["office"]:
                names = [argument.arg for argument in node.args.args][1:]
                found[node.name] = (names, len(names) - len(node.args.defaults))
    return {name: given for name, given in found.items() if not name.startswith("_")}


@pytest.mark.parametrize("app", SPECS)
def test_signatures_are_those_of_the_functions(app):
    functions = written(app)
    for spec in SPECS[app]:
        prefix, _, name = spec.name.partition(".")
        assert prefix == f"libreoffice_{app}"
        names, required = functions.pop(name)
        assert sorted(spec.parameters["properties"]) == sorted(names), name
        assert sorted(spec.parameters["required"]) == sorted(names[:required]), name
    assert functions == {}, "tools without a signature"


@given(st.integers(0, 16383))
def test_columns_past_z_have_names(number):
    name = tools.column_name(number)
    assert tools.column_number(name) == number and tools.column_number(name.lower()) == number


def test_names_of_cells_ranges_and_colours():
    assert [tools.column_name(k) for k in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
    assert tools.cell_place("AB12") == (27, 11) and tools.cell_place("$C$3") == (2, 2)
    assert tools.range_place("C3:A1") == (0, 0, 2, 2) and tools.range_name(0, 0, 27, 1) == "A1:AB2"
    assert tools.colour("#FF8000") == tools.colour("0xff8000") == tools.colour(0xFF8000) == tools.colour("16744448")
    for wrong in ("A0", "1A", "", "A1:B2", "ABCD1"):
        with pytest.raises(tools.ToolFailure):
            tools.cell_place(wrong)
    for wrong in ("#12345", "reddish", -1, 2**24, True):
        with pytest.raises(tools.ToolFailure):
            tools.colour(wrong)


def test_the_document_of_actions_is_what_the_tasks_are():
    """`python -m benchmarks.env_desktop --table` writes it anew."""
    assert DOCUMENT.read_text() == document()
    one = next(one for one in actions() if one.task == "calc/far")
    assert (one.hand, one.tools, one.both, one.beneficial) == (4, 2, 2, 1)
