"""What is measured of running pods and where their reports come from: settings of every program with controllers."""

from __future__ import annotations

from dataclasses import dataclass

from foresail.settings import setting


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Where readings come from; without any of these there are none."""

    measure_cpu: bool = False
    """Let controllers see the CPU that pods use: from the metrics API, else from kubelets (which needs the right to get
    nodes/proxy), else from --prometheus."""
    cpu_sources: tuple[str, ...] = setting((), option="--cpu-source", example="kubelet")
    """Read the CPU that pods use from here alone: metrics-api, kubelet or prometheus; given several times, from the
    first of them that works."""
    prometheus: str = setting("", metavar="URL")
    """A Prometheus that scrapes kubelets (/metrics/cadvisor or /metrics/resource), to read the CPU that pods use."""
    prometheus_token_file: str | None = setting(None, is_file=True)
    """File with the token that this Prometheus wants to see."""
    cpu_every_s: float = 15.0
    """How often the CPU that pods use is read."""
    progress_dirs: tuple[str, ...] = setting((), option="--progress-dir", metavar="[NAMESPACE=]DIR", example="/data")
    """Read training jobs' progress from NAMESPACE/JOB/progress.csv below this folder, or from JOB/progress.csv if it is
    one namespace's; may be given several times."""
    progress_every_s: float = 5.0
    """How often these folders are looked at."""
    progress_address: str = setting("", metavar="HOST:PORT")
    """Receive training jobs' progress over HTTP here, as POST /v1/progress; the --address itself may be given. Beyond
    loopback this needs --tls-cert and --tls-key, and jobs show a token."""
    progress_token_file: str | None = setting(None, is_file=True)
    """Tokens that may report progress, one a line: NAMESPACE TOKEN, or TOKEN alone for all namespaces. Without it pods
    show the tokens of their service accounts, which the API server reviews."""
    progress_logs: bool = False
    """Read training jobs' progress from their pods' logs: the lines that the reporter writes, or those that the pod's
    annotation foresail.dev/progress-pattern describes; needs the right to get pods/log."""
    tensorboard_dirs: tuple[str, ...] = setting(
        (), option="--tensorboard-dir", metavar="[NAMESPACE=]DIR", example="/data"
    )
    """Read training jobs' progress from TensorBoard's event files below NAMESPACE/JOB of this folder, or below JOB if
    it is one namespace's; may be given several times."""
