"""``opscaffold verify --against OLD NEW``: two programs run side by side, told as one run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from opscaffold.cli.verify_process import Limits, private_directory
from opscaffold.cli.verify_run import STARTS, OpResult, Outcome, Progress, Told, no_such_op
from opscaffold.cli.verify_sides import Comparison, Side, compare_sides
from opscaffold.errors import UserError
from opscaffold.findings.promises import BY_CODE, Verdict


def run_against(
    old: str,
    new: Sequence[str],
    ops: Sequence[str],
    samples: Sequence[str],
    limits: Limits,
    progress: Progress,
) -> Outcome:
    """Run the ops of ``old`` and what took their place in ``new`` on the same calls.

    Raises UserError where one of the two cannot be imported, or there is nothing to compare.
    """
    began = time.monotonic()

    def show(mode: str, name: str) -> None:
        progress(f"{'old' if mode == 'record' else 'new'}: {name}", 0, 0)

    progress("importing", 0, 0)
    with private_directory() as private:
        compared = compare_sides(
            Side((old,)), Side(tuple(new)), private, limits, ops=ops, samples=samples, progress=show
        )
    for message in compared.unloaded.values():
        raise UserError(message)
    for name in ops:
        if name not in compared.known:
            raise UserError(f"--op: {no_such_op(name, compared.known)}")
    if not compared.ops and not compared.functions:
        raise UserError(
            f"importing {old} registers no op, so there is nothing to compare with; name the file "
            "or module that defines them"
        )
    return _outcome(compared, time.monotonic() - began)


def _outcome(compared: Comparison, seconds: float) -> Outcome:
    outcome = Outcome(spent=dict(compared.spent))
    outcome.spent[STARTS] = max(seconds - sum(compared.spent.values()), 0.0)
    for finding in compared.findings:
        promise = BY_CODE[finding["code"]]
        place = Path(finding["path"]), finding["line"]
        outcome.told.append(Told(promise, finding["old"], *place, finding["message"]))
    for op in compared.ops:
        name, place = op["name"], (Path(op["path"]), op["line"])
        defined = Path(op["defined"]["path"]), op["defined"]["line"]
        verdicts = {told.promise.verdict for told in outcome.told if told.op == name}
        verdict = next(
            (v for v in (Verdict.BREACH, Verdict.UNDECIDED) if v in verdicts), Verdict.SOUND
        )
        calls = compared.calls.get(name, 0)
        result = OpResult(name, op["kind"], op["schema"], *place, defined, verdict, calls)
        result.summary = f"{calls} call{'' if calls == 1 else 's'} compared"
        outcome.ops.append(result)
    return outcome
