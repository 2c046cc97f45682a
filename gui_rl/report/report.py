"""The report of a run. In: runs/NAME (gui_rl.report.runs). Out: one file, report.html, that needs nothing else.

The page answers in this order: how well does the policy do now and before (headline, success), how did it get there
(learning curves, groups), what did it cost (time and memory), what does it do (trajectories), and with what was all
this made (configuration, versions, every metric). It holds no script and loads nothing.
"""

import json
import os
from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from gui_rl.report import charts
from gui_rl.report.charts import Band, Segment, Series
from gui_rl.report.progress import duration_text
from gui_rl.report.runs import FAMILIES, Run, read_run
from gui_rl.report.trajectories import select, trajectory_card

POLICIES = {"random": "Random", "sft": "After SFT", "rl": "After RL", "script": "Script"}
GROUPS = {
    "kept": "The subsample holds successes and failures: used as drawn.",
    "swapped": "It held one kind only; one trajectory was exchanged for one of the other kind from the pool.",
    "empty": "The whole pool is of one kind: there is nothing to compare, so nothing to learn.",
}
AGREEMENT = {"agreement_tight": "0.999 to 1.002", "agreement_1pct": "1 %", "agreement_5pct": "5 %"}
STAGES = {"pretrain": "Pre-training", "sft": "SFT", "rl": "RL"}


def write_report(run_dir: str | os.PathLike) -> Path:
    """Writes RUN/report.html, for a finished run or for what a running one has so far; returns its path.

    Raises:
        UserError: the folder is not a run's, or one of its files does not parse.
    """
    run = read_run(run_dir)
    assets = resources.files("gui_rl.report") / "assets"
    page = Template((assets / "report.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{run.name} · gui_rl"),
        style=(assets / "report.css").read_text(encoding="utf-8"),
        name=escape(run.name),
        facts=escape(" · ".join(_facts(run))),
        sections="\n".join(
            part(run)
            for part in (_headline, _success, _curves, _groups, _costs, _trajectories, _made_with, _all_metrics)
        ),
        footer=escape("Intervals are 95 % intervals over episodes. Made from the files beside this page."),
    )
    path = run.path / "report.html"
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(page, encoding="utf-8")
    os.replace(temporary, path)
    return path


def _facts(run: Run) -> list[str]:
    revision = run.manifest.get("revision") or {}
    facts = [f"started {run.manifest['started']}"] if "started" in run.manifest else []
    if revision:
        facts.append(f"revision {revision['commit'][:10]}" + (" with local changes" if revision.get("dirty") else ""))
    if run.result is None:
        facts.append("not finished yet: this shows what was written so far")
    return facts


def _section(title: str, lead: str, body: str) -> str:
    lead = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    return f"<section><h2>{escape(title)}</h2>{lead}{body}</section>"


def _empty(text: str) -> str:
    return f'<p class="empty">{escape(text)}</p>'


def _families(run: Run) -> dict[str, dict]:
    found = (run.result or {}).get("families") or {}
    return {family: found[family] for family in FAMILIES if family in found}


def _mean(families: Mapping[str, dict], policy: str) -> float | None:
    values = [scores[policy]["success"] for scores in families.values() if policy in scores]
    return sum(values) / len(values) if values and len(values) == len(families) else None


def _headline(run: Run) -> str:
    families = _families(run)
    before, after = _mean(families, "sft"), _mean(families, "rl")
    cells = []
    if before is not None:
        cells.append(("", charts.percent(before), "success after SFT, mean of the families"))
    if after is not None:
        cells.append(("", charts.percent(after), "success after RL, on seeds never trained on"))
    if before is not None and after is not None:
        cells.append(("gain", f"{100 * (after - before):+.0f}", "points from RL"))
    if run.result and "minutes" in run.result:
        cells.append(("", f"{run.result['minutes']:.1f}", "minutes"))
    if run.result and "peak_memory_gb" in run.result:
        cells.append(("", f"{run.result['peak_memory_gb']:.1f}", "GB of memory at most"))
    return (
        '<div class="headline">'
        + "".join(
            f'<div class="{kind}"><b>{escape(value)}</b><span>{escape(text)}</span></div>'
            for kind, value, text in cells
        )
        + "</div>"
    )


