"""`foresail extender`: a policy behind a stock kube-scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foresail.cli.program_options import LogLevel, Seed
from foresail.cli.which_cluster import Context, Kubeconfig

if TYPE_CHECKING:
    from foresail.live.extender.config import ConfigurationFinding, Wanted

EPILOG = """
Examples:

  foresail extender --policy fgd --print-config > kube-scheduler.yaml

  foresail extender --policy fgd --check-config /etc/kubernetes/kube-scheduler.yaml

  foresail extender --policy fgd --bind --kubeconfig ~/.kube/config

  foresail extender --policy fgd --weight 5 --print-config

  foresail extender --policy fgd --sample --print-config

  foresail extender --policy kube.yaml --address 10.0.0.5:8888 --tls-cert tls.crt --tls-key tls.key --client-ca ca.crt
"""


def extender(
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            "--profile",
            help="A policy, a mix such as power:100+fgd:900, a profile in TOML, or a KubeSchedulerConfiguration.",
        ),
    ],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    address: Annotated[
        str,
        typer.Option("--address", metavar="HOST:PORT", help="Where kube-scheduler asks; port 0 takes any free one."),
    ] = "127.0.0.1:8888",
    prefix: Annotated[str, typer.Option("--prefix", metavar="/PATH", help="Path before the verbs.")] = "",
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Server certificate and chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key, PEM.")] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(
            "--client-ca", help="Who signed the client certificates that are let in, PEM; needed off loopback."
        ),
    ] = None,
    weight: Annotated[
        int | None,
        typer.Option(
            "--weight",
            min=1,
            help="Score nodes with this weight beside kube-scheduler's own scores, instead of choosing the node.",
        ),
    ] = None,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample",
            help="Let kube-scheduler look at a sample of the nodes, as it does of itself from 100 nodes on: quicker; "
            "the node that is taken is the best of that sample.",
        ),
    ] = False,
    bind: Annotated[
        bool, typer.Option("--bind", help="Bind pods too; GPU devices are then written on the pod.")
    ] = False,
    expect: Annotated[
        Path | None,
        typer.Option("--expect", help="Pod list that policies learn from; without it, the cluster's pods."),
    ] = None,
    seed: Seed = 42,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the KubeSchedulerConfiguration that goes with this, and stop.")
    ] = False,
    check_config: Annotated[
        Path | None, typer.Option("--check-config", help="Check a KubeSchedulerConfiguration against this, and stop.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="kube-scheduler's configuration: checked first, then served accordingly."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Go on with a configuration that mis-scores, with a warning.")
    ] = False,
    log_level: LogLevel = "info",
) -> None:
    """Answer a stock kube-scheduler that asks this extender which node to take.

    The decisions are those of the policy, on a picture of the cluster that the extender's own watches keep. It is
    ready (/readyz) once that picture is whole, and tells figures under /metrics. With --weight it says how good the
    nodes are instead, and kube-scheduler adds its own scores.
    """
    from foresail.live.extender.config import Wanted, check_file, configuration_text
    from foresail.live.serving.server import ServerSettings, check_tls_files, parse_address
    from foresail.policies.profiles.load import load_profile

    host, port = parse_address(address)
    server = ServerSettings(host, port, tls_cert, tls_key, client_ca)
    server.check()
    wanted = Wanted(server, bind, f"/{prefix.strip('/')}" if prefix.strip("/") else "", weight, sample)
    profile = load_profile(policy)
    if print_config:
        typer.echo(configuration_text(wanted), nl=False)
        return
    for path in (check_config, config):
        if path is not None:
            _report(path, check_file(path, wanted), force=force)
    if check_config is not None:
        typer.echo(f"{check_config}: goes with this extender")
        return
    check_tls_files(server)
    _serve(profile, wanted, config, kubeconfig, context, expect, seed=seed, force=force, log_level=log_level)


def _report(path: Path, findings: list[ConfigurationFinding], *, force: bool) -> None:
    """Refuse a configuration that mis-scores; with --force say so and go on."""
    from foresail.errors import InputError

    told = [f"{path}: {finding}" for finding in findings]
    if told and not force:
        raise InputError("\n".join([*told, "or give --force to go on nevertheless"]))
    for line in told:
        typer.echo(f"warning: {line}", err=True)


def _serve(
    profile: object,
    wanted: Wanted,
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    expect: Path | None,
    *,
    seed: int,
    force: bool,
    log_level: str,
) -> None:
    import uvloop

    from foresail.cli.compiling import compiling_is_announced
    from foresail.core.profile import Profile
    from foresail.kube.api.connect import find_connection
    from foresail.live.extender.config import other_scores_most
    from foresail.live.extender.extender import DEFAULT_WEIGHT, OTHER_SCORES_MOST, ExtenderSettings
    from foresail.live.extender.service import Service, run
    from foresail.logs import configure
    from foresail.policies.profiles.scheduler_configuration import read_configuration
    from foresail.traces.trace import load_workload

    configure(log_level)
    assert isinstance(profile, Profile)  # noqa: S101 - said loosely above, so that --help stays quick
    most = OTHER_SCORES_MOST if config is None else other_scores_most(read_configuration(config), wanted)
    service = Service(
        connection=find_connection(kubeconfig, context),
        profile=profile,
        server=wanted.server,
        extender=ExtenderSettings(
            weight=wanted.weight or DEFAULT_WEIGHT,
            other_scores_most=most,
            binds=wanted.binds,
            force=force,
            sampled=wanted.sampled,
            tells=log_level == "debug",
        ),
        prefix=wanted.prefix,
        expected=None if expect is None else load_workload(expect)[0],
        seed=seed,
    )
    if wanted.weight is not None and not service.extender.decides:
        typer.echo(
            f"warning: --weight {wanted.weight} leaves the choice to other scores too (up to {most}); pods are "
            f"seen when they are bound. From --weight {most // 10 + 1} on this policy decides",
            err=True,
        )

    with compiling_is_announced():
        uvloop.run(run(service, announce=lambda what: typer.echo(what, err=True)))
