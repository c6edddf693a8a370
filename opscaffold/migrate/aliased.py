"""How a mutable half annotates a buffer that went by an alias: ``out: OptTensor``."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import libcst as cst

from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.signature import without_optional
from opscaffold.migrate.syntax import code_of
from opscaffold.rules.aliases import spelled_out
from opscaffold.source.model import Module
from opscaffold.source.project import Project

_TENSOR = "torch.Tensor"
_WORDS = ("Tensor", _TENSOR)


def tensors_by_alias(project: Project, module: Module, function: ast.FunctionDef) -> dict[str, str]:
    """The annotation, in this module's words, of each Optional Tensor that goes by an alias.

    One without the ``Optional``. Raises RefusalError where the module has no word for Tensor.
    """
    spec, found = function.args, {}
    for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
        written = arg.annotation
        spelled = None if written is None else spelled_out(project, module, written)
        if written is None or spelled is None or spelled is written:
            continue
        if _plain(ast.unparse(written)) != ast.unparse(written):
            continue
        whole = ast.unparse(spelled).strip("'\"")
        plain = _plain(whole)
        if plain != whole and plain in _WORDS:
            found[arg.arg] = _tensor(project, module, arg)
    return found


def respelled(parameters: cst.Parameters, words: Mapping[str, str]) -> cst.Parameters:
    """Parameters with the annotations of some of them replaced."""

    def spell(parameter: cst.Param) -> cst.Param:
        annotation = parameter.annotation
        if annotation is None or parameter.name.value not in words:
            return parameter
        word = cst.parse_expression(words[parameter.name.value])
        return parameter.with_changes(annotation=annotation.with_changes(annotation=word))

    return parameters.with_changes(
        posonly_params=[spell(p) for p in parameters.posonly_params],
        params=[spell(p) for p in parameters.params],
        kwonly_params=[spell(p) for p in parameters.kwonly_params],
    )


def _plain(text: str) -> str:
    return code_of(without_optional(cst.parse_expression(text)))


def _tensor(project: Project, module: Module, arg: ast.arg) -> str:
    for word in _WORDS:
        expression = ast.parse(word, mode="eval").body
        if project.resolve_dotted(module, expression) == _TENSOR:
            return word
    raise RefusalError(
        arg,
        f"the annotation of `{arg.arg}` is an alias, and this module has no word for Tensor",
        "import torch, or write the annotation out",
        module,
    )
