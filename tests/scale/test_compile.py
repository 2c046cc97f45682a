"""`gui-rl compile`: what it refuses before computing anything, the sizes it names, and what it writes."""

import importlib.util
import json

import jax
import pytest

from gui_rl import cli
from gui_rl.errors import UserError
from gui_rl.scale import aot, report
from gui_rl.scale import compile as compile_module
from gui_rl.scale.arithmetic import Roofline, param_count
from gui_rl.scale.chips import CHIPS, GIB, Topology, sizes, topology
from gui_rl.scale.compile import CompileOptions, Estimate, Outcome, plan, run


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"model": "qwen3-vl-9b"}, ["qwen3-vl-9b", "qwen3-vl-8b"]),
        ({"topology": "v7:4x4x4"}, ["v7:4x4x4", "v4, v5e, v5p, v6e"]),
        ({"topology": "v5p:4x4"}, ["v5p:4x4", "AxBxC"]),
        ({"topology": "v6e:3x4"}, ["v6e:3x4", "even"]),
        ({"topology": "v6e:16x32"}, ["512 chips", "at most 256", "v6e:8x16, v6e:16x16"]),
        ({"task": "train"}, ["train", "sft, rl, sample"]),
        ({"optimizer": "sgd"}, ["sgd", "adamw, muon"]),
        ({"teachers": ("qwen3-vl-32b",)}, ["teachers", "sft"]),
        ({"task": "rl", "teachers": ("nobody",)}, ["nobody", "qwen3-vl-32b"]),
        ({"patches": 10}, ["patches 10", "4"]),
        ({"tensor": 16}, ["tensor 16", "8 key-value heads"]),
        ({"seq": 0}, ["seq", "0"]),
    ],
)
def test_mistakes_are_named_before_anything_is_computed(changed, says, monkeypatch):
    monkeypatch.setattr(aot, "described_devices", lambda topology: pytest.fail("computed"))
    with pytest.raises(UserError) as error:
        report.main(CompileOptions(**changed))
    for words in says:
        assert words in str(error.value)


def test_a_missing_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"libtpu.*\[tpu\]"):
        report.main(CompileOptions())


def test_an_unknown_option_ends_with_code_2(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["compile", "--topologie", "v5p:2x2x1"])
    assert end.value.code == 2 and "topologie" in capsys.readouterr().err


def test_sizes_double_from_one_host_to_the_largest_slice():
    for chip in CHIPS.values():
        chips = [size.chips for size in sizes(chip)]
        assert chips == [4 * 2**power for power in range(len(chips))] and chips[-1] <= chip.largest < 2 * chips[-1]
        assert all(topology(size.name) == size for size in sizes(chip))
    assert [size.name for size in sizes(CHIPS["v5p"])][:5] == [
        "v5p:2x2x1",
        "v5p:2x2x2",
        "v5p:2x2x4",
        "v5p:2x4x4",
        "v5p:4x4x4",
    ]


def test_options_become_a_plan():
    made = plan(CompileOptions(seq=4096, topology="v6e:8x16"))
    assert (made.patches, made.tensor, made.topology.chips) == (8192, 1, 128)
    assert (made.cfg.param_dtype, made.cfg.dtype, made.cfg.scan_layers) == ("float32", "bfloat16", True)
    sampling = plan(CompileOptions(model="qwen3-vl-32b", task="sample", topology="v6e:8x16"))
    assert sampling.cfg.param_dtype == "bfloat16" and sampling.tensor == 4  # 67 GB of weights, 16 GiB a chip for them


def outcome(used: float, fixed: float, **changed) -> Outcome:
    """A compiled train step that needs `used` GiB a chip, of which `fixed` are state."""
    made = plan(CompileOptions(model="qwen3-vl-32b", topology="v5p:2x4x4", **changed))
    measured = aot.Measured("train step", fixed * GIB, (used - fixed) * GIB, 0.0, {"all-gather": 6e9}, 0, 1.5)
    return Outcome(made, 32, 1, (Estimate(measured, 1e18, 2e18, Roofline(4.0, 1.0, 2.0)),), fixed * GIB)


