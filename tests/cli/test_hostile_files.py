"""Files that would hang, crash or fill the memory of a careless reader: every command says what is wrong."""

import os
import resource
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.errors import ForesailError

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
POD = "p0,1000,1024,1,1000,,LS,Running,0,10,0"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,131072,2,T4\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(f'*{before}' for _ in range(10))}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
POD_YAML = "kind: Pod\nmetadata: {name: %s}\nspec: {nodeName: %s, containers: [{name: c}]}\n"
POD_JSON = '{"kind": "Pod", "metadata": {"name": "%s"}, "spec": {"priority": %s, "containers": [{"name": "c"}]}}'

TABLES = {
    "wide.csv": f"{HEADER},{','.join(f'c{at}' for at in range(60_000))}\n{POD}{',' * 60_000}\n",
    "digits.csv": f"{HEADER}\n{POD.replace('1000', '9' * 4400, 1)}\n",
    "long-name.csv": f'{HEADER},"{"n" * 200_000}"\n{POD},1\n',
    "zero.csv": f"{HEADER}\np\0{POD}\n",
    "empty.csv": "",
    "noise.csv": np.random.default_rng(1).bytes(3000),
    "noise.parquet": b"PAR1" + np.random.default_rng(2).bytes(300) + b"PAR1",
}
OBJECTS = {
    "bomb.yaml": f"{BOMB}kind: Pod\nmetadata: {{name: *i}}\n",
    "self.yaml": "kind: Pod\nmetadata: &a {name: *a}\n",
    "deep.yaml": "[" * 30_000,
    "tag.yaml": POD_YAML % ("!!bool x", "n0"),
    "twice.yaml": "kind: Pod\nkind: Pod\n",
    "half.json": POD_JSON % ("a\\ud800", 1),
    "digits.json": POD_JSON % ("a", "9" * 5000),
    "deep.json": "[" * 100_000,
}
SETTINGS = {
    "parts.toml": f"a{'.a' * 50_000} = 1\n",
    "table.toml": f"[a{'.a' * 50_000}]\n",
    "deep.toml": f"a = {'[' * 5000}{']' * 5000}\n",
    "digits.toml": f"a = {'9' * 5000}\n",
}
ANYWHERE = {"folder": None, "no-such": None, "n" * 300: None, "x/" * 3000: None}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for name, content in {
        "nodes.csv": NODES,
        "pods.csv": f"{HEADER}\n{POD}\n",
        **TABLES,
        **OBJECTS,
        **SETTINGS,
    }.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "folder").mkdir()
    return folder


COMMANDS: dict[str, tuple[Callable[..., list[str]], dict]] = {
    "simulate --pods": (lambda nodes, _, file: ["simulate", "--nodes", nodes, "--pods", file], TABLES | OBJECTS),
    "simulate --nodes": (lambda _, pods, file: ["simulate", "--nodes", file, "--pods", pods], TABLES | OBJECTS),
    "trace check": (lambda nodes, _, file: ["trace", "check", "--nodes", nodes, "--pods", file], TABLES | OBJECTS),
    "topology label": (lambda *given: ["topology", "label", given[2]], TABLES | OBJECTS),
    "--policy": (
        lambda nodes, pods, file: ["simulate", "--nodes", nodes, "--pods", pods, "--policy", file],
        SETTINGS | {name: OBJECTS[name] for name in ("bomb.yaml", "self.yaml", "deep.yaml", "tag.yaml", "twice.yaml")},
    ),
    "compare": (lambda *given: ["compare", given[2]], SETTINGS),
    "run --kubeconfig": (lambda *given: ["run", "--kubeconfig", given[2]], OBJECTS),
    "parity": (lambda *given: ["parity", given[2]], OBJECTS | TABLES),
    "report": (lambda *given: ["report", given[2]], {"empty.csv": ""}),
    "forecast evaluate": (lambda *given: ["forecast", "evaluate", "--data", given[2]], {"empty.csv": ""}),
    "bsp simulate --data": (lambda *given: ["bsp", "simulate", "--data", given[2]], {"empty.csv": ""}),
    "bsp simulate --profile": (lambda *given: ["bsp", "simulate", "--profile", given[2]], TABLES),
}
CASES = [(verb, name) for verb, (_, own) in COMMANDS.items() for name in (own | ANYWHERE)]


@contextmanager
def little_memory():
    """A gigabyte more than there is in use; more ends in a MemoryError, which is no clear message."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(("verb", "name"), CASES, ids=[f"{verb}, {name[:20]}" for verb, name in CASES])
def test_it_is_told_in_few_words(files, verb, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = COMMANDS[verb][0](str(files / "nodes.csv"), str(files / "pods.csv"), str(files / name))
    begun = time.process_time()
    with little_memory():
        result = CliRunner().invoke(app, words)
    said = str(result.exception) if isinstance(result.exception, ForesailError) else result.output
    assert isinstance(result.exception, ForesailError | SystemExit), repr(result.exception)[:2000]
    assert result.exit_code, said[:2000]
    assert len(said) < 16_000
    assert time.process_time() - begun < 20, "CPU time, so that a busy machine does not count"
    assert not list(tmp_path.iterdir()), "nothing is left behind"
