"""What ``mutates_args`` and ``tags`` make of a signature: alias sets, and what they demand.

Source: torch.library reference; FACTS section 2, "Definition time".
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import replace

from opscaffold.contract.model import (
    Alias,
    BaseType,
    OpContract,
    Parameter,
    Return,
    SchemaType,
    Tag,
)
from opscaffold.contract.releases import Release
from opscaffold.contract.signature_error import SignatureError, Stage

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
UNKNOWN_MUTATES = "unknown"
_TENSOR = BaseType("Tensor")


def declare(
    contract: OpContract,
    node: FunctionNode,
    mutates_args: Collection[str] | str,
    release: Release,
    *,
    schema_only: bool = False,
) -> OpContract:
    """The contract with what mutates_args and tags say about it. Raises SignatureError.

    ``schema_only`` leaves out what ``custom_op`` refuses and ``infer_schema`` does not.
    """
    if isinstance(mutates_args, str) and mutates_args != UNKNOWN_MUTATES:
        raise SignatureError(
            f"mutates_args is the string {mutates_args!r}",
            f"write {{{mutates_args!r}}}: a set of names",
            node,
        )
    if contract.tags == frozenset(Tag):
        raise SignatureError("Tag.inplace and Tag.out exclude each other", "keep one of them", node)
    if contract.tags and not release.tags:
        raise SignatureError(
            f"custom_op of torch {release} takes no tags", "require torch 2.13", node
        )
    _check_mutated(contract, node, mutates_args)
    parameters = tuple(
        replace(p, type=_write(p.type, f"a{i}")) if _is_written(p, mutates_args) else p
        for i, p in enumerate(contract.parameters)
    )
    contract = replace(contract, parameters=parameters)
    if Tag.INPLACE in contract.tags:
        contract = _inplace(contract, node, mutates_args)
    elif Tag.OUT in contract.tags:
        contract = _out(contract, node)
    elif not schema_only:
        for parameter in contract.parameters:
            if parameter.kw_only and parameter.is_tensor_like:
                raise SignatureError(
                    f"custom_op refuses the keyword-only Tensor {parameter.name!r} without Tag.out",
                    f"make {parameter.name!r} positional",
                    _argument(node, parameter.name),
                    stage=Stage.REGISTRATION,
                    parameter=parameter.name,
                )
    return contract


def _is_written(parameter: Parameter, mutates_args: Collection[str] | str) -> bool:
    if isinstance(mutates_args, str):
        return parameter.is_tensor_like
    return parameter.name in mutates_args


def _check_mutated(
    contract: OpContract, node: FunctionNode, mutates_args: Collection[str] | str
) -> None:
    if isinstance(mutates_args, str):
        return
    known = {p.name: p for p in contract.parameters}
    for name in mutates_args:
        if name not in known:
            raise SignatureError(
                f"mutates_args names {name!r}, which is no argument",
                f"name one of {', '.join(known) or 'its arguments'}",
                node,
            )
        if not known[name].is_tensor_like:
            raise SignatureError(
                f"mutates_args names {name!r}, which is no Tensor",
                "only Tensors and lists of them can be mutated; return the new value",
                _argument(node, name),
                parameter=name,
            )


def _inplace(
    contract: OpContract, node: FunctionNode, mutates_args: Collection[str] | str
) -> OpContract:
    first = next((p for p in contract.parameters if not p.kw_only), None)
    if first is None or _bare(first.type) != _TENSOR:
        raise SignatureError(
            "Tag.inplace needs a plain positional Tensor as its first argument",
            "put the mutated Tensor first",
            node,
        )
    if isinstance(mutates_args, str) or set(mutates_args) != {first.name}:
        raise SignatureError(
            f"Tag.inplace needs mutates_args to be exactly {{{first.name!r}}}",
            "drop the tag, or mutate only the first argument",
            node,
            parameter=first.name,
        )
    if [r.type for r in contract.returns] != [_TENSOR]:
        raise SignatureError(
            f"Tag.inplace must return {first.name!r}, a Tensor", "annotate -> Tensor", node.returns
        )
    return replace(contract, returns=(Return(first.type),))


def _out(contract: OpContract, node: FunctionNode) -> OpContract:
    outs = [p for p in contract.parameters if p.mutated]
    if not outs:
        raise SignatureError(
            "Tag.out needs a mutated keyword-only Tensor", "name the buffers in mutates_args", node
        )
    for out in outs:
        if not out.kw_only or _bare(out.type) != _TENSOR:
            raise SignatureError(
                f"Tag.out needs {out.name!r} to be a keyword-only plain Tensor",
                f"write '*, {out.name}: Tensor', or drop the tag and return None",
                _argument(node, out.name),
                parameter=out.name,
            )
    if [r.type for r in contract.returns] != [_TENSOR] * len(outs):
        names = ", ".join(o.name for o in outs)
        raise SignatureError(
            f"Tag.out must return its buffers: {names}", "annotate one Tensor each", node.returns
        )
    return replace(contract, returns=tuple(Return(o.type) for o in outs))


def _argument(node: FunctionNode, name: str) -> ast.AST:
    arguments = (*node.args.args, *node.args.kwonlyargs)
    return next((a for a in arguments if a.arg == name), node)


def _write(type_: SchemaType, name: str) -> SchemaType:
    """The type, its element annotated as written: ``Tensor(a0!)[]``."""
    if isinstance(type_, BaseType):
        return replace(type_, alias=Alias((name,), write=True))
    return replace(type_, of=_write(type_.of, name))


def _bare(type_: SchemaType) -> SchemaType:
    return replace(type_, alias=None)
