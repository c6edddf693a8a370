"""What running an op can show: each promise of a contract, and the words for it when it is broken.

This is the vocabulary between the process that runs ops and the one that reports on them. It
needs no torch.
"""

from __future__ import annotations

import enum

from opscaffold.findings.model import Severity
from opscaffold.records import dataclass


class Verdict(enum.Enum):
    """What is known of a promise, or of an op, after it was run."""

    SOUND = "sound"
    """Every check held on every sample."""
    BREACH = "breach"
    """The op breaks its contract, and a sample shows it."""
    LIMIT = "platform limit"
    """PyTorch itself departs from eager mode for every op of that kind."""
    UNDECIDED = "undecided"
    """It could not be found out, for a reason that is told."""

    @property
    def severity(self) -> Severity:
        """How much a finding with this verdict matters."""
        return _SEVERITIES[self]


_SEVERITIES = {
    Verdict.SOUND: Severity.INFO,
    Verdict.BREACH: Severity.ERROR,
    Verdict.LIMIT: Severity.INFO,
    Verdict.UNDECIDED: Severity.WARNING,
}


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that running an op can show.

    ``summary`` says in one sentence what is reported, ``why`` what happens to the user's program,
    ``remedy`` what to do.
    """

    code: str
    name: str
    verdict: Verdict
    summary: str
    why: str
    remedy: str

    @property
    def severity(self) -> Severity:
        """How much it matters when it is reported."""
        return self.verdict.severity


def _breach(code: str, name: str, summary: str, why: str, remedy: str) -> Promise:
    return Promise(code, name, Verdict.BREACH, summary, why, remedy)


def _limit(code: str, name: str, summary: str, why: str, remedy: str) -> Promise:
    return Promise(code, name, Verdict.LIMIT, summary, why, remedy)


def _undecided(code: str, name: str, summary: str, why: str, remedy: str) -> Promise:
    return Promise(code, name, Verdict.UNDECIDED, summary, why, remedy)


OPCHECK = _breach(
    "OPS701",
    "opcheck-fails",
    "torch.library.opcheck refuses the op.",
    "PyTorch's own checks of schema, autograd registration, fake kernel and AOT dispatch run the "
    "op on a sample; what they refuse breaks under torch.compile or torch.export.",
    "Read the message of opcheck: it names what it compared.",
)
RETURN_SHARES_MEMORY = _breach(
    "OPS702",
    "return-shares-memory",
    "A return shares memory with an input or with another return.",
    "torch.compile takes what an op returns for new memory: writing to the result changes the "
    "input in eager mode, and does not in the compiled program. Memory is compared by address, so "
    "a new storage object over the old bytes does not hide it.",
    "Return a copy on the path that shares memory.",
)
RETURN_KEPT = _breach(
    "OPS703",
    "return-kept",
    "A return shares memory with what an earlier call returned.",
    "The op keeps a buffer between calls: the second call overwrites the first result.",
    "Allocate the result in every call, or take the workspace as a declared argument.",
)
UNDECLARED_WRITE = _breach(
    "OPS704",
    "undeclared-write",
    "The op writes to an argument that its schema does not declare as mutated.",
    "A compiler may reorder, merge or drop the call: the write is lost or comes at the wrong time.",
    "List the argument in mutates_args, or write to a copy.",
)
DECLARED_NEVER_WRITTEN = _breach(
    "OPS705",
    "declared-never-written",
    "An argument is declared as mutated, and no sample sees it written.",
    "torch.compile copies the argument and keeps calls that nothing needs; autograd refuses it.",
    "Take the argument out of mutates_args, or add a sample on which it is written.",
)
RETURNS_OTHER_OBJECT = _breach(
    "OPS706",
    "returns-other-object",
    "An in-place or out= op returns something other than the argument that it promises.",
    "Compiled programs use the argument where the op's result is asked for: they compute something "
    "else than eager mode.",
    "Return the very argument, in the order of the declaration.",
)
READS_BUFFER = _breach(
    "OPS707",
    "reads-buffer",
    "The result of an out= op depends on what its buffer held before.",
    "An out= op only writes: a compiler hands it memory that holds anything.",
    "Write every element of the buffer before it is read; an op that accumulates is mutable.",
)
ACCEPTS_WRONG_BUFFER = _breach(
    "OPS708",
    "accepts-wrong-buffer",
    "An out= op accepts a buffer of the wrong shape.",
    "It is resized or broadcast in silence in eager mode, and refused or miscomputed once "
    "compiled.",
    "Compare shape, dtype and device of the buffer first, and raise where they differ.",
)
CHANGES_METADATA = _breach(
    "OPS709",
    "changes-metadata",
    "The op changes the shape, strides, storage or requires_grad of an argument.",
    "No schema can declare it, and a compiled program does not see it.",
    "Write to the argument's memory only; return a tensor of the new shape instead.",
)
COMPILED_DIFFERS = _breach(
    "OPS710",
    "compiled-differs",
    "A compiled program computes something else than eager mode.",
    "The contract leaves out something that the compiler relies on.",
    "Compare the returns and the buffers that the message names with what the schema declares.",
)
COMPILE_FAILS = _breach(
    "OPS711",
    "compile-fails",
    "A program runs in eager mode and fails once compiled.",
    "Users of torch.compile cannot use the op on such a call.",
    "Read the message; the fake kernel and the schema are what the compiler sees of an op.",
)
FAKE_DIFFERS = _breach(
    "OPS712",
    "fake-differs",
    "The fake kernel says other shapes, dtypes, strides or devices than the kernel returns.",
    "The compiler plans memory and picks kernels by what the fake kernel says.",
    "Derive the metadata in the fake kernel by the same expressions as in the kernel.",
)
NOT_DETERMINISTIC = _breach(
    "OPS713",
    "not-deterministic",
    "Two calls with equal arguments give different results, and no tag says so.",
    "The compiler may fold, move or merge calls, or run one again in the backward pass. The tag "
    "keeps it from all but merging: in training graphs torch 2.13 merges equal calls of any op.",
    "Tag an op that draws random numbers with torch.Tag.nondeterministic_seeded, and use no "
    "state that calls share.",
)
WRONG_GRADIENT = _breach(
    "OPS714",
    "wrong-gradient",
    "The registered backward departs from numerical gradients.",
    "Training goes wrong in silence: opcheck compares no gradients.",
    "Correct the formula; a sample that shows it is named. Where it is meant to differ, as in a "
    "straight-through estimator, hold OPS714 back on the op.",
)
WRONG_SECOND_GRADIENT = _breach(
    "OPS715",
    "wrong-second-gradient",
    "The gradient of the registered backward departs from numerical second gradients.",
    "Double backward, as in gradient penalties and meta-learning, goes wrong in silence.",
    "Write the backward with differentiable torch ops, or make it refuse double backward.",
)
BACKWARD_FAILS = _breach(
    "OPS716",
    "backward-fails",
    "The registered backward raises.",
    "Training stops at the first backward pass that takes this call.",
    "Return one gradient for each positional argument of the schema, None where there is none.",
)
WRONG_TANGENT = _breach(
    "OPS717",
    "wrong-tangent",
    "Forward-mode differentiation neither raises nor gives the right tangent.",
    "torch.func.jvp and forward-mode autograd return wrong numbers in silence.",
    "Refuse forward-mode duals in the public function, or give the op a right formula.",
)
WRONG_VMAP = _breach(
    "OPS718",
    "wrong-vmap",
    "The vmap rule departs from a loop over the batch.",
    "torch.func.vmap returns wrong numbers: opcheck never runs it.",
    "Move the batch dimension by in_dims, and say where it went in out_dims.",
)
AUTOCAST_LOSES_WRITE = _breach(
    "OPS719",
    "autocast-loses-write",
    "Under autocast the op writes to a copy, and the argument stays as it was.",
    "In mixed-precision training the write is lost in silence.",
    "Do not register autocast for an op that writes to its arguments.",
)
AUTOCAST_DIFFERS = _breach(
    "OPS723",
    "autocast-differs",
    "Under autocast the op fails, or returns another result than on inputs that were cast.",
    "Programs in mixed precision stop, or go wrong in silence: opcheck never runs autocast.",
    "Let the kernel take the dtype that register_autocast casts to, or register another.",
)
OUT_LOWERING = _breach(
    "OPS720",
    "out-lowering",
    "Inductor replaces the op by its .out overload, and the compiled program is wrong or fails.",
    "Arguments reach the overload in another order than they were given (torch 2.13 and 2.14).",
    "Register the out= op under a name of its own, op_out; `opscaffold migrate` renames it.",
)
DEFINED_TWICE = _breach(
    "OPS721",
    "defined-twice",
    "The import defines the op twice.",
    "The second definition takes the place of the first in silence.",
    "Define each name once; guard against running a module twice.",
)
OP_FAILS = _breach(
    "OPS722",
    "call-refused",
    "A call that the schema allows is refused because of what the kernel returned or wrote.",
    "PyTorch raises after the kernel ran, so that buffers are already written.",
    "Copy what shares memory; return what the tag promises.",
)
DEPENDS_ON_LAYOUT = _breach(
    "OPS724",
    "depends-on-layout",
    "The op computes something else when an argument with the same elements is laid out otherwise.",
    "A transposed, sliced or offset tensor gives wrong numbers in silence, or a write to it is "
    "lost: the kernel reads memory in an order that its argument does not have, or writes to what "
    "contiguous() gave it.",
    "Read and write by strides; or take a contiguous copy, and copy the result back.",
)
FORMS_DIFFER = _breach(
    "OPS730",
    "repair-differs",
    "The repaired op does not do what the old one did.",
    "The two were run side by side on the same sample.",
    "Look at the sample; keep the old op, or repair it by hand.",
)

FORWARD_MODE_SILENT = _limit(
    "OPS780",
    "forward-mode-silent",
    "Forward-mode differentiation of any custom op gives a zero tangent, or none, without an "
    "error.",
    "torch.func.jvp and torch.autograd.forward_ad pass a custom op by (FACTS S7).",
    "Refuse forward-mode duals in a public function around the op, as generated packages do.",
)
RETURNED_ALIAS_LOST = _limit(
    "OPS781",
    "returned-alias-lost",
    "Compiled, what an in-place or out= op returns is no longer the argument that it wrote.",
    "A write to the result does not reach the argument (FACTS S9).",
    "Go on with the argument, not with what is returned.",
)
GRADIENT_LOST = _limit(
    "OPS782",
    "gradient-lost",
    "Gradients do not pass through what a custom op writes, and nothing says so.",
    "Autograd takes a mutated argument for what it was before the call (FACTS S5).",
    "Refuse arguments that require grad in a public function around the op, as generated "
    "packages do; write a functional op where gradients are needed.",
)
CLONE_REMOVED = _limit(
    "OPS783",
    "clone-removed",
    "Inductor may leave out a clone that is an argument of a mutable op.",
    "y = x.clone(); op(y, x) can become op(x, x) (torch 2.13, FACTS section 10).",
    "Do not pass a tensor and its clone to one call where the kernel reads one while it writes "
    "the other.",
)
NONE_FOR_TENSOR = _limit(
    "OPS784",
    "none-for-tensor",
    "A Tensor argument accepts None when it is called.",
    "The dispatcher does not refuse it; the kernel meets a None (FACTS S13).",
    "Check in the public function.",
)
OPTIONAL_LIST_WRITTEN = _limit(
    "OPS785",
    "optional-list-written",
    "PyTorch cannot trace an op that writes to a list which may hold None.",
    "torch.compile and opcheck stop with \"'dict' object has no attribute 'append'\" on any such "
    "op (torch 2.13, FACTS section 2).",
    "Take a list of tensors, and leave out what is None.",
)
FLOAT_AMONG_RETURNS = _limit(
    "OPS786",
    "float-among-returns",
    "Inductor cannot compile an op that returns a float beside other values.",
    'It stops with "FallbackKernel output type float is not supported"; an int, a bool, or a '
    "float alone is fine (torch 2.13, FACTS section 9).",
    "Return the number as a 0-d tensor.",
)
GENERATOR_NOT_COMPILED = _limit(
    "OPS787",
    "generator-not-compiled",
    "torch.compile traces no call that passes a torch.Generator, of any op.",
    "With fullgraph it raises, without it the graph breaks there; ops of PyTorch are no other "
    "(torch 2.13).",
    "Take a seed as an int, and make the generator in the kernel.",
)
CALLS_MIXED_UP = _limit(
    "OPS788",
    "calls-mixed-up",
    "Compiled, two calls of one out= op in one program can leave the same numbers in both buffers.",
    "Inductor gives two buffers of one size that are made in the program, or whose results are "
    "returned, one place in memory, for any op tagged torch.Tag.out (torch 2.13, FACTS section "
    "9). An untagged op that mutates its buffers is not affected.",
    "Call the op once in a compiled program, with buffers from outside of it; or register it "
    "without the tag.",
)

NO_SAMPLES = _undecided(
    "OPS790",
    "no-samples",
    "There is no call of the op to try.",
    "What is not run is not proven.",
    "Write samples in opscaffold_samples.py, or name a function with --samples.",
)
SAMPLE_FAILS = _undecided(
    "OPS791",
    "sample-fails",
    "A sample that was given raises.",
    "It shows nothing of the contract.",
    "Correct the sample, or take it out.",
)
CRASHED = _undecided(
    "OPS792",
    "crashed",
    "The process that ran the op died, ran out of memory, or took too long.",
    "The checks that were left did not run.",
    "Read the last lines it wrote; give more with --timeout or --memory, or smaller samples.",
)
CHECK_FAILED = _undecided(
    "OPS793",
    "check-undecided",
    "A check could not decide.",
    "The reason is told; nothing is claimed about that promise.",
    "Give a sample that the check can use, or accept it with --ignore.",
)
NOT_COVERED = Promise(
    "OPS794",
    "lines-not-run",
    Verdict.SOUND,
    "No sample runs some lines of the kernel.",
    "What is not run is not proven.",
    "Add a sample that takes that branch.",
)

PROMISES: tuple[Promise, ...] = tuple(
    sorted(
        (value for value in list(globals().values()) if isinstance(value, Promise)),
        key=lambda promise: promise.code,
    )
)
BY_CODE = {promise.code: promise for promise in PROMISES}
