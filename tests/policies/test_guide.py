"""The policy that the guide shows works, and is the one the example package ships."""

import re
from pathlib import Path

from foresail.testing import check_policy

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/guides/write-a-policy.md").read_text(encoding="utf-8"), re.DOTALL
)


def run(*blocks):
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)  # noqa: S102 - our own page
    return namespace


def test_the_first_policy_is_short_and_passes_its_own_tests():
    policy = BLOCKS[0]
    assert len([line for line in policy.splitlines() if line.strip()]) <= 15
    tests = next(block for block in BLOCKS if "def test_the_contract" in block)
    namespace = run(policy, tests)
    for name in ("test_the_fuller_node_wins", "test_the_contract"):
        namespace[name]()


def test_the_filter_keeps_the_contract():
    check_policy(run(next(block for block in BLOCKS if "class NoSpot" in block))["NoSpot"]())


def test_the_example_package_ships_the_same_policy():
    shipped = (ROOT / "examples/my-policy/my_policy.py").read_text(encoding="utf-8")
    body = BLOCKS[0][BLOCKS[0].index("        left =") :].strip()
    assert body in shipped
