"""Rebuild the steps of a plan from corrected roles; all else stays as somebody wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.plan import Plan
from sfumato.plan.toml_reader import parse
from sfumato.plan.toml_writer import write_measure, write_step, write_target
from sfumato.suggestion.first_plan import first_plan

Status = Literal["yours", "unchanged", "new", "removed"]
_HEADER = re.compile(r"""^[ \t]*(\[\[?)[ \t]*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))""")


@dataclass(frozen=True)
class UpdatedStep:
    """A step of the updated plan, or one that is no longer in it.

    Parameters
    ----------
    step : the method.
    status : "yours" (kept, since somebody wrote or changed it), "unchanged", "new" or "removed".
    lines : how it stands in the old file.
    """

    step: Method
    status: Status
    lines: list[str] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class UpdatedPlan:
    """The new text of a plan, and what became of its steps and targets."""

    text: str = field(repr=False)
    steps: tuple[UpdatedStep, ...]
    new_targets: tuple[str, ...]

    def describe(self) -> list[str]:
        """A line for each step and new target."""
        says = {
            "yours": "stays: it is not as the first plan had it",
            "unchanged": "stays",
            "new": "is new",
            "removed": "is gone: no role asks for it",
        }
        lines = [f"Step {item.step.name}: {says[item.status]}." for item in self.steps]
        return lines + [f"Target {target}: is new." for target in self.new_targets]

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "steps": [{"method": item.step.name, "status": item.status} for item in self.steps],
            "new_targets": list(self.new_targets),
        }


def update_plan(text: str, data: Dataset, *, name: str = "plan", folder: Path) -> UpdatedPlan:
    """The text of a plan, with the steps that its roles ask for now.

    Roles, kinds, reading, release, comments and targets stay to the letter. A step is replaced only
    if it is as the first plan suggests it without any correction; a step that somebody wrote or
    changed stays, and stands for the one of its kind that would be new.

    Parameters
    ----------
    text : the plan, as it stands in the file.
    data : the records, read as the plan says.
    name : of the plan, for messages.
    folder : where the plan lies, for hierarchies.
    """
    plan = parse(text, name=name, folder=folder).require_one_table()
    newline = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    suggested = first_plan(data, profile=plan.profile)
    same = suggested.schema == plan.schema
    corrected = suggested if same else first_plan(data, plan.schema, profile=plan.profile)
    blocks = _split_blocks(text)
    of_steps = _gather_steps(blocks)
    if len(of_steps) != len(plan.steps):
        raise _cannot_update(name)
    steps = _merge_steps(plan, suggested, corrected, of_steps)
    taken = {target.name for target in (*plan.targets, *suggested.targets)}
    targets = [target for target in corrected.targets if target.name not in taken]
    evaluate = _merge_measures(plan, suggested, corrected)
    new_text = _write_blocks(blocks, steps, plan, evaluate)
    new_text = _add_targets(new_text, [write_target(item, comments=True) for item in targets])
    written = new_text.replace("\n", newline)
    updated = UpdatedPlan(written, tuple(steps), tuple(item.describe() for item in targets))
    expected = Plan(
        schema=plan.schema,
        steps=[item.step for item in steps if item.status != "removed"],
        targets=[*plan.targets, *targets],
        evaluate=evaluate,
        read=plan.read,
        release=plan.release,
        tiers=plan.tiers,
        tier=plan.tier,
        profile=plan.profile,
    )
    _require_same(expected, new_text, name, folder)
    return updated


def _merge_steps(
    plan: Plan, suggested: Plan, corrected: Plan, of_steps: list[list[str]]
) -> list[UpdatedStep]:
    """The steps of the plan and those that its roles ask for, in one order."""
    wanted = list(corrected.steps)
    merged: list[UpdatedStep] = []
    for step, lines in zip(plan.steps, of_steps, strict=True):
        if step in wanted:
            wanted.remove(step)
            merged.append(UpdatedStep(step, "unchanged", lines))
        elif step in suggested.steps:
            merged.append(UpdatedStep(step, "removed", lines))
        else:
            same = [other for other in wanted if _is_same_kind(step, other)]
            if same:
                wanted.remove(same[0])
            merged.append(UpdatedStep(step, "yours", lines))
    for step in wanted:
        later = corrected.steps[corrected.steps.index(step) + 1 :]
        positions = (
            position
            for position, item in enumerate(merged)
            if item.status != "removed" and any(_is_same_kind(item.step, other) for other in later)
        )
        merged.insert(next(positions, len(merged)), UpdatedStep(step, "new"))
    return merged


def _merge_measures(plan: Plan, suggested: Plan, corrected: Plan) -> dict[str, Measure]:
    """The measures of the plan; those that are as suggested follow the roles."""
    merged = dict(plan.evaluate)
    for label in {**suggested.evaluate, **corrected.evaluate}:
        if plan.evaluate.get(label) == suggested.evaluate.get(label):
            merged.pop(label, None)
            if label in corrected.evaluate:
                merged[label] = corrected.evaluate[label]
    return merged


def _is_same_kind(first: Method, second: Method) -> bool:
    """Whether two steps do the same work: one method, on variables by role or by name."""
    by_role = [getattr(step, "variables", None) is None for step in (first, second)]
    return first.name == second.name and by_role[0] == by_role[1]


# The text ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TextBlock:
    """The lines of a table, with the comments and empty lines before it.

    Parameters
    ----------
    section : the first word of its header; "" for what comes before all tables.
    label : the rest of the header.
    lines : all of them.
    begins_step : whether it is the header of a step.
    """

    section: str
    label: str
    lines: list[str]
    begins_step: bool = False


def _split_blocks(text: str) -> list[_TextBlock]:
    blocks = [_TextBlock("", "", [])]
    for line in text.split("\n"):
        header = _HEADER.match(line)
        if header:
            before = blocks[-1].lines
            count = len(before)
            while count and (not before[count - 1].strip() or before[count - 1].lstrip()[0] == "#"):
                count -= 1
            section = next(part for part in header.groups()[1:] if part is not None)
            label = line[header.end() :].strip().lstrip(".").partition("]")[0].strip().strip("\"'")
            begins = section == "steps" and header[1] == "[[" and not label
            blocks.append(_TextBlock(section, label, [*before[count:], line], begins))
            del before[count:]
        else:
            blocks[-1].lines.append(line)
    return blocks


def _gather_steps(blocks: list[_TextBlock]) -> list[list[str]]:
    """The lines of each step, tables within it included."""
    steps: list[list[str]] = []
    for block in blocks:
        if block.begins_step:
            steps.append(list(block.lines))
        elif block.section == "steps" and steps:
            steps[-1] += block.lines
    return steps


def _write_blocks(
    blocks: list[_TextBlock], steps: list[UpdatedStep], plan: Plan, evaluate: Mapping[str, Measure]
) -> str:
    """All blocks as they were, but for steps and measures that are written anew."""
    lines: list[str] = []
    first = next((i for i, block in enumerate(blocks) if block.section == "steps"), None)
    if first is None:
        # Before what must hold, or at the end.
        later = ("targets", "evaluate", "release")
        first = next((i for i, b in enumerate(blocks) if b.section in later), len(blocks))
    for position, block in enumerate([*blocks, _TextBlock("end", "", [])]):
        if position == first:
            lines += _write_steps(steps, block)
        if block.section == "steps":
            continue
        label = block.label if block.section == "evaluate" else ""
        if label and evaluate.get(label) == plan.evaluate.get(label):
            lines += block.lines
        elif label in evaluate:
            header = next(i for i, line in enumerate(block.lines) if _HEADER.match(line))
            written = write_measure(label, evaluate[label], comments=True)
            lines += [*block.lines[:header], *written]
        elif not label:
            lines += block.lines
    for label in evaluate:
        if label not in plan.evaluate:
            lines += ["", *write_measure(label, evaluate[label], comments=True)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _write_steps(steps: list[UpdatedStep], first: _TextBlock) -> list[str]:
    heading = _find_heading(first) if first.section == "steps" else []
    lines = list(heading)
    for item in steps:
        if item.status == "removed":
            continue
        if item.status == "new":
            lines += ["", *write_step(item.step, comments=True)]
        else:
            shown = (
                item.lines[len(heading) :] if item.lines[: len(heading)] == heading else item.lines
            )
            lines += shown if shown and not shown[0].strip() else ["", *shown]
    return lines


def _find_heading(block: _TextBlock) -> list[str]:
    """The comment above the first step, up to an empty line after it: it is about all steps."""
    header = next(i for i, line in enumerate(block.lines) if _HEADER.match(line))
    before = block.lines[:header]
    comments = [i for i, line in enumerate(before) if line.strip()]
    ends = [i for i, line in enumerate(before) if comments and i > comments[0] and not line.strip()]
    return before[: ends[0]] if ends else []


def _add_targets(text: str, targets: list[list[str]]) -> str:
    added = [line for lines in targets for line in lines]
    if not added:
        return text
    blocks = _split_blocks(text)
    section = next((b for b in blocks if b.section == "targets" and not b.label), None)
    if section is None:
        return text + "\n" + "\n".join(["[targets]", *added]) + "\n"
    while not section.lines[-1].strip():
        section.lines.pop()
    section.lines.extend(added)
    return "\n".join(line for block in blocks for line in block.lines) + "\n"


def _require_same(expected: Plan, text: str, name: str, folder: Path) -> None:
    """Refuse where the text, cut by lines, does not say what was meant."""
    try:
        written = parse(text, name=name, folder=folder)
    except PlanError:
        raise _cannot_update(name) from None
    same = (
        written.schema == expected.schema
        and written.steps == expected.steps
        and set(written.targets) == set(expected.targets)
        and written.evaluate == expected.evaluate
        and written.read == expected.read
        and written.release == expected.release
    )
    if not same:
        raise _cannot_update(name)


def _cannot_update(name: str) -> PlanError:
    return PlanError(
        f"{name}: it is written in a way that cannot be updated step by step.",
        hint="begin each step with [[steps]], or write a new plan with --plan and copy your roles.",
    )