def test_what_does_not_fit_is_refused_with_sizes_that_would():
    too_much = outcome(used=120, fixed=60)
    assert not too_much.fits
    # 95 GiB a chip: twice the chips leave 30 + 60; rows may grow to 8192 * 35 / 60 tokens.
    assert report.larger(too_much) == ["v5p:4x4x4"] and report.shorter(too_much) == [4096]
    text = report.refusal(too_much)
    assert "120.0 GiB" in text and "--topology v5p:4x4x4" in text and "--seq 4096" in text
    hopeless = outcome(used=300, fixed=100)
    assert report.larger(hopeless) == [] and report.shorter(hopeless) == [] and "--tensor" in report.refusal(hopeless)


def test_the_command_ends_with_code_2_and_still_writes_its_figures(monkeypatch, capsys, tmp_path):
    for used, code in ((120, 2), (80, 0)):
        made = outcome(used=used, fixed=60, out=tmp_path / "figures" / "x.json")
        monkeypatch.setattr(report, "run", lambda options, made=made: made)
        if code:
            with pytest.raises(SystemExit) as end:
                cli.main(["compile", "--out", str(made.plan.options.out)])
            assert end.value.code == code and "needs 120.0 GiB" in capsys.readouterr().err
        else:
            cli.main(["compile", "--out", str(made.plan.options.out)])
            assert "train step" in capsys.readouterr().out
        written = json.loads(made.plan.options.out.read_text())
        figures = {figure["what"]: figure["value"] for figure in written["figures"]}
        assert figures["fits"] is (code == 0) and figures["train step: memory"] == pytest.approx(used)
        assert figures["train step: received, all-gather"] == 6.0
        # 1e18 FLOPs needed on 32 chips of 459e12 a second, in 4 s or, one after the other, 7 s.
        assert figures["train step: MFU, best"] == pytest.approx(100 * 1e18 / (32 * 459e12) / 4)
        assert figures["train step: MFU, worst"] == pytest.approx(100 * 1e18 / (32 * 459e12) / 7)
        assert {"name", "revision", "machine", "options"} <= set(written)


@pytest.mark.parametrize(
    ("options", "programs"),
    [
        (CompileOptions(model="gui-tiny", task="sample", seq=64, patches=80), ["prefill", "decoding step"]),
        (
            CompileOptions(model="gui-tiny", task="rl", teachers=("gui-tiny",) * 2, seq=64, patches=80),
            ["train step", "score by gui-tiny", "score by gui-tiny"],
        ),
    ],
)
def test_the_programs_of_a_task_are_lowered(options, programs, monkeypatch):
    """Up to the compiler, on this machine's one device, which is taken for a slice of one chip."""
    monkeypatch.setattr(compile_module, "topology", lambda name: Topology(CHIPS["v5p"], (1, 1, 1)))
    monkeypatch.setattr(aot, "described_devices", lambda topology: jax.devices()[:1])
    monkeypatch.setattr(aot, "measure", lambda name, lowered, *_: aot.Measured(name, arguments=len(lowered.as_text())))
    made = run(options)
    assert [estimate.measured.name for estimate in made.estimates] == programs and made.fits
    assert all(estimate.measured.arguments > 0 and estimate.needed > 0 for estimate in made.estimates)
    params = param_count(made.plan.cfg)
    # Sampling keeps 16-bit weights; training 32-bit ones, two moments and a gradient, and two 32-bit teachers.
    assert made.fixed == pytest.approx(params * (2 if options.task == "sample" else 16 + 8), rel=1e-4)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Ran out of memory in memory space hbm. Used 107.50G of 95.74G hbm. Exceeded hbm", 107.5 * GIB),
        ("Used 512.00M of 16.00G hbm", GIB / 2),
        ("the total memory required for HLO temporaries (63.38G) exceeds available HBM (31.25G).", 73.38 * GIB),
        ("Mosaic failed to compile", None),
    ],
)
def test_the_compiler_s_refusal_is_read(message, expected):
    assert aot.needed_bytes(message, held=10 * GIB) == pytest.approx(expected)
