"""What ``opscaffold check`` finds, shows and answers."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from checking import BREACH, CLEAN, Checker

PACKAGE = Path(__file__).resolve().parent.parent.parent
MAYBE_OUT = [("ops.py", 6, "OPS101")]


def test_a_clean_project_exits_with_0(project: Checker) -> None:
    project.write("ops.py", CLEAN)
    assert project.run() == (0, "0 findings; 1 op read\n", "")


def test_a_breach_exits_with_1_and_is_shown_where_it_stands(project: Checker) -> None:
    project.write("ops.py", BREACH)
    code, out, _ = project.run("--select", "OPS101")
    assert code == 1
    first, *rest = out.splitlines()
    assert first.startswith("ops.py:6:23: OPS101 maybe-out: ")
    assert rest[:3] == [
        "  |",
        "6 | def double(x: Tensor, out: Tensor | None = None) -> Tensor:",
        "  |                       ^^^",
    ]
    assert "  = see ops.py:9:12: return torch.mul(x, 2, out=out)" in rest
    assert rest[-1] == "1 finding (1 error); 1 op read"


def test_exit_zero_shows_the_same(project: Checker) -> None:
    project.write("ops.py", BREACH)
    code, out, _ = project.run()
    assert code == 1
    assert project.run("--exit-zero") == (0, out, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nowhere.py"],
        ["--select", "OPS9"],
        ["--ignore", "maybe-ot"],
        ["--format", "xml"],
        ["--root", "nowhere"],
        ["--write-baseline"],
        ["--baseline", "nowhere.json"],
        ["--list-ops", "--format", "sarif"],
        ["--stdin-filename", "a.py"],
        ["-", "ops.py"],
        ["--diff-base", "HEAD"],
    ],
)
def test_wrong_usage_exits_with_2(project: Checker, arguments: list[str]) -> None:
    project.write("ops.py", BREACH)
    code, out, err = project.run(*arguments)
    assert (code, out) == (2, "")
    assert err


def test_a_wrong_configuration_exits_with_2_and_names_its_line(project: Checker) -> None:
    project.write("pyproject.toml", "[tool.opscaffold]\n\nselct = []\n")
    assert project.run() == (
        2,
        "",
        "opscaffold: error: pyproject.toml:3: unknown key 'selct'; did you mean 'select'?\n",
    )


def test_a_rule_that_is_not_is_named_where_it_is_configured(project: Checker) -> None:
    project.write("pyproject.toml", '[tool.opscaffold]\nignore = ["maybe-ot"]\n')
    code, _, err = project.run()
    assert code == 2
    assert "pyproject.toml:2: ignore: there is no rule 'maybe-ot'; did you mean 'maybe-out'?" in err


@pytest.mark.parametrize(
    ("configured", "arguments", "reported"),
    [
        ("", [], True),
        ("", ["--ignore", "OPS1"], False),
        ("", ["--ignore", "maybe-out,optional-side-output"], False),
        ("", ["--ignore", "OPS1", "--select", "OPS101"], True),
        ("", ["--select", "OPS001"], False),
        ("", ["--select", "ops101"], True),
        ('ignore = ["OPS101"]', [], False),
        ('ignore = ["OPS101"]', ["--select", "ALL"], True),
        ('ignore = ["OPS002"]', ["--ignore", "OPS101"], False),
        ('select = ["OPS001"]', [], False),
        ('select = ["OPS001"]', ["--select", "maybe-out"], True),
        ('select = ["OPS1"]\nignore = ["ALL"]', [], True),
        ('per-file-ignores = { "op*.py" = ["OPS101"] }', [], False),
        ('per-file-ignores = { "lib/" = ["OPS101"] }', [], True),
        ('exclude = ["ops.py"]', ["."], False),
        ('exclude = ["ops.py"]', ["ops.py"], True),
        ('exclude = ["ops.py"]', [".", "--exclude", "other.py"], True),
        ('extend-exclude = ["ops.py"]', [".", "--exclude", "other.py"], False),
    ],
)
def test_which_rules_and_files_count(
    project: Checker, configured: str, arguments: list[str], reported: bool
) -> None:
    project.write("ops.py", BREACH)
    project.write("pyproject.toml", f"[tool.opscaffold]\n{configured}\n")
    assert ((*MAYBE_OUT[0],) in project.found(*arguments)) is reported


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("= None) -> Tensor:", "= None) -> Tensor:  # opscaffold: ignore[OPS101]"),
        ('("out",))', '("out",))  # noqa  # opscaffold:ignore[ maybe-out , ]'),
        ('("out",))', '("out",))  # Opscaffold: Ignore[ops101]'),
        ('("out",))', '("out",))  # OPSCAFFOLD:IGNORE[Maybe-Out]'),
        ("def double(x: Tensor,", "def double(  # opscaffold: ignore[OPS101]\n    x: Tensor,\n   "),
    ],
)
def test_a_comment_holds_a_finding_back(project: Checker, old: str, new: str) -> None:
    project.write("ops.py", BREACH.replace(old, new))
    assert project.found("--select", "OPS0,OPS101") == []


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# opscaffold: ignore[OPS102]", ["OPS002", "OPS101"]),
        ("# opscaffold: ignore[OPS101, OPS102]", ["OPS002"]),
        ("# opscaffold: ignore[OPS101, OPS102, OPS002]", []),
        ("# opscaffold: ignore[OPS1]", ["OPS002", "OPS101"]),
        ("# opscaffold: ignore", ["OPS004", "OPS101"]),
        ("# opscaffold: ignore[]", ["OPS004", "OPS101"]),
        ("# opscaffold: ignore all of it", ["OPS004", "OPS101"]),
        ("# opscaffold: ignored", ["OPS101"]),
    ],
)
def test_comments_are_held_to_what_they_say(
    project: Checker, comment: str, expected: list[str]
) -> None:
    project.write("ops.py", BREACH.replace("= None) -> Tensor:", f"= None) -> Tensor:  {comment}"))
    found = project.found("--select", "OPS0,OPS101,OPS102")
    assert sorted(code for _, _, code in found) == expected


def test_a_comment_about_a_rule_that_is_off_is_not_called_unused(project: Checker) -> None:
    project.write("ops.py", "x = 1  # opscaffold: ignore[OPS101]\n")
    assert [code for *_, code in project.found()] == ["OPS002"]
    assert project.found("--ignore", "OPS101") == []


def test_what_looks_like_a_comment_in_a_string_is_none(project: Checker) -> None:
    quoted = BREACH.replace(
        '"demo::double"', '"demo::double" "" "# opscaffold: ignore[OPS101]"[:0]'
    )
    project.write("ops.py", quoted)
    project.write("text.py", 'x = """\n# opscaffold: ignore[OPS101]\n"""\n')
    found = project.found("--select", "OPS0")
    assert found == []


