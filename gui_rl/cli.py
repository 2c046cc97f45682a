"""The `gui-rl` command.

    gui-rl quickstart [--resume]            the whole chain: demonstrations, SFT, RL, evaluation, report
    gui-rl run NAME [--resume] [--option …]  an experiment by name (experiments/NAME.py)
    gui-rl env serve|check|tasks             environment servers (check: the tasks; check URL: a server's protocol)
    gui-rl flywheel tasks|collect|record|grounding|import|export   tasks, trajectories and datasets
    gui-rl eval CHECKPOINT|URL               success of a policy in live environments, chance beside it
    gui-rl eval grounding CHECKPOINT|URL [FILE]   hits on a set like ScreenSpot's; --zoom asks twice
    gui-rl policy serve CHECKPOINT           a policy behind OpenAI's chat completions
    gui-rl report RUN                        (re)write RUN/report.html
    gui-rl view RUN                          a run's trajectories in the browser
    gui-rl sweep FILE --local N              the grid of a wandb sweep file, on this machine
    gui-rl compile --model … --topology …    memory and step time on a slice of TPUs that is not there
    gui-rl convert SOURCE TARGET             Hugging Face checkpoint to Orbax, or back

Whatever the user can put right ends as one line and exit code 2.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pkgutil
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from gui_rl.errors import UserError
from gui_rl.model.allocator import keep_freed_memory

USAGE = __doc__


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command; exits 0, 2 on a user's mistake, 130 on Ctrl-C."""
    try:
        _dispatch(list(sys.argv[1:] if arguments is None else arguments))
    except UserError as error:
        print(f"gui-rl: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("gui-rl: interrupted; `--resume` goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)


def _dispatch(arguments: list[str]) -> None:
    commands: dict[str, Callable[[list[str]], Any]] = {
        "quickstart": lambda rest: _run(["quickstart", *rest]),
        "run": _run,
        "env": _env,
        "flywheel": _flywheel,
        "eval": _eval,
        "policy": _policy,
        "report": _report,
        "view": _view,
        "sweep": _sweep,
        "compile": _compile,
        "convert": _convert,
    }
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return
    name, *rest = arguments
    if name not in commands:
        raise UserError(f"no command is called {name!r}: there are {', '.join(commands)}")
    commands[name](rest)


def parse(settings: Any, arguments: Sequence[str], command: str) -> Any:
    """A dataclass from command-line options.

    Raises UserError, on one line, for an unknown option or a value that does not fit.
    """
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            return tyro.cli(settings, args=list(arguments), prog=f"gui-rl {command}")
    except SystemExit as end:
        if not end.code:
            raise
    text = re.sub(r"\x1b\[[0-9;]*m", "", words.getvalue())
    lines = [line.strip("│╭╮╰╯─| \t") for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(("Parsing error", "For full helptext"))]
    message = re.split(r"(?<=[.!]) |  +", " ".join(said))[0] if said else "the options do not parse"
    raise UserError(f"{message} (see `gui-rl {command} --help`)")


def experiments() -> dict[str, str]:
    """Names of the experiments and their modules."""
    package = importlib.import_module("experiments")
    found = {}
    for module in pkgutil.walk_packages(package.__path__, "experiments."):
        if not module.ispkg and module.name.removeprefix("experiments.") not in package.SHARED:
            found[module.name.removeprefix("experiments.").replace(".", "/")] = module.name
    return found


def _run(arguments: list[str]) -> None:
    known = experiments()
    if not arguments or arguments[0].startswith("-"):
        raise UserError(f"name an experiment: there are {', '.join(known)}")
    name, *rest = arguments
    if name not in known:
        raise UserError(f"no experiment is called {name!r}: there are {', '.join(known)}")
    module = importlib.import_module(known[name])
    resume = "--resume" in rest
    config = parse(module.Config, [word for word in rest if word != "--resume"], f"run {name}")
    keep_freed_memory()
    module.main(config, resume=resume)


def _env(arguments: list[str]) -> None:
    names = ("serve", "check", "tasks")
    name, *rest = arguments or [""]
    if name == "serve":
        from env_servers.server import ServerConfig, serve

        serve(parse(ServerConfig, rest, "env serve"))
    elif name == "check":
        from env_servers import check, conformance

        if rest and not rest[0].startswith("-"):
            url, *rest = rest
            sys.exit(not conformance.run(url, parse(conformance.ConformanceConfig, rest, "env check URL")))
        sys.exit(not check.run(parse(check.CheckConfig, rest, "env check")))
    elif name == "tasks":
        from env_servers.suites import SUITES, tasks

        options = parse(TasksOptions, rest, "env tasks")
        if options.suite not in SUITES:
            raise UserError(f"no suite is called {options.suite!r}: there are {', '.join(SUITES)}")
        for task in tasks(options.suite).values():
            print(f"{task.id:40} {'+'.join(task.devices):14} {task.max_steps:3} steps  {task.instruction_template}")
    else:
        raise UserError(f"`gui-rl env` needs one of {', '.join(names)}, not {name!r}")


