"""What other systems take from the repository: hooks, the action, and the examples for them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parent.parent
HOOKS = {
    hook["id"]: hook
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
}
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
SCRIPT = ROOT / "tools" / "action.sh"
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

BREACH = """
import torch

@torch.library.custom_op("demo::same", mutates_args=())
def same(x: torch.Tensor) -> torch.Tensor:
    return x

@same.register_fake
def _(x):
    return torch.empty_like(x)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "a project"
    (project / "src").mkdir(parents=True)
    (project / "pyproject.toml").write_text(
        '[tool.opscaffold]\nexclude = ["/made/"]\n', encoding="utf-8"
    )
    (project / "src" / "ops.py").write_text(BREACH, encoding="utf-8")
    (project / "src" / "plain.py").write_text("x = 1\n", encoding="utf-8")
    (project / "made").mkdir()
    (project / "made" / "ops.py").write_text(BREACH, encoding="utf-8")
    return project


def run_hook(name: str, project: Path, *files: str) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(HOOKS[name]["entry"])
    assert program == "opscaffold"
    return subprocess.run(
        [sys.executable, "-m", "opscaffold", *arguments, *files],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_fails_for_a_file_with_a_breach(name: str, project: Path) -> None:
    done = run_hook(name, project, "src/plain.py", "src/ops.py")
    assert done.returncode == 1, done.stderr
    assert "demo::same" in done.stdout + done.stderr or "OPS201" in done.stdout


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_passes_over_what_is_excluded(name: str, project: Path) -> None:
    done = run_hook(name, project, "src/plain.py", "made/ops.py")
    assert done.returncode == 0, done.stdout + done.stderr


def run_action(project: Path, **inputs: str) -> tuple[int, str, dict[str, str]]:
    """Run the script as the action does; return its exit code, output and what it told GitHub."""
    told = {name: project.parent / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    given = {
        "INPUT_" + name.upper().replace("-", "_"): str(inputs.get(name, one["default"]))
        for name, one in ACTION["inputs"].items()
    } | {"INPUT_PYTHON": sys.executable}
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, str(SCRIPT)],
        cwd=project,
        env=os.environ
        | given
        | {name: str(path) for name, path in told.items()}
        | {"ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(project.parent), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    written = {
        name: path.read_text(encoding="utf-8") if path.exists() else ""
        for name, path in told.items()
    }
    return done.returncode, done.stdout, written


def test_the_action_annotates_and_fails(project: Path) -> None:
    code, output, told = run_action(project, run="check migrate", sarif="found.sarif")
    assert code == 1
    assert re.search(r"^::error title=OPS201 .*file=src/ops\.py,line=6", output, re.MULTILINE)
    assert "made/ops.py" not in output
    assert told["GITHUB_OUTPUT"] == "findings=1\n"
    assert "| `opscaffold migrate --check` | 1 |" in told["GITHUB_STEP_SUMMARY"]
    sarif = json.loads((project / "found.sarif").read_text(encoding="utf-8"))
    assert len(sarif["runs"][0]["results"]) == 1


def test_the_action_takes_paths_and_arguments_as_words(project: Path) -> None:
    code, output, told = run_action(
        project, paths="src/plain.py\n\nsrc/ops.py\n", arguments="--ignore\nOPS201 , OPS2\n"
    )
    assert (code, told["GITHUB_OUTPUT"]) == (0, "findings=0\n"), output
    trap = project.parent / "trap"
    (project.parent / "GITHUB_OUTPUT").unlink()
    code, output, told = run_action(project, paths=f"$(touch '{trap}')")
    assert code == 2
    assert not trap.exists()
    assert told["GITHUB_OUTPUT"] == "", "no check, no number of findings"


def test_the_action_refuses_what_it_does_not_know(project: Path) -> None:
    for run in ("check everything", " "):
        code, output, _ = run_action(project, run=run)
        assert code == 2
        assert output.startswith("::error ")


def test_every_input_of_the_action_reaches_the_script() -> None:
    (step,) = ACTION["runs"]["steps"]
    script = SCRIPT.read_text(encoding="utf-8")
    for name in ACTION["inputs"].keys() - {"working-directory"}:
        variable = "INPUT_" + name.upper().replace("-", "_")
        assert step["env"][variable] == f"${{{{ inputs.{name} }}}}"
        assert f"${variable}" in script
    # An expression in the script would be read as shell, whatever an input holds.
    assert "${{" not in step["run"]


def steps_of(block: str) -> list[dict[str, Any]]:
    jobs = (yaml.safe_load(block) or {}).get("jobs", {})
    return [step for job in jobs.values() for step in job["steps"]]


def test_the_examples_use_hooks_and_inputs_that_there_are() -> None:
    text = "\n".join(BLOCKS)
    assert set(re.findall(r"- id: (\S+)", text)) == set(HOOKS)
    used = [step for block in BLOCKS for step in steps_of(block) if "opscaffold@" in step["uses"]]
    assert len(used) >= 3
    for step in used:
        assert step["with"].keys() <= ACTION["inputs"].keys()


def test_the_page_names_every_input_and_its_default() -> None:
    for name, one in ACTION["inputs"].items():
        default = f"`{one['default']}`" if one["default"] else ""
        assert re.search(rf"^\| `{name}` \| {re.escape(default)} ?\| ", PAGE, re.MULTILINE), name


def test_the_example_for_gitlab_runs(project: Path) -> None:
    (block,) = [block for block in BLOCKS if "codequality" in block]
    job = yaml.safe_load(block)["operators"]
    commands = [shlex.split(line) for line in job["script"] if line.startswith("opscaffold")]
    for _, *arguments in commands:
        subprocess.run(
            [sys.executable, "-m", "opscaffold", *arguments],
            cwd=project,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=False,
        )
    report = job["artifacts"]["reports"]["codequality"]
    (issue,) = json.loads((project / report).read_text(encoding="utf-8"))
    assert issue["location"] == {"path": "src/ops.py", "lines": {"begin": 6}}