def test_a_file_that_cannot_be_read_is_a_finding_and_stops_nothing(project: Checker) -> None:
    project.write("ops.py", BREACH)
    project.write("broken.py", "import torch.library\ndef f(:\n")
    project.write("latin.py", b"# custom_op \xff\n")
    assert project.found("--select", "OPS001,OPS101") == [
        ("broken.py", 2, "OPS001"),
        ("latin.py", 1, "OPS001"),
        *MAYBE_OUT,
    ]


def test_a_file_named_by_itself_is_looked_at_whatever_it_holds(project: Checker) -> None:
    project.write("broken.txt", "no python")
    assert project.found("broken.txt") == [("broken.txt", 1, "OPS001")]


def stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))


def test_stdin_stands_for_a_file_of_the_project(
    project: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("pkg/ops.py", CLEAN)
    stdin(monkeypatch, BREACH)
    found = project.found("--select", "OPS101", "-", "--stdin-filename", "pkg/ops.py")
    assert found == [("pkg/ops.py", 6, "OPS101")]


def test_stdin_needs_no_name(project: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, BREACH)
    assert project.found("--select", "OPS101", "-") == [("stdin.py", 6, "OPS101")]


def test_a_baseline_lets_only_new_breaches_fail(project: Checker) -> None:
    project.write("ops.py", BREACH)
    code, out, err = project.run("--baseline", "known.json", "--write-baseline")
    assert (code, out) == (0, "")
    assert "written to known.json" in err
    code, out, _ = project.run("--baseline", "known.json")
    assert code == 0
    assert "more in the baseline" in out
    project.write("ops.py", "# One line\n# and another.\n\n" + BREACH)
    assert project.found("--baseline", "known.json") == []
    second = BREACH[BREACH.index("@torch") :].replace("double", "again")
    project.write("ops.py", BREACH + "\n\n" + second)
    found = project.found("--select", "OPS101", "--baseline", "known.json")
    assert found == [("ops.py", 18, "OPS101")]


def test_a_baseline_counts_what_looks_the_same(project: Checker) -> None:
    line = "x = 1  # opscaffold: ignore[OPS101]\n"
    project.write("ops.py", line)
    project.run("--baseline", "known.json", "--write-baseline")
    project.write("ops.py", line + line)
    assert project.found("--baseline", "known.json") == [("ops.py", 2, "OPS002")]


def test_a_baseline_is_the_same_for_the_same_findings(project: Checker) -> None:
    project.write("ops.py", BREACH)
    project.run("--baseline", "a.json", "--write-baseline")
    project.run("--baseline", "b.json", "--write-baseline")
    a, b = (project.directory / name for name in ("a.json", "b.json"))
    assert a.read_bytes() == b.read_bytes()
    assert json.loads(a.read_text("utf-8"))["version"] == 1


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"version": 2}', '{"version": 1}', '{"version": 1, "findings": [{"path": "a"}]}'],
)
def test_what_is_no_baseline_is_refused(project: Checker, text: str) -> None:
    project.write("known.json", text)
    code, _, err = project.run("--baseline", "known.json")
    assert code == 2
    assert "known.json" in err


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


