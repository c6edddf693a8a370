"""Ops that return what they mutate: tagged, made to return nothing, or left with a reason."""

from __future__ import annotations

import difflib
import json
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest
from migrating import HEADER, cli, python, write
from returned_programs import PROGRAMS

from opscaffold.migrate.engine import Migration, Request, migrate
from opscaffold.migrate.plan import Options

# What is repaired here; other breaches of the programs have tests of their own.
CODES = frozenset({"OPS301", "OPS302", "OPS305", "OPS404", "OPS405"})
RUNNER = Path(__file__).with_name("run_programs.py")


def after(
    files: Mapping[str, str], root: Path, options: Options | None = None
) -> tuple[dict[str, str], Migration]:
    """What a project becomes; a second run must change nothing."""
    root = root.resolve()
    write(root, files)
    request = Request(options=options or Options(unsafe=True), codes=CODES)
    first = migrate([root], request, root=root)
    assert not [f for f in first.findings if "fault of opscaffold" in f.message], first.findings
    for path, (_, new) in first.changes.items():
        path.write_bytes(new)
    assert migrate([root], request, root=root).changes == {}
    return {name: (root / name).read_text() for name in files}, first


def changed_lines(before: str, new: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), new.splitlines(), n=0, lineterm="")
    return "".join(f"{line}\n" for line in list(lines)[2:] if not line.startswith("@@"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_but_what_must_change_does(name: str, tmp_path: Path) -> None:
    before, lines = PROGRAMS[name]
    new, _ = after({"ops.py": before}, tmp_path)
    assert changed_lines(before, new["ops.py"]) == lines


@pytest.mark.torch
def test_what_is_rewritten_runs_and_keeps_its_contract(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = tmp_path / "done"
    done.mkdir()
    for number, (name, (before, _)) in enumerate(PROGRAMS.items()):
        new, _ = after({"ops.py": before}, tmp_path / str(number))
        (done / f"{name.replace(' ', '_')}.py").write_text(new["ops.py"])
    failures = json.loads(python(RUNNER, done).splitlines()[-1])
    assert not failures, "\n".join(f"{k}: {v}" for k, v in failures.items())


FADE = (
    HEADER
    + """\
@torch.library.custom_op("demo::fade_", mutates_args=("x",))
def fade_(x: Tensor, k: float) -> Tensor:
    return x.mul_(k)
"""
)
STORE = (
    HEADER
    + """\
@torch.library.custom_op("demo::store", mutates_args=("cache",))
def store(x: Tensor, cache: Tensor) -> Tensor:
    return cache.copy_(x)
"""
)


def reason(files: Mapping[str, str], root: Path, options: Options | None = None) -> str:
    """Why nothing is changed."""
    _, migration = after(files, root, options)
    assert not migration.changes
    found = [f.message for f in migration.findings if f.intent is None]
    assert found
    return "\n".join(message.partition("not rewritten: ")[2] for message in found)


REFUSED = {
    "a path that returns a view": (
        """\
        @torch.library.custom_op("demo::fade_", mutates_args=("x",))
        def fade_(x: Tensor, k: float) -> Tensor:
            if k == 1.0:
                return x.view(-1)
            return x.mul_(k)
        """,
        "something that may be another tensor",
    ),
    "a path that returns a copy": (
        """\
        @torch.library.custom_op("demo::fade_", mutates_args=("x",))
        def fade_(x: Tensor, k: float) -> Tensor:
            if k == 1.0:
                return x.clone()
            return x.mul_(k)
        """,
        "something that may be another tensor",
    ),
    "a new tensor beside it": (
        """\
        @torch.library.custom_op("demo::fade", mutates_args=("x",))
        def fade(x: Tensor, k: float) -> tuple[Tensor, Tensor]:
            x.mul_(k)
            return x, x.sum()


        @fade.register_fake
        def _(x, k):
            return x, x.new_empty(())
        """,
        "something that may be another tensor",
    ),
    "now the one and now the other": (
        """\
        @torch.library.custom_op("demo::fade", mutates_args=("x", "y"))
        def fade(x: Tensor, y: Tensor, k: float) -> Tensor:
            x.mul_(k)
            y.mul_(k)
            return x if k > 1 else y
        """,
        "does not return the same arguments everywhere",
    ),
    "kernels that differ": (
        """\
        @torch.library.custom_op("demo::fade", mutates_args=("x", "y"))
        def fade(x: Tensor, y: Tensor) -> Tensor:
            y.copy_(x.mul_(2))
            return x


        @fade.register_kernel("cuda")
        def _(x, y):
            x.mul_(2)
            return y.copy_(x)
        """,
        "does not return the same arguments everywhere",
    ),
    "a kernel out of sight": (
        """\
        from somewhere import fast


        @torch.library.custom_op("demo::fade_", mutates_args=("x",))
        def fade_(x: Tensor) -> Tensor:
            return x.mul_(2)


        fade_.register_kernel("cuda", fast)
        """,
        "one of its kernels is not in sight",
    ),
    "autograd": (
        """\
        @torch.library.custom_op("demo::fade_", mutates_args=("x",))
        def fade_(x: Tensor, k: float) -> Tensor:
            return x.mul_(k)


        fade_.register_autograd(lambda ctx, grad: (grad, None))
        """,
        "takes no autograd formula, and one is attached",
    ),
    "vmap on an op that shall return nothing": (
        """\
        @torch.library.custom_op("demo::store", mutates_args=("cache",))
        def store(x: Tensor, cache: Tensor) -> Tensor:
            return cache.copy_(x)


        @store.register_vmap
        def _(info, in_dims, x, cache):
            return store(x, cache), in_dims[1]
        """,
        "`register_vmap` is attached to the op",
    ),
    "a decorator that sees the result": (
        """\
        from somewhere import logged


        @torch.library.custom_op("demo::store", mutates_args=("cache",))
        @logged
        def store(x: Tensor, cache: Tensor) -> Tensor:
            return cache.copy_(x)
        """,
        "`@logged` wraps the kernel",
    ),
    "a kernel that is called by its own name": (
        """\
        def _store(x: Tensor, cache: Tensor) -> Tensor:
            return cache.copy_(x)


        store = torch.library.custom_op("demo::store", _store, mutates_args=("cache",))
        plain = _store
        """,
        "its kernel `_store` is used elsewhere too",
    ),
    "registered in a loop": (
        """\
        for kind in ("cpu",):
            @torch.library.custom_op("demo::store", mutates_args=("cache",))
            def store(x: Tensor, cache: Tensor) -> Tensor:
                return cache.copy_(x)
        """,
        "any number of times",
    ),
    "an op that calls itself": (
        """\
        @torch.library.custom_op("demo::store", mutates_args=("cache",))
        def store(x: Tensor, cache: Tensor) -> Tensor:
            if x.dim() > 1:
                store(x[0], cache[0])
            return cache.copy_(x)
        """,
        "the op calls itself",
    ),
    "a low-level kernel that is a lambda": (
        """\
        lib = torch.library.Library("demo", "FRAGMENT")
        lib.define("store(Tensor x, Tensor(a!) cache) -> Tensor")
        lib.impl("store", lambda x, cache: cache.copy_(x), "CPU")
        """,
        "its kernel is not a plain function",
    ),
    "a tag for an overload that Inductor would put in wrongly": (
        """\
        lib = torch.library.Library("demo", "FRAGMENT")
        lib.define("scale(Tensor x, float k=2.0) -> Tensor")
        lib.define("scale.out(Tensor x, float k=2.0, *, Tensor(a!) out) -> Tensor(a!)")
        lib.impl("scale", lambda x, k=2.0: x * k, "CPU")
        lib.impl("scale.out", lambda x, k=2.0, *, out: torch.mul(x, k, out=out), "CPU")
        """,
        "Inductor would put it in place of `demo::scale`",
    ),
    "a Library handed to define": (
        """\
        lib = torch.library.Library("demo", "FRAGMENT")


        @torch.library.define(lib, "double_(Tensor(a!) x) -> Tensor(a!)")
        def _(x):
            return x.mul_(2)
        """,
        "torch.library.define takes no tags with a Library",
    ),
    "a kernel that takes the buffer before a default": (
        """\
        lib = torch.library.Library("demo", "FRAGMENT")
        lib.define("scale(Tensor x, Tensor(a!) dst, bool neg=False) -> Tensor(a!)")


        @torch.library.impl(lib, "scale", "CPU")
        def _scale(x, dst, neg=False):
            return torch.mul(x, -1 if neg else 1, out=dst)
        """,
        "does not take the buffers last",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_sure_is_left_with_the_reason(name: str, tmp_path: Path) -> None:
    code, why = REFUSED[name]
    assert why in reason({"ops.py": HEADER + textwrap.dedent(code)}, tmp_path)


USES = [
    ("y = [store(x, c) for c in x]", "it stands in a comprehension"),
    ("y = store(*x)", "which argument of this call is `cache` cannot be told"),
    ("y = store(x, **g)", "which argument of this call is `cache` cannot be told"),
    ("g(store)", "the op is used here as a value"),
    ("y = torch.autograd.gradcheck(store, (x, x))", "the op is used here as a value"),
    ("y = x.sum() + store(x, x)", "`x.sum()` is evaluated before it"),
]


@pytest.mark.parametrize(("use", "why"), USES)
def test_an_op_whose_value_is_used_out_of_reach_is_left(use: str, why: str, tmp_path: Path) -> None:
    assert why in reason({"ops.py": f"{STORE}\n\ndef f(x, g):\n    {use}\n"}, tmp_path)


def test_star_arguments_matter_only_where_they_hold_the_value(tmp_path: Path) -> None:
    code = f"{STORE}\n\ndef f(x, c, more):\n    store(*more)\n    y = store(x, c, *more)\n"
    new, _ = after({"ops.py": code}, tmp_path)
    assert new["ops.py"].endswith("    store(*more)\n    store(x, c, *more)\n    y = c\n")


def test_a_name_that_an_argument_rebinds_is_read_once(tmp_path: Path) -> None:
    head = f"""{STORE}

def f(c, g):
    d = c

    def s():
        nonlocal d
        d = g()
        return d

"""
    inner = head + "    def q():\n        return store(cache=d, x=s())\n"
    new, _ = after({"ops.py": inner}, tmp_path)
    assert new["ops.py"].endswith(
        "    def q():\n        buffer = d\n        store(cache=buffer, x=s())\n"
        "        return buffer\n"
    )


def test_callers_in_other_files_and_prose_are_rewritten(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "from pkg.ops import store as store\n",
        "pkg/ops.py": STORE,
        "pkg/user.py": '''\
import pkg.ops as o
from pkg import store


def f(x, c):
    """Store.

    >>> import torch
    >>> from pkg import store
    >>> store(torch.ones(1), torch.zeros(1))
    tensor([1.])
    >>> y = store(torch.ones(1), cache)
    """
    out = o.store(x, c)
    return store(x, c), out
''',
        "README.md": "```python\nfrom pkg import store\n\ny = store(x, cache)\n```\n",
    }
    new, migration = after(files, tmp_path)
    assert new["pkg/__init__.py"] == files["pkg/__init__.py"]
    assert new["README.md"] == (
        "```python\nfrom pkg import store\n\nstore(x, cache)\ny = cache\n```\n"
    )
    assert (
        changed_lines(files["pkg/user.py"], new["pkg/user.py"])
        == """\
-    >>> store(torch.ones(1), torch.zeros(1))
+    >>> store(torch.ones(1), (buffer := torch.zeros(1)))
+    >>> buffer
-    >>> y = store(torch.ones(1), cache)
+    >>> store(torch.ones(1), cache)
+    >>> y = cache
-    out = o.store(x, c)
-    return store(x, c), out
+    o.store(x, c)
+    out = c
+    store(x, c)
+    return c, out
"""
    )
    assert not migration.findings


def test_a_release_without_tags_gets_an_op_that_returns_nothing(tmp_path: Path) -> None:
    code = f"{FADE}\n\ndef f(x):\n    return fade_(x, 2.0)\n"
    new, migration = after({"ops.py": code}, tmp_path, Options(target=(2, 12)))
    assert [plan.does for plan in migration.plans] == ["made to return nothing"]
    assert new["ops.py"].endswith("    fade_(x, 2.0)\n    return x\n")


def test_a_low_level_op_keeps_what_it_returns_unless_asked(tmp_path: Path) -> None:
    code = (
        HEADER
        + """\
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("store(Tensor x, Tensor(a!) cache) -> Tensor")


@torch.library.impl(lib, "store", "CPU")
def _store(x, cache):
    return cache.copy_(x)
"""
    )
    assert "would get None" in reason({"ops.py": code}, tmp_path, Options())
    new, _ = after({"ops.py": code}, tmp_path)
    assert changed_lines(code, new["ops.py"]) == (
        '-lib.define("store(Tensor x, Tensor(a!) cache) -> Tensor")\n'
        '+lib.define("store(Tensor x, Tensor(a!) cache) -> ()")\n'
        "-    return cache.copy_(x)\n+    cache.copy_(x)\n"
    )


def test_an_overload_is_renamed_only_where_that_is_asked_for(tmp_path: Path) -> None:
    code = PROGRAMS["rename"][0]
    assert "would not find it under another name" in reason({"ops.py": code}, tmp_path, Options())


RENAMED = HEADER + (
    """\
@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0) -> Tensor:
    return x * k


@torch.library.custom_op("demo::scale.out", mutates_args={"out"}, tags=torch.Tag.out)
def scale_out(x: Tensor, k: float = 2.0, *, out: Tensor) -> Tensor:
    return torch.mul(x, k, out=out)


@scale.register_fake
def _(x, k=2.0):
    return torch.empty_like(x)


"""
)
LEFT = [
    ("f = torch.ops.demo.scale", "all overloads of the name are used here as a value"),
    ("torch.ops.demo.scale(*x)", "a call with star arguments may mean this overload"),
    ('f = getattr(torch.ops.demo, "scale").out', "is not written out here"),
    (
        'torch.library.define("demo::scale_out", "(Tensor x) -> Tensor")',
        "there is an op `demo::scale_out` already",
    ),
]


@pytest.mark.parametrize(("use", "why"), LEFT)
def test_an_overload_that_may_be_meant_out_of_reach_keeps_its_name(
    use: str, why: str, tmp_path: Path
) -> None:
    assert why in reason({"ops.py": RENAMED + use + "\n"}, tmp_path)


CASES = Path(__file__).resolve().parent.parent / "cases"
CHECKS = {
    "046_inplace_returns_self_untagged": """

def check():
    called = sample_calls()
    assert called["a"] is called["b"] is None
    assert called["x"].item() == 1.5
    x = torch.ones(3, 2).t()
    assert fade_(x, 2.0) is x
    assert bump_(x) is x
    for op, args in ((fade_, (torch.ones(2), 2.0)), (bump_, (torch.ones(2, 3).t(),))):
        torch.library.opcheck(op, args)
        assert torch.Tag.inplace in op._opoverload.tags
""",
    "048_inplace_two_args_tuple_returned": """

def check():
    assert sample_calls() == {"err": None}
    x, res, w = torch.randn(3, 4), torch.randn(3, 4), torch.randn(4)
    y, kept = x.clone(), res.clone()
    total = kept + y
    normed = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-6) * w
    torch.testing.assert_close(block(x, res, w), normed + total)
    torch.testing.assert_close(x, normed)
    torch.testing.assert_close(res, total)
    assert torch.ops.crag.add_norm.default(y, kept, w) is None
    torch.library.opcheck(add_norm, (y, kept, w))
    torch._dynamo.reset()
    x, res = torch.randn(3, 4), torch.randn(3, 4)
    expected = block(x.clone(), res.clone(), w)
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, res, w), expected)
""",
}
CASE_LINES = {
    "046_inplace_returns_self_untagged": """\
-@torch.library.custom_op("crag::fade_", mutates_args=("x",))
+@torch.library.custom_op("crag::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
-@fade_.register_fake
-def _(x, k):
-    return x
-
-
-@torch.library.custom_op("crag::bump_", mutates_args=("x",))
+@torch.library.custom_op("crag::bump_", mutates_args=("x",), tags=torch.Tag.inplace)
""",
    "048_inplace_two_args_tuple_returned": """\
-@torch.library.custom_op("crag::add_norm", mutates_args=("x", "res", "weight"))
-def add_norm(x: Tensor, res: Tensor, weight: Tensor, eps: float = 1e-6) -> Tuple[Tensor, Tensor]:
+@torch.library.custom_op("crag::add_norm", mutates_args=("x", "res"))
+def add_norm(x: Tensor, res: Tensor, weight: Tensor, eps: float = 1e-6) -> None:
-    return x, res
-    x, res = add_norm(x, res, w)
+    add_norm(x, res, w)
""",
}


CASES_HERE = tuple(CHECKS)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cases in patterns of real code, migrated by the command."""
    root = tmp_path_factory.mktemp("cases")
    for name in CASES_HERE:
        copy = root / name
        shutil.copytree(CASES / name, copy)
        assert cli("migrate", copy, "--root", copy, "--write").code in (0, 1)
        assert cli("migrate", copy, "--root", copy).out == b""
    return root


@pytest.mark.parametrize("name", CASES_HERE)
def test_a_case_changes_as_its_note_says(name: str, cases: Path) -> None:
    before = (CASES / name / "before.py").read_text()
    assert changed_lines(before, (cases / name / "before.py").read_text()) == CASE_LINES[name]


@pytest.mark.torch
def test_cases_run_as_they_were_meant_to(cases: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for name in CASES_HERE:
        text = (cases / name / "before.py").read_text()
        (tmp_path / f"case_{name}.py").write_text(text + CHECKS[name])
    failures = json.loads(python(RUNNER, tmp_path).splitlines()[-1])
    assert not failures, "\n".join(f"{k}: {v}" for k, v in failures.items())