def _flywheel(arguments: list[str]) -> None:
    from gui_rl.commands import flywheel

    flywheel.main(arguments, parse)


@dataclass(frozen=True)
class TasksOptions:
    """List the tasks of a suite: its devices, steps and sentence.

    suite: virtual (small screens), memory (values that leave the screen), relay (two devices in one task), drills
      (primitive actions), apps (everyday size), miniwob, miniwob25, or, with something absent, infeasible,
      infeasible-apps, infeasible-memory.
    """

    suite: str = "virtual"


def _eval(arguments: list[str]) -> None:
    from gui_rl.evaluate import command, grounding

    if arguments[:1] == ["grounding"]:
        asked = parse(grounding.GroundingEvalOptions, arguments[1:], "eval grounding")
        keep_freed_memory()
        grounding.show(grounding.run(asked))
        return
    options = parse(command.EvalOptions, arguments, "eval")
    keep_freed_memory()
    command.show(command.run(options))


def _policy(arguments: list[str]) -> None:
    name, *rest = arguments or [""]
    if name != "serve":
        raise UserError(f"`gui-rl policy` needs serve, not {name!r}")
    try:
        from gui_rl.rollout.serve import ServeConfig, serve
    except ModuleNotFoundError as error:
        raise UserError(f"serving needs {error.name}: install gui-rl[env]") from None
    serve(parse(ServeConfig, rest, "policy serve"))


@dataclass(frozen=True)
class ReportOptions:
    """Write a run's report.html."""

    run: tyro.conf.Positional[Path]


def _report(arguments: list[str]) -> None:
    from gui_rl.report.report import write_report

    print(write_report(parse(ReportOptions, arguments, "report").run))


def _view(arguments: list[str]) -> None:
    from gui_rl.report import viewer

    viewer.main(parse(viewer.ViewOptions, arguments, "view"))


def _sweep(arguments: list[str]) -> None:
    from gui_rl.commands import sweep

    sweep.main(parse(sweep.SweepOptions, arguments, "sweep"))


def _compile(arguments: list[str]) -> None:
    from gui_rl.scale import compile, report

    report.main(parse(compile.CompileOptions, arguments, "compile"))


@dataclass(frozen=True)
class ConvertOptions:
    """A Hugging Face checkpoint becomes an Orbax one (step 0, parameters only), and an Orbax one a Hugging Face one.

    Attributes:
      source: folder with config.json and safetensors, or with an Orbax checkpoint, like a run's `checkpoints`.
      target: folder to write; a Hugging Face checkpoint in it is replaced, an Orbax one is an error.
      model: configuration of an Orbax source: a preset's name, or a folder with config.json; by default the source's.
      dtype: of the stored values of a Hugging Face target, like bfloat16; by default the configuration's.
    """

    source: tyro.conf.Positional[Path]
    target: tyro.conf.Positional[Path]
    model: str = ""
    dtype: str = ""


def _convert(arguments: list[str]) -> None:
    options = parse(ConvertOptions, arguments, "convert")
    import jax
    import orbax.checkpoint as ocp

    from gui_rl.learn import checkpoint
    from gui_rl.model import hf
    from gui_rl.model.config import PRESETS
    from gui_rl.model.params import abstract_params

    if checkpoint.steps(options.source):
        cfg = PRESETS.get(options.model) or hf.read_config(options.model or options.source)
        here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        like = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=here), abstract_params(cfg)
        )
        hf.save(options.target, cfg, checkpoint.restore_params(options.source, like), options.dtype or None)
    else:
        cfg, params = hf.load(options.source)
        if checkpoint.steps(options.target):
            raise UserError(f"{options.target} holds a checkpoint already: choose an empty folder")
        with ocp.CheckpointManager(options.target.absolute()) as manager:
            manager.save(0, args=ocp.args.Composite(params=ocp.args.StandardSave(params)))
        hf.write_config(options.target, cfg)
    print(options.target)


if __name__ == "__main__":
    main()