def _success(run: Run) -> str:
    families = _families(run)
    if not families:
        return _section("Success on held-out seeds", "", _empty("The final evaluation has not run yet."))
    cards = "".join(
        f'<div class="card"><h3 style="--tone: var(--{family})">{family}</h3><div class="scores">'
        + "".join(_score_row(policy, scores[policy]) for policy in POLICIES if policy in scores)
        + "</div></div>"
        for family, scores in families.items()
    )
    heads = "".join(f"<th>{escape(name)}</th>" for name in POLICIES.values())
    rows = "".join(_score_line(family, scores) for family, scores in families.items())
    means = "".join(
        f"<td>{charts.percent(mean)}</td>" if (mean := _mean(families, policy)) is not None else "<td>–</td>"
        for policy in POLICIES
    )
    table = (
        f'<div class="card scroll" style="margin-top:16px"><table><thead><tr><th>Family</th>{heads}</tr></thead>'
        f"<tbody>{rows}<tr><td>mean</td>{means}</tr></tbody></table></div>"
    )
    lead = (
        "Share of episodes solved, by environment state alone, on seeds that no stage was trained on. "
        "The dot is the rate, the bar its 95 % interval; actions are sampled, as in training."
    )
    return _section("Success on held-out seeds", lead, f'<div class="grid3">{cards}</div>{table}')


def _score_row(policy: str, score: dict) -> str:
    at, low, high = (100 * score.get(key, score["success"]) for key in ("success", "low", "high"))
    return (
        f'<span class="name">{escape(POLICIES[policy])}</span><span class="track" style="--tone: var(--{policy})">'
        f'<i style="left:{low:.1f}%;width:{high - low:.1f}%"></i><b style="left:{at:.1f}%"></b></span>'
        f'<span class="value">{charts.percent(score["success"])}</span>'
    )


def _score_line(family: str, scores: dict) -> str:
    """A table row; the number of episodes stands once, at the family, where it is the same for all policies."""
    counts = {score.get("episodes") for score in scores.values()}
    shared = f"<small>{counts.pop()} episodes</small>" if len(counts) == 1 and None not in counts else ""
    cells = "".join(_score_cell(scores.get(policy), episodes=not shared) for policy in POLICIES)
    return f"<tr><td>{family}{shared}</td>{cells}</tr>"


def _score_cell(score: dict | None, episodes: bool) -> str:
    if score is None:
        return "<td>–</td>"
    greedy = f'<span class="greedy">greedy {_score_text(score["greedy"])}</span>' if score.get("greedy") else ""
    count = f"<small>{score['episodes']} episodes</small>" if episodes and "episodes" in score else ""
    return f"<td>{_score_text(score)}{count}{greedy}</td>"


def _score_text(score: dict) -> str:
    interval = f"<small>{100 * score['low']:.0f}–{100 * score['high']:.0f}</small>" if "low" in score else ""
    return charts.percent(score["success"]) + interval


def _bands(run: Run, stage: str) -> tuple[Band, ...]:
    return tuple(Band(p.start, p.stop, _tone(p.family), f"RL on {p.family}") for p in run.phases(stage))


def _tone(family: str) -> str:
    return family if family in FAMILIES else "mix"


def _legend(items: list[tuple[str, str, str]]) -> str:
    entries = "".join(
        f'<li class="{kind}" style="--tone: var(--{colour})">{escape(text)}</li>' for kind, colour, text in items
    )
    return f'<ul class="legend">{entries}</ul>'


def _card(title: str, body: str, colour: str | None = None) -> str:
    style = f' style="--tone: var(--{colour})"' if colour else ' class="plain"'
    return f'<div class="card"><h3{style}>{escape(title)}</h3>{body}</div>'


