"""The flags that tell an op, alike where a package is made and where it gets a further op."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opscaffold.cli import completion
from opscaffold.cli.new_answers import only, several

if TYPE_CHECKING:
    from opscaffold.scaffold.given import Value

Schema = Annotated[
    list[str] | None,
    typer.Option(
        "--schema",
        metavar="SCHEMA",
        help="An op by its schema: 'mylib::scale(Tensor x, float alpha=1.0) -> Tensor'. "
        "May be repeated.",
    ),
]
Signature = Annotated[
    list[str] | None,
    typer.Option(
        "--signature",
        metavar="DEF",
        help="An op by its signature: 'def scale(x: Tensor, alpha: float = 1.0) -> Tensor'. "
        "May be repeated.",
    ),
]
Op = Annotated[
    list[str] | None,
    typer.Option(
        "--op",
        metavar="NAME",
        help="Name of one op: the flags below are then about it, new or given otherwise. "
        "Several ops are told by --schema, --signature or --answers.",
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        autocompletion=completion.one_of("functional", "in-place", "out", "mutable"),
        help="functional, in-place, out or mutable.",
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="ARGUMENT",
        help="An argument: 'float alpha=1.0' or 'alpha: float = 1.0'; '*' makes those behind "
        "it keyword-only. Repeat in order.",
    ),
]
Out = Annotated[
    list[str] | None,
    typer.Option("--out", metavar="NAME", help="Name of a buffer of an out= op. Repeat in order."),
]
Mutates = Annotated[
    list[str] | None,
    typer.Option(
        "--mutates", metavar="NAME", help="Name of an argument the op writes. May be repeated."
    ),
]
Returns = Annotated[
    str | None,
    typer.Option(
        "--returns",
        metavar="RETURNS",
        help="Tensor, (Tensor, Tensor), Tensor[], ..., or () if none.",
    ),
]
Fake = Annotated[
    str | None,
    typer.Option(
        "--fake",
        metavar="RULE",
        autocompletion=completion.one_of("same", "broadcast", "expression", "dynamic"),
        help="Sizes of the outputs: same, broadcast, expression or dynamic.",
    ),
]
FakeLike = Annotated[
    str | None,
    typer.Option("--fake-like", metavar="NAME", help="The Tensor argument the outputs are like."),
]
FakeShape = Annotated[
    str | None,
    typer.Option(
        "--fake-shape",
        metavar="SIZES",
        help="One expression a dimension, with commas: 'x.shape[0], 2 * n'.",
    ),
]
Autograd = Annotated[
    bool | None,
    typer.Option(
        "--autograd/--no-autograd", help="Write a backward (default: where an op can have one)."
    ),
]
Family = Annotated[
    bool | None,
    typer.Option("--family/--no-family", help="Make the functional, in-place and out= ops of one."),
]
Kernel = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        metavar="LANGUAGE",
        autocompletion=completion.one_of("torch", "numpy", "triton", "cpp"),
        help="What kernels are written in: torch (default), numpy, triton or cpp.",
    ),
]
Vmap = Annotated[
    bool | None,
    typer.Option("--vmap/--no-vmap", help="Register a rule for torch.vmap."),
]
Autocast = Annotated[
    str | None,
    typer.Option(
        "--autocast",
        metavar="DTYPE",
        help="Cast inputs under autocast, to float16, bfloat16 or float32.",
    ),
]
TorchDispatch = Annotated[
    bool | None,
    typer.Option(
        "--torch-dispatch/--no-torch-dispatch", help="Register a rule for a TorchDispatchMode."
    ),
]
DeviceKernel = Annotated[
    list[str] | None,
    typer.Option(
        "--device-kernel",
        metavar="DEVICE",
        help="Register a kernel of its own for cpu, cuda or xpu. May be repeated.",
    ),
]
From = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="FILE:FUNCTION",
        help="An op of a function that is there: path/to/module.py:function. It is read, never "
        "run. May be repeated.",
    ),
]
FromCopy = Annotated[
    bool | None,
    typer.Option(
        "--from-copy/--from-import",
        help="Copy the function's text, or import it from its module (default: copy what needs "
        "nothing else of its project).",
    ),
]
CloneReturns = Annotated[
    bool,
    typer.Option(
        "--clone-returns", help="With --from: clone results that share memory with an argument."
    ),
]
Answers = Annotated[
    Path | None,
    typer.Option(
        "--answers", metavar="FILE", help="Read answers from this TOML file; flags overrule it."
    ),
]
Defaults = Annotated[
    bool, typer.Option("--defaults", help="Ask nothing: take the default of what is not given.")
]


def told_whole(schema: list[str] | None, signature: list[str] | None) -> list[tuple[str, str]]:
    """The ops that are told by one text each, with the answer that the text is."""
    ops = [("schema", text) for text in schema or ()]
    return ops + [("signature", text) for text in signature or ()]


def about_one(
    *,
    op: list[str] | None,
    kind: str | None,
    param: list[str] | None,
    out: list[str] | None,
    mutates: list[str] | None,
    returns: str | None,
    fake: str | None,
    fake_like: str | None,
    fake_shape: str | None,
    autograd: bool | None,
    family: bool | None,
    kernel: str | None,
    vmap: bool | None,
    autocast: str | None,
    torch_dispatch: bool | None,
    device_kernel: list[str] | None,
) -> dict[str, Value | None]:
    """The answers of the flags about one op. Raises AnswerError where two are named."""
    return {
        "name": only(op),
        "kind": kind,
        "params": several(param),
        "out": several(out),
        "mutates": several(mutates),
        "returns": returns,
        "fake": fake,
        "fake_like": fake_like,
        "fake_shape": fake_shape,
        "autograd": autograd,
        "family": family,
        "kernel": kernel,
        "vmap": vmap,
        "autocast": autocast,
        "torch_dispatch": torch_dispatch,
        "device_kernels": several(device_kernel),
    }
