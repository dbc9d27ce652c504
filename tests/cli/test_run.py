"""`foresail run` as a user starts it: what it says before it has found its cluster."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

FORESAIL = str(Path(sys.executable).parent / "foresail")


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    entries = {"clusters": {"cluster": {"server": server}}, "contexts": {"context": {"cluster": "one"}}}
    said = {key: [{"name": "one", **entry}] for key, entry in entries.items()}
    path.write_text(yaml.safe_dump({"current-context": "one", **said}))
    return path


@pytest.mark.parametrize("mode", [[], ["--shadow"]])
def test_an_interrupt_while_connecting_says_that_nothing_was_placed(tmp_path, mode):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        config = kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        words = [FORESAIL, "run", "--kubeconfig", str(config), *mode]
        with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)  # it has asked, and waits for an answer
                running.send_signal(signal.SIGINT)
                printed, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert (printed, said) == ("", "interrupted before it had started; nothing was placed or written\n")