def _curves(run: Run) -> str:
    stages = [stage for stage in run.stages() if stage in STAGES]
    cards = []
    for family in FAMILIES:
        name = f"eval/{family}/success"
        segments = [
            Segment(
                f"{STAGES[stage]} steps",
                (Series(f"{family}, {STAGES[stage]}", run.series(stage, name), family, dots=True),),
                _bands(run, stage),
                share=1.6 if stage == "rl" else 1.0,
            )
            for stage in stages
            if run.series(stage, name)
        ]
        if segments:
            label = f"{family}: success on held-out seeds over training"
            cards.append(_card(family, charts.line_chart(segments, label, (0.0, 1.0), charts.percent), family))
    trained = {phase.family for stage in stages for phase in run.phases(stage)}
    families = [family for family in (*FAMILIES, "mix") if family in trained]
    phases = [("shade", _tone(family), f"RL on {family}") for family in families]
    parts = []
    if cards:
        parts.append(f'<div class="grid3">{"".join(cards)}</div>' + (_legend(phases) if phases else ""))
    more = []
    for stage in stages:
        if loss := run.series(stage, "loss"):
            segment = Segment("", (Series("loss", loss, stage),), _bands(run, stage))
            more.append(_card(f"{STAGES[stage]} loss", charts.line_chart([segment], f"{STAGES[stage]} loss")))
    if rollout := run.series("rl", "rollout/success"):
        segment = Segment("", (Series("trained on", rollout, "rl"),), _bands(run, "rl"))
        chart = charts.line_chart([segment], "success of the trajectories trained on", (0.0, 1.0), charts.percent)
        more.append(_card("Success of the trajectories trained on", chart))
    agreed = {text: run.series("rl", name) for name, text in AGREEMENT.items()}
    if all(agreed.values()):
        tones = ("rl", "sft", "mix")
        lines = tuple(Series(text, points, tone) for (text, points), tone in zip(agreed.items(), tones, strict=True))
        chart = charts.line_chart([Segment("", lines, _bands(run, "rl"))], "agreement", (0.0, 1.0), charts.percent)
        legend = _legend([("solid", tone, text) for text, tone in zip(agreed, tones, strict=True)])
        more.append(_card("Tokens whose ratio of trainer to sampler is within", chart + legend))
    if more:
        parts.append(f'<div class="grid3" style="margin-top:16px">{"".join(more)}</div>')
    lead = (
        "Success on held-out seeds while training, by device family, over the steps of each stage. "
        "A shade marks the family that the RL phase trains: phases take turns."
    )
    return _section("Learning curves", lead, "".join(parts) or _empty("Nothing was logged yet."))


def _groups(run: Run) -> str:
    columns = {name: dict(run.series("rl", f"groups/{name}")) for name in GROUPS}
    steps = sorted(step for step in columns["kept"] if all(columns[name].get(step) is not None for name in GROUPS))
    totals = (run.result or {}).get("groups") or {}
    if not steps and not totals:
        return _section("MRPO groups", "", _empty("No RL step was logged yet."))
    body = ""
    if steps:
        layers = [(name, name, [columns[name][step] for step in steps]) for name in GROUPS]
        body = _card("Shares at each RL step", charts.stacked_chart(steps, layers, "shares of groups by RL step"))
    rows = "".join(
        f'<dt class="key" style="--tone: var(--{name})">{name}'
        + (f"<b>{100 * totals[name]:.1f}%</b>" if name in totals else "")
        + f"</dt><dd>{escape(text)}</dd>"
        for name, text in GROUPS.items()
    )
    body += _card("Shares of the whole run" if totals else "What the shares mean", f'<dl class="keys">{rows}</dl>')
    lead = "Each group that RL learns from is a subsample of a larger pool of trajectories of one task and seed."
    return _section("MRPO groups", lead, f'<div class="grid3">{body}</div>')


