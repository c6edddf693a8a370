"""What becomes of a kernel's body: tests of the buffer fold away, all else stays."""

from __future__ import annotations

import textwrap

import pytest
from migrating import HEADER, check_migrated, check_noop, migrated, reasons

HEAD = '@torch.library.custom_op("demo::double", mutates_args=("out",))\n'
SIGNATURE = "def double(x: Tensor, out: Tensor | None = None) -> Tensor:\n"


def source(body: str, more: str = "") -> str:
    return HEADER + more + HEAD + SIGNATURE + textwrap.indent(textwrap.dedent(body), "    ")


def halves(body: str, more: str = "") -> tuple[str, str]:
    """The bodies of the functional and the out= op; a helper that was split off put back in."""
    text = migrated(source(body, more))
    assert "_double_kernel" not in text, "write the test with fewer shared lines"
    return body_of(text, "double"), body_of(text, "double_out")


def body_of(text: str, name: str) -> str:
    lines = text[text.index(f"def {name}(") :].split("\n")[1:]
    kept = []
    for line in lines:
        if line and not line.startswith(" "):
            break
        kept.append(line)
    return textwrap.dedent("\n".join(kept)).strip("\n")


WRITE = "out.copy_(x)\nreturn out\n"

FOLDED = {
    "if block": (
        "if out is None:\n    out = torch.empty_like(x)\n" + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        WRITE,
    ),
    "if and else": (
        "if out is None:\n    y = torch.empty_like(x)\nelse:\n    y = out\ny.copy_(x)\nreturn y\n",
        "y = torch.empty_like(x)\ny.copy_(x)\nreturn y\n",
        "y = out\ny.copy_(x)\nreturn y\n",
    ),
    "negated": (
        (
            "if not out is None:\n    y = out\nelse:\n    y = torch.empty_like(x)\n"
            "y.copy_(x)\nreturn y\n"
        ),
        "y = torch.empty_like(x)\ny.copy_(x)\nreturn y\n",
        "y = out\ny.copy_(x)\nreturn y\n",
    ),
    "compared by equality": (
        "if out == None:\n    out = torch.empty_like(x)\n" + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        WRITE,
    ),
    "ternary": (
        "out = out if out is not None else torch.empty_like(x)\n" + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        WRITE,
    ),
    "inverted ternary in parentheses": (
        "out = (torch.empty_like(x) if None is out else out)\n" + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        WRITE,
    ),
    "or": (
        "out = out or torch.empty_like(x)\n" + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        WRITE,
    ),
    "elif chain": (
        "if out is None:\n    out = torch.empty_like(x)\n"
        'elif out.shape != x.shape:\n    raise ValueError("shape")\n'
        'elif out.dtype != x.dtype:\n    raise ValueError("dtype")\n' + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        'if out.shape != x.shape:\n    raise ValueError("shape")\n'
        'elif out.dtype != x.dtype:\n    raise ValueError("dtype")\n' + WRITE,
    ),
    "buffer tested in an elif": (
        'if x.dim() == 0:\n    raise ValueError("0-d")\n'
        "elif out is None:\n    out = torch.empty_like(x)\n"
        'elif out.shape != x.shape:\n    raise ValueError("shape")\n' + WRITE,
        'if x.dim() == 0:\n    raise ValueError("0-d")\n'
        "else:\n    out = torch.empty_like(x)\n" + WRITE,
        'if x.dim() == 0:\n    raise ValueError("0-d")\n'
        'elif out.shape != x.shape:\n    raise ValueError("shape")\n' + WRITE,
    ),
    "one line": (
        "if out is None: out = torch.empty_like(x)\n" + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        WRITE,
    ),
    "one line and else": (
        "if out is None: out = torch.empty_like(x)\nelse: assert out.shape == x.shape\n" + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        "assert out.shape == x.shape\n" + WRITE,
    ),
    "several on a line": (
        "if out is None: y = x.new_empty(x.shape); out = y\nout.copy_(x); return out\n",
        "y = x.new_empty(x.shape); out = y\nout.copy_(x); return out\n",
        "out.copy_(x); return out\n",
    ),
    "nested": (
        "if x.dim() > 1:\n    if out is None:\n        out = x.new_empty(x.shape)\n"
        '    else:\n        if out.dtype != x.dtype:\n            raise ValueError("dtype")\n'
        "elif out is None:\n    out = torch.empty_like(x)\n" + WRITE,
        "if x.dim() > 1:\n    out = x.new_empty(x.shape)\n"
        "else:\n    out = torch.empty_like(x)\n" + WRITE,
        'if x.dim() > 1:\n    if out.dtype != x.dtype:\n        raise ValueError("dtype")\n'
        + WRITE,
    ),
    "early return": (
        "if x.numel() == 0:\n    return torch.empty_like(x) if out is None else out\n"
        "if out is None:\n    out = torch.empty_like(x)\n" + WRITE,
        "if x.numel() == 0:\n    return torch.empty_like(x)\nout = torch.empty_like(x)\n" + WRITE,
        "if x.numel() == 0:\n    return out\n" + WRITE,
    ),
    "what follows a return goes": (
        "if out is None:\n    return x * 2\ntorch.mul(x, 2, out=out)\nreturn out\n",
        "return x * 2\n",
        "torch.mul(x, 2, out=out)\nreturn out\n",
    ),
    "computed first": (
        "y = x * 2\nif out is not None:\n    out.copy_(y)\n    return out\nreturn y\n",
        "y = x * 2\nreturn y\n",
        "y = x * 2\nout.copy_(y)\nreturn out\n",
    ),
    "flag": (
        "fresh = out is None\nif fresh:\n    out = torch.empty_like(x)\n" + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        WRITE,
    ),
    "and": (
        'if out is not None and out.shape != x.shape:\n    raise ValueError("shape")\n'
        "if out is None:\n    out = torch.empty_like(x)\n" + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        'if out.shape != x.shape:\n    raise ValueError("shape")\n' + WRITE,
    ),
    "assert": (
        "assert out is None or out.shape == x.shape, f'bad {out}'\n"
        "if out is None:\n    out = torch.empty_like(x)\n" + WRITE,
        "out = torch.empty_like(x)\n" + WRITE,
        "assert out.shape == x.shape, f'bad {out}'\n" + WRITE,
    ),
    "a use of the test's value": (
        'print("given" if out is not None else "fresh", out is None)\n'
        "if out is None:\n    out = torch.empty_like(x)\n" + WRITE,
        'print("fresh", True)\nout = torch.empty_like(x)\n' + WRITE,
        'print("given", False)\n' + WRITE,
    ),
    "inside with": (
        (
            "with torch.no_grad():\n    if out is None:\n        out = torch.empty_like(x)\n"
            "    out.copy_(x)\nreturn out\n"
        ),
        "with torch.no_grad():\n    out = torch.empty_like(x)\n    out.copy_(x)\nreturn out\n",
        "with torch.no_grad():\n    out.copy_(x)\nreturn out\n",
    ),
    "passed on to torch": (
        "return torch.mul(x, 2, out=out)\n",
        "return torch.mul(x, 2)\n",
        "return torch.mul(x, 2, out=out)\n",
    ),
    "deleted": (
        (
            "if out is None:\n    y = torch.empty_like(x)\nelse:\n    y = out\n    del out\n"
            "y.copy_(x)\nreturn y\n"
        ),
        "y = torch.empty_like(x)\ny.copy_(x)\nreturn y\n",
        "y = out\ndel out\ny.copy_(x)\nreturn y\n",
    ),
}


