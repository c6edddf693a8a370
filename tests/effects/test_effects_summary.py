"""What a kernel mutates, what its returns alias, and on which paths."""

from __future__ import annotations

import pytest
from kernels import kernel

from opscaffold.effects.buffers import Argument
from opscaffold.effects.summary import Answer, Effects, effects_of
from opscaffold.effects.values import NONE, UNSEEN, Ref, Value, fresh, join, parameter

ARGUMENTS = [
    Argument("x", tensor=True),
    Argument("y", tensor=True, optional=True),
    Argument("ts", tensor=True, is_list=True),
    Argument("n", tensor=False),
]


def effects(body: str) -> Effects:
    function, names = kernel(body, "x, y, ts, n", "CACHE = torch.zeros(3)\n")
    return effects_of(function, ARGUMENTS, names)


NEVER, SOMETIMES, ALWAYS = Answer.NEVER, Answer.SOMETIMES, Answer.ALWAYS


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("return x + 1", NEVER),
        ("x.add_(1)\nreturn x.clone()", ALWAYS),
        ("if n:\n    x.add_(1)\nreturn x.clone()", SOMETIMES),
        ("if n:\n    x.add_(1)\nelse:\n    x.mul_(2)\nreturn x.clone()", ALWAYS),
        ("if n:\n    return x.clone()\nx[0] = 1", SOMETIMES),
        ("if n:\n    raise ValueError\nx.zero_()", ALWAYS),
        ("for i in range(n):\n    x[i] = 0", SOMETIMES),
        ("while n:\n    x.add_(1)\n    break", SOMETIMES),
        ("x.view(-1)[0] = 1", ALWAYS),
        ("torch.add(x, 1, out=x)", ALWAYS),
        ("torch.nn.functional.relu(x, inplace=True)", ALWAYS),
        ("torch.relu_(x)", ALWAYS),
        ("z = x\nz += 1", ALWAYS),
        ("z = x.clone()\nz += 1", NEVER),
        ("x = x + 1\nx.add_(1)", NEVER),
        ("z, w = x, n\nz.fill_(w)", ALWAYS),
        ("try:\n    x.add_(1)\nexcept RuntimeError:\n    pass", SOMETIMES),
        ("with torch.no_grad():\n    x.add_(1)", ALWAYS),
        ("[t.add_(1) for t in [x]]", SOMETIMES),
    ],
)
def test_mutation_of_an_argument(body: str, answer: Answer) -> None:
    assert effects(body).mutates("x") is answer


@pytest.mark.parametrize(
    ("body", "answer", "exact", "perhaps", "hidden"),
    [
        ("return x", ALWAYS, True, False, False),
        ("return x.view(-1)", ALWAYS, False, False, False),
        ("return x[0]", ALWAYS, False, False, False),
        ("return x.detach()", ALWAYS, False, False, False),
        ("return x.contiguous()", SOMETIMES, False, True, False),
        ("return x.to(n)", SOMETIMES, False, True, False),
        ("return torch.from_numpy(x.numpy())", ALWAYS, False, False, True),
        ("if n:\n    return x\nreturn x + 1", SOMETIMES, True, False, False),
        ("return x if n else x * 2", SOMETIMES, True, False, False),
    ],
)
def test_alias_of_an_argument(
    body: str, answer: Answer, exact: bool, perhaps: bool, hidden: bool
) -> None:
    (found,) = effects(body).aliases
    assert found.root == "param:x"
    assert (found.answer, found.exact) == (answer, exact)
    assert (found.perhaps, found.hidden) == (perhaps, hidden)


@pytest.mark.parametrize(
    "body",
    [
        "return x + 1",
        "return x.clone()",
        "return x.to(n, copy=True)",
        "return torch.empty_like(x)",
        "return x.sum()",
        "return x[[0, 1]]",
        "return torch.cat([x, x])",
        "return None",
        "return x.shape[0]",
    ],
)
def test_no_alias(body: str) -> None:
    assert effects(body).aliases == ()


def test_alias_in_a_tuple_has_its_index() -> None:
    (found,) = effects("return x + 1, x.view(-1)").aliases
    assert (found.index, found.root, found.answer) == (1, "param:x", ALWAYS)


@pytest.mark.parametrize(
    ("body", "overlaps"),
    [
        ("z = x + 1\nreturn z, z", True),
        ("z = x + 1\nreturn z[:1], z", True),
        ("return x + 1, x + 1", False),
        ("a, b = torch.max(x, 0)\nreturn a, b", False),
        ("z = x + 1\nreturn z, z.clone()", False),
    ],
)
def test_returns_that_share_memory(body: str, overlaps: bool) -> None:
    assert bool(effects(body).overlaps) is overlaps


def test_arguments_of_code_out_of_sight_are_opaque() -> None:
    found = effects("ext.run(x)\nreturn ext.other(y)")
    assert set(found.opaque) == {"x", "y"}
    assert found.mutates("x") is NEVER


def test_join_keeps_what_both_say() -> None:
    both = join(parameter("x"), fresh(1, 0))
    assert both.null is False
    assert both.roots == {"param:x", "fresh:1:0"}
    assert join(NONE, parameter("x")).null is None
    assert join(NONE, NONE) is NONE
    pair = join(
        Value(null=False, items=(NONE, fresh(1, 0))), Value(null=False, items=(NONE, fresh(2, 0)))
    )
    assert pair.items is not None
    assert pair.items[0] == NONE
    assert pair.roots == {"fresh:1:0", "fresh:2:0"}


def test_views_are_not_exact_and_keep_what_they_stand_on() -> None:
    view = parameter("x").viewed(whole=True).viewed(perhaps=True)
    assert view.refs == {Ref("param:x", False, False, True, False)}
    assert UNSEEN not in view.refs
