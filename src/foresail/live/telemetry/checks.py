"""What of the settings is used, and what is refused because it would let strangers in or cannot work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from foresail.errors import OptionError, did_you_mean
from foresail.live.serving.server import ServerSettings, is_loopback, parse_address
from foresail.live.telemetry.folders import JobsFolder
from foresail.live.telemetry.kubelet import KubeletCpu
from foresail.live.telemetry.metrics_api import MetricsApiCpu
from foresail.live.telemetry.prometheus import PrometheusCpu, check_prometheus
from foresail.live.telemetry.settings import TelemetrySettings

ADDRESS = "--progress-address"


def progress_server(settings: TelemetrySettings, server: ServerSettings) -> ServerSettings | None:
    """Where progress is received over HTTP: `server` itself if it has this address. OptionError if strangers could."""
    if settings.progress_token_file is not None and not Path(settings.progress_token_file).is_file():
        raise OptionError(f"--progress-token-file is {settings.progress_token_file}; there is no such file")
    if not settings.progress_address:
        if settings.progress_token_file is not None:
            raise OptionError(f"--progress-token-file needs {ADDRESS}: where progress is received")
        return None
    host, port = parse_address(settings.progress_address, ADDRESS)
    if not is_loopback(host) and not server.is_tls:
        raise OptionError(
            f"{ADDRESS} is {host}:{port}, which other machines can reach; give --tls-cert and --tls-key, or listen on "
            "127.0.0.1"
        )
    return replace(server, host=host, port=port)


def check_telemetry(settings: TelemetrySettings, server: ServerSettings) -> None:
    """Refuse what would let strangers in or cannot work."""
    progress_server(settings, server)
    cpu_sources(settings)
    progress_folders(settings)
    tensorboard_folders(settings)


def progress_folders(settings: TelemetrySettings) -> list[JobsFolder]:
    """Where progress is read from files."""
    return [JobsFolder.parse(text, "--progress-dir") for text in settings.progress_dirs]


def tensorboard_folders(settings: TelemetrySettings) -> list[JobsFolder]:
    """Where event files are read from."""
    return [JobsFolder.parse(text, "--tensorboard-dir") for text in settings.tensorboard_dirs]


def cpu_sources(settings: TelemetrySettings) -> Sequence[str]:
    """Where the CPU that pods use is read from, in this order; none if it is not. OptionError for what cannot be."""
    if settings.prometheus:
        check_prometheus(settings.prometheus)
    elif PrometheusCpu.name in settings.cpu_sources or settings.prometheus_token_file is not None:
        raise OptionError("there is no --prometheus; give the URL of one to read the CPU that pods use from it")
    known = [MetricsApiCpu.name, KubeletCpu.name, PrometheusCpu.name]
    for name in settings.cpu_sources:
        if name not in known:
            raise OptionError(
                f'no --cpu-source "{name}"{did_you_mean(name, known) or ";"} there are {", ".join(known)}'
            )
    if settings.cpu_sources:
        return tuple(dict.fromkeys(settings.cpu_sources))
    return (*known[: 2 * settings.measure_cpu], *known[2 : 2 + bool(settings.prometheus)])