@pytest.mark.parametrize("name", FOLDED)
def test_tests_of_the_buffer_fold_away(name: str) -> None:
    body, functional, out = FOLDED[name]
    assert halves(body) == (functional.strip("\n"), out.strip("\n"))


KEPT = {
    "constant": "if True:\n    out.copy_(x)\n",
    "constant flag": "verbose = False\nif verbose:\n    print(x)\n",
    "function of the project": "if use_fast():\n    out.copy_(x)\n",
    "or of two tensors": "y = x or torch.ones(1)\nout.copy_(y)\n",
    "loop": "while True:\n    break\n",
    "flag of a loop": "seen = False\nfor i in range(3):\n    if seen:\n        out[i] = 0\n"
    "    seen = True\n",
}


@pytest.mark.parametrize("name", KEPT)
def test_tests_that_the_buffer_does_not_decide_stay(name: str) -> None:
    more = "def use_fast():\n    return True\n\n\n"
    text = migrated(
        source(
            f"if out is None:\n    out = torch.empty_like(x)\n{KEPT[name]}out.copy_(x)\n"
            "return out\n",
            more,
        )
    )
    for line in KEPT[name].splitlines():
        assert text.count(f"    {line}\n") >= 1, text


def test_comments_go_with_the_branch_they_stand_in() -> None:
    functional, out = halves(
        """\
        # about the buffer
        if out is None:  # nothing given
            # allocate it
            out = torch.empty_like(x)  # fresh
            # allocated
        else:  # given
            # validate it
            assert out.shape == x.shape  # same shape
        # compute
        out.copy_(x)  # copied
        # done
        return out
        """
    )
    assert functional == textwrap.dedent(
        """\
        # about the buffer
        # nothing given
        # allocate it
        out = torch.empty_like(x)  # fresh
        # allocated
        # compute
        out.copy_(x)  # copied
        # done
        return out"""
    )
    assert out == textwrap.dedent(
        """\
        # about the buffer
        # given
        # validate it
        assert out.shape == x.shape  # same shape
        # compute
        out.copy_(x)  # copied
        # done
        return out"""
    )


