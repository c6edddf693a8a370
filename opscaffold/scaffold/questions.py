"""Every answer that a package and an op are made of: its key, its flag, and its one validator.

Prompt, flag and answers file all go through ``Question.check``, so that an answer is refused with
the same words wherever it was given.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from opscaffold.contract.model import Kind
from opscaffold.scaffold.answer_checks import (
    check_description,
    check_device,
    check_dtype,
    check_fake,
    check_kernel,
    check_namespace,
    check_op_name,
    check_parameter_name,
    check_registration,
    check_size,
    check_torch,
    check_wrapped,
)
from opscaffold.scaffold.given import Value
from opscaffold.scaffold.package_name import check_package_name
from opscaffold.scaffold.shape_expr import split_shape
from opscaffold.scaffold.wording import read_parameter, read_returns, read_schema, read_signature

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "functional": Kind.FUNCTIONAL,
        "in-place": Kind.INPLACE,
        "inplace": Kind.INPLACE,
        "out": Kind.OUT,
        "out=": Kind.OUT,
        "mutable": Kind.MUTABLE,
    }
)


class Shape(enum.Enum):
    """What an answer is made of."""

    TEXT = "text"
    LIST = "list"
    FLAG = "flag"


def split_items(text: str) -> tuple[str, ...]:
    """Split at the commas that stand outside brackets and quotes; empty for blank text."""
    parts: list[str] = [""]
    depth, quote = 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "," and depth == 0:
            parts.append("")
            continue
        else:
            depth += (character in "([{") - (character in ")]}")
        parts[-1] += character
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return () if parts == [text] and not text.strip() else tuple(p.strip() for p in parts)


class AnswerTypeError(ValueError):
    """An answer of the wrong shape: a list for a text, and the like."""


@dataclass(frozen=True, slots=True)
class Question:
    """One answer. ``check_item`` returns a text's normal form or raises ValueError.

    ``split`` makes items of a list that was typed as one text.
    ``ask`` is the question as a terminal shows it, ``why`` the reason and what follows from it.
    """

    key: str
    flag: str
    shape: Shape
    ask: str
    why: str
    check_item: Callable[[str], str] = str
    split: Callable[[str], tuple[str, ...]] = split_items

    def check(self, value: Value) -> Value:
        """Return the answer in its normal form. Raises ValueError with the reason."""
        if self.shape is Shape.FLAG:
            return value if isinstance(value, bool) else yes_or_no(_text(value))
        if self.shape is Shape.TEXT:
            return self.check_item(_readable(_text(value)))
        items = self.split(value) if isinstance(value, str) else value
        if isinstance(items, bool):
            raise AnswerTypeError(f"{self.key} is a list, not a yes or no")
        return tuple(self.check_item(_readable(item)) for item in items)


def _readable(text: str) -> str:
    """The text without space around it. Raises ValueError for bytes that were not decoded."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{text!r} is no text: it was not encoded as the terminal says")
    return text.strip()


def _text(value: Value) -> str:
    if isinstance(value, str):
        return value
    raise AnswerTypeError("this is one text, not a list or a yes")


def yes_or_no(text: str) -> bool:
    """Read y, yes, true, n, no, false. Raises ValueError for anything else."""
    word = text.strip().lower()
    if word in ("y", "yes", "true"):
        return True
    if word in ("n", "no", "false"):
        return False
    raise ValueError(f"{text.strip()!r} is neither yes nor no; answer y or n")


def check_kind(text: str) -> str:
    """Return the kind's name as the answers file writes it."""
    kind = KINDS.get(text.lower())
    if kind is None:
        raise ValueError(f"{text!r} is no kind; it is functional, in-place, out or mutable")
    return kind_word(kind)


def kind_word(kind: Kind) -> str:
    """The kind as an answer: ``out`` for ``out=``."""
    return kind.value.rstrip("=")


def _questions(*questions: Question) -> Mapping[str, Question]:
    return MappingProxyType({q.key: q for q in questions})


PACKAGE = _questions(
    Question(
        "package",
        "PACKAGE",
        Shape.TEXT,
        "What is the package called?",
        "The folder made in the output directory, the name pip installs, and, with '_' for '-', "
        "the name that is imported.",
        check_package_name,
    ),
    Question(
        "description",
        "--description",
        Shape.TEXT,
        "What is it, in one line?",
        "Stands in pyproject.toml and at the top of the README.",
        check_description,
    ),
    Question(
        "namespace",
        "--namespace",
        Shape.TEXT,
        "Which namespace do its ops register in?",
        "Ops are found as torch.ops.NAMESPACE.op. It must be yours alone in the process: two "
        "packages that share one can overwrite each other's ops.",
        check_namespace,
    ),
    Question(
        "torch_min",
        "--torch-min",
        Shape.TEXT,
        "Which torch is the oldest it must run on?",
        "From 2.13 on, in-place and out= ops are tagged and PyTorch checks them. Below that they "
        "are written as untagged mutable ops, which return nothing.",
        check_torch,
    ),
    Question(
        "registration",
        "--registration",
        Shape.TEXT,
        "What are its ops registered through?",
        "custom_op looks at what an op returns each time it is called. library calls cost less, "
        "and the tests alone look at it.",
        check_registration,
    ),
)
UNASKED = frozenset({"registration"})
"""What no one is asked: the default is right until calls have been measured."""

