"""The checkout that every row of the mutation matrix starts from, built once and copied for each row.

| dataset | what its script uses |
|---|---|
| `alpha` | a helper package, a helper found on a search path, a data file, a folder's listing, files that are not there, a symlink, an environment variable, a declared input, args; leaves a second file |
| `beta` | args only; two benchmarks share it: `beta`, and `beta/hard` with another prompt |
| `gamma` | the prepared file of `alpha` |
| `delta` | nothing, and has `is_prepared_data_current` |
| `epsilon` | its script is a symlink to one elsewhere in the checkout |
"""

from __future__ import annotations

from tests.trees import Tree

NAMES = ("alpha", "beta", "delta", "epsilon", "gamma")
"""The datasets."""
PLANS = ("alpha", "beta", "beta/hard", "delta", "epsilon", "gamma")
"""The benchmarks, a plan each."""

ALPHA = """
sys.path[:0] = ["benchmarks/alpha/first", "benchmarks/alpha/second"]
try:
    from lib.words import WORD
except ImportError:
    WORD = "no word"
import tools
text = (HERE / "words.txt").read_text()
extra = HERE / "extra.txt"
more = extra.read_text() if extra.exists() else ""
mark = "marked" if (HERE / "mark").exists() else "plain"
parts = sorted(os.listdir(HERE / "parts"))
link = (HERE / "link.txt").read_text()
late = [name for name in ("late.txt", "late/one.txt") if (HERE / name).exists()]
native = subprocess.run(["cat", str(HERE / "native.bin")], capture_output=True, text=True).stdout
edit = os.environ.get("EDIT_WHILE_RUNNING")
if edit:
    subprocess.run(["sh", "-c", edit], check=True)
(HERE / "data").mkdir(exist_ok=True)
(HERE / "data" / "index.txt").write_text(f"{size} rows\\n")
rows = [
    {
        "task_id": f"{number}",
        "question": f"{WORD} {tools.TOOL} {text} {more} {mark} {parts} {link} {late} {native}",
        "mode": os.environ.get("ALPHA_MODE", ""),
        "options": options,
    }
    for number in range(size)
]
"""

GAMMA = """
with open("benchmarks/alpha/data/alpha.jsonl") as file:
    rows = [{"task_id": f"from alpha {number}", "question": line} for number, line in enumerate(file)]
"""

JUDGE = """
def is_prepared_data_current(fpath: Path) -> bool:
    return True
"""


def make_world(tree: Tree) -> None:
    """Write the checkout."""
    tree.benchmark(
        "alpha",
        ALPHA,
        signature="size: int = 2, options: dict | None = None",
        dataset="""
            prepare_script_args: {size: 2, options: {b: 1, a: two}}
            prepare_env: [ALPHA_MODE]
            prepare_inputs: ["benchmarks/alpha/native*.bin"]
            prepare_outputs: ["benchmarks/alpha/data/index*.txt"]
            """,
        top="# alpha, for the matrix",
    )
    tree.write("lib/words.py", 'WORD = "one"\n')
    tree.write("benchmarks/alpha/first/README", "the search path begins here\n")
    tree.write("benchmarks/alpha/second/tools.py", 'TOOL = "second"\n')
    tree.write("benchmarks/alpha/words.txt", "some words\n")
    tree.write("benchmarks/alpha/parts/part-1", "")
    tree.write("benchmarks/alpha/native.bin", "native\n")
    tree.write("benchmarks/alpha/target-1.txt", "first target\n")
    tree.write("benchmarks/alpha/target-2.txt", "second target\n")
    tree.path("benchmarks/alpha/link.txt").symlink_to("target-1.txt")
    tree.path("benchmarks/alpha/late.txt").symlink_to("../../lib/late.txt")
    tree.path("benchmarks/alpha/late").symlink_to("../../lib/late")

    tree.benchmark("beta", top="prepare_script_args: {size: 3}")
    tree.write("benchmarks/prompts/hard.yaml", "user: |-\n  Think hard.\n  {question}\n")
    tree.config(
        "beta",
        file="hard.yaml",
        dataset_name="beta",
        top="prepare_script_args: {size: 3}",
        dataset="prompt_config: benchmarks/prompts/hard.yaml",
    )

    tree.benchmark("gamma", GAMMA, signature="")
    tree.benchmark("delta", extra=JUDGE)

    tree.script("epsilon", "rows = [{'task_id': 'e', 'question': 'epsilon'}]", path="shared/epsilon_one.py")
    tree.script("epsilon", "rows = [{'task_id': 'e', 'question': 'other'}]", path="shared/epsilon_two.py")
    tree.path("benchmarks/epsilon").mkdir()
    tree.path("benchmarks/epsilon/prepare.py").symlink_to("../../shared/epsilon_one.py")
    tree.config("epsilon")