def test_blank_lines_between_statements_stay() -> None:
    functional, out = halves(
        """\
        if out is None:
            out = torch.empty_like(x)

        out.copy_(x)

        return out
        """
    )
    assert functional == "out = torch.empty_like(x)\n\nout.copy_(x)\n\nreturn out"
    assert out == "out.copy_(x)\n\nreturn out"


def test_whole_module() -> None:
    check_migrated(
        '''\
        """Ops."""

        import torch
        from torch import Tensor

        FACTOR = 2  # doubled


        # Twice the input.
        @torch.library.custom_op("demo::double", mutates_args=("out",))
        def double(
            x: Tensor,  # any shape
            out: Tensor | None = None,  # where to
        ) -> Tensor:
            """Double.

            Args:
                x: the input.
                out: optional buffer.
            """
            if out is None:
                out = torch.empty_like(x)
            torch.mul(x, FACTOR, out=out)
            return out


        def use(x: Tensor) -> Tensor:
            return double(x, None)  # fresh
        ''',
        '''\
        """Ops."""

        import torch
        from torch import Tensor

        FACTOR = 2  # doubled


        # Twice the input.
        @torch.library.custom_op("demo::double", mutates_args=())
        def double(
            x: Tensor,  # any shape
        ) -> Tensor:
            """Double.

            Args:
                x: the input.
            """
            out = torch.empty_like(x)
            torch.mul(x, FACTOR, out=out)
            return out


        @double.register_fake
        def _double_fake(x: Tensor) -> Tensor:
            return torch.empty_like(x)


        @torch.library.custom_op("demo::double_out", mutates_args=("out",), tags=torch.Tag.out)
        def double_out(
            x: Tensor,  # any shape
            *,
            out: Tensor,  # where to
        ) -> Tensor:
            """Double.

            Args:
                x: the input.
                out: the buffer to write the result to; it is overwritten and returned.
            """
            torch.mul(x, FACTOR, out=out)
            return out


        def use(x: Tensor) -> Tensor:
            return double(x)  # fresh
        ''',
    )


ALLOCATE = "if out is None:\n    out = torch.zeros_like(x)\n"

REFUSED = {
    "assigned in the test": (
        "if (y := out) is None:\n    y = torch.empty_like(x)\ny.copy_(x)\nreturn y\n",
        "also calls code or binds a name",
    ),
    "call in the test": (
        "if note(out) is None:\n    out = torch.empty_like(x)\n" + WRITE,
        "also calls code or binds a name",
    ),
    "call beside the test": (
        "if note(x).any() or out is None:\n    print(1)\n" + ALLOCATE + WRITE,
        "also calls code or binds a name",
    ),
    "accumulated": (ALLOCATE + "out.add_(x)\nreturn out\n", "reads what `out` held before"),
    "partly written, then read": (
        ALLOCATE + "out[0] = 1\nout.neg_()\nreturn out\n",
        "reads what `out` held before",
    ),
    "resized": (ALLOCATE + "out.resize_(3)\n" + WRITE, "changes the shape or storage of `out`"),
    "part of it": (ALLOCATE + "out.copy_(x)\nreturn out[:1]\n", "a part or another shape"),
    "a copy of it": (ALLOCATE + "out.copy_(x)\nreturn out.clone()\n", "beside a returned tensor"),
    "sometimes": (
        ALLOCATE + "out.copy_(x)\nif x.dim():\n    return out\nreturn x + 1\n",
        "on some paths",
    ),
    "out of sight": (ALLOCATE + "return ext.run(x, out)\n", "code out of sight"),
    "memory not allocated in sight": (
        "if out is None:\n    out = CACHE\n" + WRITE,
        "did not allocate in sight",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_split_stays_with_a_reason(name: str) -> None:
    body, reason = REFUSED[name]
    more = "CACHE = torch.zeros(3)\n\n\ndef note(t):\n    print(1)\n    return t\n\n\n"
    migration = check_noop(source(body, more))
    assert reason in reasons(migration)[0]
    assert all(finding.remedy for finding in migration.findings)
    assert {finding.code for finding in migration.findings} <= {"OPS101", "OPS102", "OPS205"}


def test_a_buffer_that_a_project_function_needs_is_still_passed() -> None:
    more = """\
def _run(x, out):
    if out is None:
        out = torch.empty_like(x)
    out.copy_(x)
    return out


"""
    functional, out = halves("return _run(x, out=out)\n", more)
    assert functional == "return _run(x, out=None)"
    assert out == "return _run(x, out=out)"