OP = _questions(
    Question(
        "name",
        "--op",
        Shape.TEXT,
        "What is the op called?",
        "The Python function and the name behind the namespace. In-place ops end in '_', out= ops "
        "in '_out', as in PyTorch.",
        check_op_name,
    ),
    Question(
        "schema",
        "--schema",
        Shape.TEXT,
        "What is its schema?",
        "As PyTorch writes it: mylib::scale(Tensor x, float alpha=1.0) -> Tensor",
        read_schema,
    ),
    Question(
        "signature",
        "--signature",
        Shape.TEXT,
        "What is its Python signature?",
        "def scale(x: Tensor, alpha: float = 1.0) -> Tensor",
        read_signature,
    ),
    Question(
        "kind",
        "--kind",
        Shape.TEXT,
        "Which kind of op is it?",
        "functional, in-place, out or mutable: what it does to its arguments.",
        check_kind,
    ),
    Question(
        "params",
        "--param",
        Shape.LIST,
        "Which arguments does it take?",
        "Each as in a schema, 'float alpha=1.0', or as in Python, 'alpha: float = 1.0'. A lone "
        "'*' makes those behind it keyword-only.",
        read_parameter,
    ),
    Question(
        "out",
        "--out",
        Shape.LIST,
        "Which buffers does it write and return?",
        "Names of keyword-only Tensors, in the order in which they are returned. They are written "
        "whole and never read.",
        check_parameter_name,
    ),
    Question(
        "mutates",
        "--mutates",
        Shape.LIST,
        "Which arguments does it write?",
        "PyTorch does not see a write that is not declared, and compiled programs then lose it.",
        check_parameter_name,
    ),
    Question(
        "returns",
        "--returns",
        Shape.TEXT,
        "What does it return?",
        "Tensor, (Tensor, Tensor), Tensor[], int ..., or () for nothing. Returned tensors are "
        "fresh: they share no memory with an argument or with each other.",
        read_returns,
    ),
    Question(
        "fake",
        "--fake",
        Shape.TEXT,
        "How do the outputs' sizes follow from the inputs?",
        "The fake kernel tells torch.compile and torch.export. same: like one input; broadcast: "
        "the inputs broadcast together; expression: computed from sizes; dynamic: only the data "
        "tells.",
        check_fake,
    ),
    Question(
        "fake_like",
        "--fake-like",
        Shape.TEXT,
        "Which Tensor are the outputs like?",
        "They take its dtype and device, and with fake 'same' its shape.",
        check_parameter_name,
    ),
    Question(
        "fake_shape",
        "--fake-shape",
        Shape.LIST,
        "Which size has each dimension of the output?",
        "One expression a dimension, with commas between: x.shape[0], 2 * n. Made of ints, int "
        "arguments, sizes of Tensor arguments and + - * // %.",
        check_size,
        split_shape,
    ),
    Question(
        "autograd",
        "--autograd/--no-autograd",
        Shape.FLAG,
        "Does it train?",
        "Writes a backward and its gradcheck. Without it, an input that requires grad is refused "
        "when gradients would be lost.",
    ),
    Question(
        "family",
        "--family/--no-family",
        Shape.FLAG,
        "Make the whole family: functional, in-place and out=?",
        "Three ops over one kernel function, as PyTorch has mul, mul_ and mul_out.",
    ),
    Question(
        "kernel",
        "--kernel",
        Shape.TEXT,
        "What is its kernel written in?",
        "The op promises the same whichever it is. It decides where the op runs, how it is "
        "registered, and what has to be installed.",
        check_kernel,
    ),
    Question(
        "vmap",
        "--vmap/--no-vmap",
        Shape.FLAG,
        "Does it have a rule for torch.vmap?",
        "Without one, PyTorch calls the op once for each element of a batch, and warns.",
    ),
    Question(
        "autocast",
        "--autocast",
        Shape.TEXT,
        "To which dtype does autocast cast its inputs?",
        "float16, bfloat16 or float32. Without it, an op gets its inputs as they are.",
        check_dtype,
    ),
    Question(
        "torch_dispatch",
        "--torch-dispatch/--no-torch-dispatch",
        Shape.FLAG,
        "Does it have a rule for a TorchDispatchMode?",
        "A mode that records calls comes with the package, for you to replace.",
    ),
    Question(
        "device_kernels",
        "--device-kernel",
        Shape.LIST,
        "Which devices have kernels of their own?",
        "cpu, cuda or xpu. The kernel serves the others.",
        check_device,
    ),
    Question(
        "wraps",
        "--from",
        Shape.TEXT,
        "Which function does it wrap?",
        "A function that is there becomes the kernel. opscaffold writes this answer when it has "
        "read one.",
        check_wrapped,
    ),
)