def test_only_changed_lines_are_reported(project: Checker) -> None:
    project.write("ops.py", BREACH)
    git(project.directory, "init", "-q")
    git(project.directory, "add", "-A")
    git(project.directory, "commit", "-q", "-m", "start")
    assert project.found("--diff-base", "HEAD") == []
    project.write("ops.py", "# Shifted.\n" + BREACH)
    assert project.found("--diff-base", "HEAD") == []
    project.write("ops.py", BREACH.replace("def double(x:", "def double( x:"))
    assert project.found("--select", "OPS101", "--diff-base", "HEAD") == MAYBE_OUT
    project.write("ops.py", BREACH.replace("torch.mul(x, 2,", "torch.mul(x, 2.0,"))
    assert project.found("--select", "OPS101", "--diff-base", "HEAD") == MAYBE_OUT
    project.write("ops.py", BREACH)
    project.write("new.py", BREACH.replace("double", "other"))
    assert project.found("--select", "OPS101", "--diff-base", "HEAD") == [("new.py", 6, "OPS101")]
    assert project.run("--diff-base", "no-such-revision")[0] == 2


@pytest.mark.parametrize("shape", ["text", "concise", "json", "sarif", "github"])
def test_every_format_goes_to_a_file_too(project: Checker, shape: str) -> None:
    project.write("ops.py", BREACH)
    code, shown, _ = project.run("--format", shape)
    again, out, err = project.run("--format", shape, "--output", "report.out")
    assert (code, again, out) == (1, 1, "")
    assert "written to report.out" in err
    assert (project.directory / "report.out").read_text("utf-8") == shown


def test_the_order_of_paths_does_not_matter(project: Checker) -> None:
    for name in ("b.py", "a/z.py", "a/b.py"):
        project.write(name, BREACH.replace("double", Path(name).stem))
    one = project.run("a", "b.py")
    assert one == project.run("b.py", "a/z.py", "a/b.py")
    assert one[0] == 1


def test_ops_are_listed_with_all_their_registrations(project: Checker) -> None:
    project.write("ops.py", CLEAN)
    project.write("low.py", LOW_LEVEL)
    code, out, _ = project.run("--list-ops")
    assert code == 0
    header, *_ = out.splitlines()
    assert header.split() == ["OP", "KIND", "FORM", "MUTATES", "KERNELS", "DEFINED"]
    assert "    schema: demo::triple(Tensor x) -> Tensor" in out
    ops = {op["name"]: op for op in project.document("--list-ops")["ops"]}
    assert ops["demo::triple"] == {
        "name": "demo::triple",
        "kind": "functional",
        "form": "custom_op (decorator)",
        "path": "ops.py",
        "line": 5,
        "function": "triple",
        "mutates": [],
        "schema": "demo::triple(Tensor x) -> Tensor",
        "kernels": [
            {
                "role": "custom_op",
                "function": "triple",
                "path": "ops.py",
                "line": 6,
                "sight": "understood",
            }
        ],
        "registrations": [
            {"role": "custom_op", "form": "decorator", "path": "ops.py", "line": 5},
            {"role": "register_fake", "form": "decorator", "path": "ops.py", "line": 10},
        ],
    }
    fill = ops["demo::fill"]
    assert (fill["kind"], fill["mutates"]) == ("mutable", ["x"])
    assert [kernel["sight"] for kernel in fill["kernels"]] == ["opaque", "not in sight"]


LOW_LEVEL = """\
import torch
from backend import fill_cuda, run

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("fill(Tensor(a!) x) -> ()")


def fill(x):
    run(x)


lib.impl("fill", fill, "CPU")
lib.impl("fill", fill_cuda, "CUDA")
"""


