"""The keys of a project's configuration, and what each says."""

from __future__ import annotations

from collections.abc import Mapping

KEYS: Mapping[str, str] = {
    "select": "rules that apply: codes, starts of codes, names or `ALL`; default: all. What names "
    "only rules of `check` says nothing to [verify](verify.md), nor the other way round",
    "ignore": "rules that do not; what is named more closely wins",
    "per-file-ignores": "git-ignore patterns, each with rules that are not reported there",
    "exclude": "git-ignore patterns of files to leave out; `--exclude` replaces them",
    "extend-exclude": "more of them, which `--exclude` leaves in force",
    "target-torch": "the oldest torch release that what `migrate` writes must work with, as a "
    "string, from `2.4` on; `--target-torch` says otherwise for a run",
    "out-naming": "how out operators are named: `flat` (`f_out`) or `overload` (`f.out`, where it "
    "is safe), by `migrate`; `--out-naming` says otherwise for a run",
    "registrars": "helpers that register operators, see below",
    "notebooks": "`true` has `check` read the Python in notebooks, as `--notebooks` does",
}
"""What stands at the top of ``[tool.opscaffold]``."""

REGISTRAR_KEYS: Mapping[str, str] = {
    "helper": "the dotted name of the helper, as the project imports it",
    "parameters": "its positional parameters, in order; `name` and `function` must be among them",
    "name": "the parameter that holds the operator's name; without it, that of its function. A "
    "name with `::` needs no namespace",
    "namespace": "the parameter that holds the namespace, or a `Library`",
    "function": "the parameter that holds the kernel; without it, the helper is a decorator",
    "mutates_args": "the parameter that says what the kernel writes to",
    "schema": "the parameter that holds the schema",
    "fake": "the parameter that holds the fake kernel",
    "registers": 'what the helper comes to: `"define"` (a `Library`\'s `define` and `impl`; what '
    'holds without it), `"custom_op"`, `"register_fake"` or `"impl"` (for an operator that is '
    'defined elsewhere), or `"nothing"`',
    "strip": "what an operator's name leaves out at the start of the function's",
    "defaults": "what holds where a call does not say: `namespace`; `mutates_args`, which may be "
    '`"unknown"`; `fake`, `true` where the helper makes a fake kernel itself, or its operators '
    "need none",
}
"""What stands in ``[[tool.opscaffold.registrars]]``."""
