"""Write deploy/manifests from deploy/chart, so that the two never differ.

python deploy/render.py            writes them
python deploy/render.py --check    ends with 1 if they differ from what is written

Helm is compiled if there is none; see foresail.lab.build.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from foresail.atomic import replacing
from foresail.errors import ForesailError
from foresail.lab import components
from foresail.lab.build import build

HERE = Path(__file__).resolve().parent
RELEASE = NAMESPACE = "foresail"
FILES = {
    "scheduler.yaml": (),
    "extender.yaml": ("scheduler.enabled=false", "extender.enabled=true"),
    "control.yaml": ("scheduler.enabled=false", "control.enabled=true"),
}
"""File: the values it is rendered with, beside the chart's own."""
NAMESPACE_TEXT = f"""# Rendered from deploy/chart by deploy/render.py: change the chart, not this file.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    # The strictest that Kubernetes has; pods that need more do not belong here.
    pod-security.kubernetes.io/enforce: restricted
"""


def rendered(*values: str) -> str:
    """The chart as one YAML text, with the namespace it goes to."""
    chart = [RELEASE, str(HERE / "chart"), "--namespace", NAMESPACE]
    # The lab's own version, whatever Helm takes for the newest.
    version = ["--kube-version", components.KUBERNETES_VERSION]
    command = [str(build([components.HELM])["helm"]), "template", *chart, *version]
    for value in values:
        command += ["--set", value]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise ForesailError(f"helm template failed: {ran.stderr.strip()}")
    return NAMESPACE_TEXT + "\n".join(line.rstrip() for line in ran.stdout.splitlines()) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write deploy/manifests from deploy/chart.")
    parser.add_argument("--check", action="store_true", help="only say whether they differ")
    parser.add_argument("--out", type=Path, default=HERE / "manifests", help="folder to write to")
    options = parser.parse_args()
    differing = []
    for name, values in FILES.items():
        path, text = options.out / name, rendered(*values)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            differing.append(name)
            if not options.check:
                with replacing(path) as part:
                    part.write_text(text, encoding="utf-8")
    if differing:
        print(f"{', '.join(differing)}: {'not as the chart says; run: make manifests' if options.check else 'written'}")
    return int(options.check and bool(differing))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ForesailError as error:
        sys.exit(f"error: {error}")