def test_a_project_without_ops_lists_none(project: Checker) -> None:
    project.write("plain.py", "x = 1\n")
    assert project.run("--list-ops")[:2] == (0, "no ops\n")


def test_a_described_helper_is_checked(project: Checker) -> None:
    body = BREACH[BREACH.index("def double") : BREACH.index("@double")]
    project.write(
        "ops.py",
        "import torch\nfrom torch import Tensor\nfrom kernels import register_custom_op\n\n\n"
        '@register_custom_op("demo::double", mutates=["out"])\n' + body,
    )
    assert [code for *_, code in project.found()] == ["OPS003"]
    shown = project.document()["findings"][0]["remedy"]
    table = shown.partition("\n")[2]
    project.write("opscaffold.toml", table.replace("[[tool.opscaffold.", "[["))
    assert "OPS101" in [code for *_, code in project.found()]
    assert "OPS003" not in [code for *_, code in project.found()]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("shape", ["text", "concise", "json", "sarif", "github"])
def test_any_name_is_shown_on_any_terminal(project: Checker, shape: str, encoding: str) -> None:
    name = os.fsdecode(b"caf\xc3\xa9 \xff.py")
    try:
        project.write(name, BREACH.replace("demo::double", "demo::\u6570"))
    except OSError:
        pytest.skip("this file system takes no such name")
    done = subprocess.run(
        [sys.executable, "-m", "opscaffold", "check", "--format", shape, "--select", "OPS101"],
        env=os.environ | {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    if shape in ("json", "sarif"):
        assert "\u6570" in json.dumps(json.loads(done.stdout), ensure_ascii=False)


@pytest.mark.parametrize(
    ("comment", "message", "remedy"),
    [
        (
            "# opscaffold: ignore[OPS101]\n",
            (
                "OPS101 is not reported here, so this comment holds nothing back: it stands alone "
                "on its line, and is about no other"
            ),
            "put it behind the statement that it is about, on a line of that, or remove the code",
        ),
        (
            "x = 1  # opscaffold: ignore[OPS101]\n",
            "OPS101 is not reported here, so this comment holds nothing back",
            "remove the code from the comment",
        ),
        (
            "# opscaffold: ignore[OPS999]\n",
            (
                "there is no rule 'OPS999', so this comment holds nothing back; `opscaffold "
                "explain` lists all rules"
            ),
            "remove the code from the comment",
        ),
        (
            "x = 1  # opscaffold: ignore[maybe-outs]\n",
            (
                "there is no rule 'maybe-outs', so this comment holds nothing back; did you mean "
                "'maybe-out'?"
            ),
            "remove the code from the comment",
        ),
    ],
)
def test_an_idle_comment_is_told_what_to_do(
    project: Checker, comment: str, message: str, remedy: str
) -> None:
    project.write("ops.py", comment + BREACH)
    findings = project.document("--select", "OPS002,OPS101")["findings"]
    (finding,) = (each for each in findings if each["code"] == "OPS002")
    assert (finding["message"], finding["remedy"]) == (message, remedy)
    start, end = finding["column"], finding["end_column"]
    assert comment[start - 1 : end - 1] == comment[comment.index("#") :].rstrip()


def test_a_wrong_choice_is_told_without_its_exception(project: Checker) -> None:
    code, _, err = project.run("--format", "full")
    assert code == 2
    assert "'full'" in err
    assert "Value error" not in err


@pytest.mark.parametrize(
    ("result", "value", "said"),
    [
        ("Tensor", "x * 2", "returns a tensor"),
        ("list[Tensor]", "[x * 2]", "returns a tensor"),
        ("int", "x.numel()", "returns a value"),
        ("tuple[int, float]", "(1, 2.0)", "returns values"),
    ],
)
def test_a_missing_fake_says_what_is_returned(
    project: Checker, result: str, value: str, said: str
) -> None:
    text = CLEAN.partition("@triple.register_fake")[0].replace("-> Tensor", f"-> {result}")
    project.write("ops.py", text.replace("x * 3", value) + "run = torch.compile(triple)\n")
    (finding,) = project.document("--select", "OPS110")["findings"]
    assert f"the op {said} and has no fake kernel" in finding["message"]


def test_a_buffer_that_is_never_allocated_is_not_called_so(project: Checker) -> None:
    text = BREACH.replace("    if out is None:\n        out = torch.empty_like(x)\n", "")
    text = text.replace(
        "return torch.mul(x, 2, out=out)", "torch.mul(x, 2, out=out)\n    return out"
    )
    project.write("ops.py", text)
    (finding,) = project.document("--select", "OPS101")["findings"]
    assert finding["message"].startswith("`out` is returned when given")
