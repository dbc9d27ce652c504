"""`foresail trace generate`: make a cluster and a trace of any size."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer

from foresail.cli.progress import progress_bar
from foresail.errors import OptionError, did_you_mean

FORMATS = ("csv", "parquet", "yaml")

EPILOG = (
    "Examples: [bold]foresail trace generate --out demo[/bold] makes 100 nodes and 2000 pods; "
    "[bold]foresail trace generate --nodes 1000 --pods 50000 --arrivals diurnal --gangs 0.1 --out big[/bold]; "
    "[bold]foresail trace generate --priorities 0:9,1000:1 --format yaml --out k8s[/bold]"
)


def generate(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the two files; made if it is missing.")],
    nodes: Annotated[int, typer.Option(help="Number of nodes.")] = 100,
    pods: Annotated[int, typer.Option(help="Number of pods.")] = 2000,
    seed: Annotated[int, typer.Option(help="The same seed and options give the same bytes.")] = 0,
    file_format: Annotated[str, typer.Option("--format", help="csv, parquet or yaml (Kubernetes objects).")] = "csv",
    arrivals: Annotated[str, typer.Option(help="poisson, uniform (evenly spaced), diurnal or burst.")] = "poisson",
    load_factor: Annotated[
        float | None, typer.Option(help="GPU time asked over GPU time there is while pods arrive; 1 if not given.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Mean pods a second, instead of --load-factor.")] = None,
    day: Annotated[float, typer.Option(help="diurnal: length of a period in seconds.")] = 86_400.0,
    day_swing: Annotated[float, typer.Option(help="diurnal: swing of the rate around its mean, 0 to 1.")] = 0.8,
    burst_pods: Annotated[int, typer.Option(help="burst: mean pods in one clump.")] = 50,
    burst_spread: Annotated[float, typer.Option(help="burst: seconds over which a clump arrives.")] = 10.0,
    median: Annotated[float, typer.Option(help="Median lifetime in seconds.")] = 540.0,
    p75: Annotated[float, typer.Option(help="75 % of the lifetimes are shorter, in seconds.")] = 1972.0,
    time_step: Annotated[float, typer.Option(help="Times are multiples of this: 1, 0.5, 0.25, … seconds.")] = 1.0,
    spec_share: Annotated[float, typer.Option(help="Share of the GPU pods that name GPU models, 0 to 1.")] = 0.0,
    gangs: Annotated[float, typer.Option(help="Share of the pods that belong to gangs, 0 to 1.")] = 0.0,
    gang_sizes: Annotated[str, typer.Option(help="Sizes of gangs, equally likely.")] = "2,4,8",
    gang_min: Annotated[float, typer.Option(help="Share of its members a gang needs to start, up to 1.")] = 1.0,
    priorities: Annotated[str, typer.Option(help="Priority classes as PRIORITY:WEIGHT,…")] = "0:1",
    replica_sets: Annotated[int, typer.Option(help="Number of replica sets that own pods.")] = 0,
    replica_share: Annotated[float, typer.Option(help="Share of the pods that replica sets own, 0 to 1.")] = 0.5,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Make a cluster and a trace with the node shapes, pod classes and lifetimes of the openb GPU trace.

    Writes nodes and pods files into the folder --out: nodes.csv and pods.csv, or with the ending of --format.
    """
    if file_format not in FORMATS:
        near = did_you_mean(file_format, FORMATS)
        raise OptionError(f'--format is "{file_format}"; write one of {", ".join(FORMATS)}{near}')
    if rate is not None and load_factor is not None:
        raise OptionError(f"--rate {rate:g} and --load-factor {load_factor:g} both set the rate; give one of them")
    nodes_path, pods_path = out / f"nodes.{file_format}", out / f"pods.{file_format}"
    sizes, classes = _sizes(gang_sizes), _priorities(priorities)

    # numpy and polars are loaded only now, so that --help stays quick.
    from foresail.traces.generate import generate as generating
    from foresail.traces.write import write

    settings = generating.GenerateSettings(
        nodes=nodes,
        pods=pods,
        seed=seed,
        arrivals=arrivals,
        load_factor=1.0 if load_factor is None else load_factor,
        rate_per_s=rate,
        day_s=day,
        day_swing=day_swing,
        burst_pods=burst_pods,
        burst_spread_s=burst_spread,
        median_s=median,
        p75_s=p75,
        time_step_s=time_step,
        spec_share=spec_share,
        gangs=gangs,
        gang_sizes=sizes,
        gang_min=gang_min,
        priorities=classes,
        replica_sets=replica_sets,
        replica_share=replica_share,
    )
    settings.check()
    refuse_overwriting([nodes_path, pods_path], force=force)
    made_nodes, workload = generating.generate(settings)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"--out {out} cannot be made: {error.strerror or error}; name another folder") from error
    with progress_bar("writing pods") as show:
        done = itertools.count(1)

        def step() -> None:
            if show is not None:
                show(next(done), pods)

        write(nodes_path, pods_path, made_nodes, workload, progress=step)

    gpus = sum(node.gpu_count for node in made_nodes)
    typer.echo(f"wrote {nodes_path}: {nodes} nodes, {gpus} GPUs")
    typer.echo(
        f"wrote {pods_path}: {pods} pods arriving over {workload.arrival_s.max():.0f} s, "
        f"{len(workload.specs)} distinct requests, {len(workload.gangs)} gangs"
    )


def refuse_overwriting(paths: list[Path], *, force: bool) -> None:
    """Refuse to write over files that are there, unless that is wanted."""
    there = [str(path) for path in paths if path.exists()]
    if there and not force:
        raise OptionError(f"{' and '.join(there)} would be overwritten; add --force or name another folder with --out")


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f'--gang-sizes is "{text}"; write whole numbers such as 2,4,8') from None


def _priorities(text: str) -> tuple[tuple[int, float], ...]:
    try:
        pairs = [part.split(":") for part in text.split(",")]
        return tuple((int(priority), float(weight)) for priority, weight in pairs)
    except ValueError:
        raise OptionError(f'--priorities is "{text}"; write pairs such as 0:9,1000:1') from None