def _costs(run: Run) -> str:
    cards = []
    if seconds := (run.result or {}).get("seconds"):
        cards.append(_card("Time by part of the run", _parts(seconds)))
    for stage in run.stages():
        names = [name for name in run.names(stage) if name.startswith("seconds/")]
        sums = {name.removeprefix("seconds/"): sum(y or 0.0 for _, y in run.series(stage, name)) for name in names}
        if sums:
            cards.append(_card(f"Time within {STAGES.get(stage, stage)}", _parts(sums)))
    memory = [
        Segment(
            f"{STAGES.get(stage, stage)} steps", (Series("memory", run.series(stage, "memory_gb"), _stage_tone(stage)),)
        )
        for stage in run.stages()
        if run.series(stage, "memory_gb")
    ]
    if memory:
        top = max(y for s in memory for line in s.series for _, y in line.points if y is not None)
        chart = charts.line_chart(memory, "memory in GB", (0.0, 1.1 * top), height=190)
        cards.append(_card("Memory, GB", chart))
    body = f'<div class="grid3">{"".join(cards)}</div>' if cards else _empty("No times were logged yet.")
    return _section("Time and memory", "", body)


def _stage_tone(stage: str) -> str:
    return stage if stage in STAGES else "mix"


def _parts(seconds: Mapping[str, float]) -> str:
    tones = ("sft", "rl", "mobile", "web", "desktop", "script", "random")
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    total = sum(seconds.values()) or 1.0
    tone = {name: tones[index % len(tones)] for index, (name, _) in enumerate(ordered)}
    bar = "".join(
        f'<i style="flex:{value / total:.4f};--tone:var(--{tone[name]})" title="{escape(name)}"></i>'
        for name, value in ordered
    )
    legend = [("solid", tone[name], f"{name} {duration_text(value)} ({value / total:.0%})") for name, value in ordered]
    return f'<div class="parts">{bar}</div>{_legend(legend)}'


def _trajectories(run: Run) -> str:
    chosen = select(run.trajectories)
    if not chosen:
        return _section("Trajectories", "", _empty("No trajectory was stored yet."))
    lead = (
        "What the policy saw and did. Ring and cross: where it clicked; arrow: a drag or swipe; dashed: the target, "
        f"where it is known. {len(chosen)} of {len(run.trajectories)} stored trajectories, successes beside failures."
    )
    return _section("Trajectories", lead, "".join(trajectory_card(episode) for episode in chosen))


def _made_with(run: Run) -> str:
    manifest = run.manifest
    machine = manifest.get("machine") or {}
    font = manifest.get("font") or {}
    facts = {
        "Machine": ", ".join(
            part
            for part in (
                f"{machine['cores']} cores" if "cores" in machine else "",
                f"{machine['memory_gb']} GB" if "memory_gb" in machine else "",
                ", ".join(machine.get("accelerators") or ()),
            )
            if part
        ),
        "Browser": manifest.get("chromium"),
        "Font": f"{font['family']} ({font['file']})" if font.get("file") else None,
        "Versions": ", ".join(f"{name} {version}" for name, version in (manifest.get("versions") or {}).items()),
        "Seeds": json.dumps(manifest["seeds"], ensure_ascii=False) if manifest.get("seeds") else None,
        "Resumed": f"{len(manifest['resumes'])} times" if manifest.get("resumes") else None,
    }
    rows = "".join(f"<dt>{name}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items() if value)
    config = escape(json.dumps(run.config, indent=2, ensure_ascii=False))
    body = f'<div class="card"><dl>{rows}</dl></div>' if rows else _empty("This run has no manifest.json.")
    body += f'<details style="margin-top:14px"><summary>Configuration</summary><pre>{config}</pre></details>'
    return _section("Made with", "", body)


def _all_metrics(run: Run) -> str:
    groups = []
    for stage in run.stages():
        names = [name for name in run.names(stage) if any(y is not None for _, y in run.series(stage, name))]
        cards = "".join(
            _card(
                name,
                charts.line_chart(
                    [Segment("", (Series(name, run.series(stage, name), _stage_tone(stage)),), _bands(run, stage))],
                    f"{stage} {name}",
                    height=150,
                ),
            )
            for name in names
        )
        title = escape(f"{STAGES.get(stage, stage)}: {len(names)} metrics")
        groups.append(f'<details><summary>{title}</summary><div class="grid3">{cards}</div></details>')
    return _section("Every metric", "", "".join(groups) or _empty("Nothing was logged yet."))
