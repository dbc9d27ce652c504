"""`foresail run` and `foresail control` as a user starts them: what they say before they have found their cluster."""

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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--policy", "best-fitt"], 'no policy "best-fitt"; did you mean "best-fit"? (foresail policies lists'),
        (["run", "--shadow", "--policy", "best-fitt"], 'no policy "best-fitt"; did you mean "best-fit"?'),
        (
            ["run", "--controller", "equal-share"],
            'no controller "equal-share"; did you mean "equal-shares"? (foresail controllers lists',
        ),
        (["run", "--controller", "equal-shares:every_s=x"], 'equal-shares: every_s is "x"; allowed is a number'),
        (["run", "--shadow", "--controller", "equal-shares"], "--controller does not go with --shadow"),
        (["control", "equal-share"], 'no controller "equal-share"; did you mean "equal-shares"?'),
        (["control", "equal-shares:every=5"], 'equal-shares has no option "every"; did you mean "every_s"?'),
        (["control", "equal-shares", "equal-shares"], 'the controller "equal-shares" is given twice; once is enough'),
        (["control", "equal-shares", "--address", "0.0.0.0:1"], "give --tls-cert, --tls-key and --token-file"),
    ],
)
def test_a_mistake_is_told_with_its_remedy_before_any_cluster_is_asked(tmp_path, words, said):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        done = subprocess.run(
            [FORESAIL, *words, "--kubeconfig", str(config)], capture_output=True, text=True, timeout=60, check=False
        )
        silent.settimeout(0)
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
