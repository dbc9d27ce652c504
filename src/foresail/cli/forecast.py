"""`foresail forecast`: fit forecasters of workloads, and see how wrong they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foresail.cli.compiling import compiling_is_announced

if TYPE_CHECKING:
    from foresail.experiments.workload.data import ForecastData
    from foresail.experiments.workload.evaluation import Judged

app = typer.Typer(
    name="forecast",
    help="Fit forecasters of workloads to series of values, and see how wrong they are.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

FIT_EXAMPLES = """
Examples:

  foresail forecast fit --data bsp --out ensemble.npz

  foresail forecast fit --data my-series --forecaster ridge --test-rows 200 --out ridge.npz
"""
EVALUATE_EXAMPLES = """
Examples:

  foresail forecast evaluate --data bsp

  foresail forecast evaluate --forecaster ridge --forecaster ensemble --out results/forecasts

  foresail forecast evaluate --data bsp --model ensemble.npz --json
"""
_SHOWN = (1, 5, 10, 20)

_Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder of CSV files with timestamp and value, or with a folder series of them; else bsp in "
        "$FORESAIL_DATA, else series are made up by --seed.",
    ),
]
_Series = Annotated[list[str] | None, typer.Option("--series", help="Names of series; all if left out.")]
_TestRows = Annotated[int, typer.Option(help="Rows at the end that are not learnt from: origins of the test.")]
_Horizon = Annotated[int, typer.Option(help="Values that are looked ahead.")]
_Seed = Annotated[int, typer.Option(min=0, help="Of all that is drawn in fitting, and of series that are made up.")]
_Holidays = Annotated[str, typer.Option(help="us (federal holidays, by rule) or none.")]


@app.command(epilog=FIT_EXAMPLES)
def fit(
    *,
    data: _Data = None,
    series: _Series = None,
    out: Annotated[Path, typer.Option("--out", metavar="MODEL.npz", help="The file to write.")],
    forecaster: Annotated[
        str,
        typer.Option(help="seasonal-naive, ets, arima, ridge, boosting, weekly, hourly, lstm or ensemble."),
    ] = "ensemble",
    test_rows: _TestRows = 1000,
    horizon: _Horizon = 20,
    seed: _Seed = 1,
    holidays: _Holidays = "us",
) -> None:
    """Fit a forecaster to all rows but those of the test, and write it to a file.

    Weights of an ensemble, and the errors that quantiles and scenarios are made of, come from rolling validation inside
    the rows to learn from. The file holds arrays and JSON; making forecasts with it needs numpy and numba alone.
    """
    from foresail.cli.progress import progress_bar
    from foresail.errors import OptionError
    from foresail.experiments.workload.data import find_series
    from foresail.forecast.workload.fitting import fit as fit_forecaster
    from foresail.forecast.workload.store import save

    if out.suffix != ".npz":
        raise OptionError(f"--out is {out}; a fitted forecaster is a file that ends in .npz")
    found = find_series(data, series or (), test_rows=test_rows, horizon=horizon, seed=seed)
    with compiling_is_announced(), progress_bar(f"fitting {forecaster}") as shown:
        fitted = fit_forecaster(
            forecaster, found.training(), horizon=horizon, seed=seed, holidays=holidays, on_progress=shown
        )
    path = save(fitted, out)
    for kind in fitted.kinds:
        season = "no season" if kind.period == 1 else f"season of {kind.period} rows"
        typer.echo(f"{kind.name}: a row every {kind.step_s} s, {season}, group {kind.group + 1}")
    typer.echo(f"wrote {path}")


@app.command(epilog=EVALUATE_EXAMPLES)
def evaluate(
    *,
    data: _Data = None,
    series: _Series = None,
    forecaster: Annotated[
        list[str] | None,
        typer.Option(
            help="seasonal-naive, ets, arima, ridge, boosting, weekly, hourly, lstm or ensemble; again for more. "
            "\\[default: seasonal-naive, ridge and ensemble, or none with --model]",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        list[Path] | None, typer.Option(metavar="MODEL.npz", help="Written by forecast fit; again for more.")
    ] = None,
    test_rows: _TestRows = 1000,
    horizon: _Horizon = 20,
    seed: _Seed = 1,
    holidays: _Holidays = "us",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write errors.csv, report.html and fitted models; go on from what is there."
        ),
    ] = None,
    by_series: Annotated[bool, typer.Option("--by-series", help="A row for each series, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the errors as JSON.")] = False,
) -> None:
    """Say how wrong forecasters are on rows that they have not learnt from.

    Each is fitted to the rows before the test, then told the test's values one by one, and asked before each for what
    comes next. Errors are in units of workload, 10 to 50 over the values that come to pass, for all alike: forecasts
    that came with the data (published), ours, and those of a file.
    """
    import json

    from foresail.cli.progress import progress_bar
    from foresail.experiments.workload.data import find_series
    from foresail.experiments.workload.evaluation import error_rows
    from foresail.experiments.workload.evaluation import evaluate as evaluate_all
    from foresail.forecast.workload.store import load

    found = find_series(data, series or (), test_rows=test_rows, horizon=horizon, seed=seed)
    models = [load(path) for path in model or ()]
    names = forecaster or ([] if models else ["seasonal-naive", "ridge", "ensemble"])
    try:
        with compiling_is_announced(), progress_bar(f"forecasts of {len(found.series)} series") as shown:
            judged = evaluate_all(
                *(found, names),
                models=models,
                seed=seed,
                holidays=holidays,
                folder=out,
                on_progress=shown,
            )
    except KeyboardInterrupt:
        kept = f"what is finished is in {out}" if out else "with --out finished forecasters are kept"
        raise KeyboardInterrupt(f"interrupted; {kept}, and the same command goes on from there") from None
    rows = error_rows(judged)
    head, cells = _cells(judged, by_series=by_series)
    if out is not None:
        _write(out, found, judged, rows)
    if as_json:
        typer.echo(json.dumps(_figures(found, judged, rows), indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"errors on {found.name}: {len(found.series)} series, {found.test_rows} origins",
        caption="RMSE in units of workload, 10 to 50; inside: values between the quantiles 0.1 and 0.9",
    )
    for name in head:
        # Names are folded where there is little room, and numbers are not.
        is_name = name in {"forecaster", "series"}
        table.add_column(name, justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    for row in cells:
        table.add_row(*row)
    Console().print(table)
    if out is not None:
        typer.echo(f"wrote {out}/errors.csv and {out}/report.html")


def _shown_ahead(judged: Sequence[Judged]) -> list[int]:
    longest = len(judged[0].errors[0].rmse)
    return [ahead for ahead in _SHOWN if ahead <= longest] or [longest]


def _cells(judged: Sequence[Judged], *, by_series: bool) -> tuple[list[str], list[list[str]]]:
    """The table of errors: a row a forecaster with means over series, and with `by_series` one for each series."""
    shown = _shown_ahead(judged)
    head = ["forecaster", *(["series"] if by_series else []), *(f"t+{ahead}" for ahead in shown), "inside"]
    cells = []
    for one in judged:
        inside = one.mean_coverage()
        means = [f"{one.mean(ahead):.2f}" for ahead in shown]
        name = ["mean"] if by_series else []
        cells.append([one.forecaster, *name, *means, "–" if inside is None else f"{100 * inside:.1f} %"])
        for errors in one.errors if by_series else ():
            own = errors.coverage_80
            mean = "–" if own is None else f"{100 * sum(own) / len(own):.1f} %"
            cells.append([one.forecaster, errors.series, *(f"{errors.rmse[ahead - 1]:.2f}" for ahead in shown), mean])
    return head, cells


def _figures(data: ForecastData, judged: Sequence[Judged], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    horizon = len(judged[0].errors[0].rmse)
    return {
        "data": data.name,
        "series": data.names,
        "test_rows": data.test_rows,
        "horizon": data.horizon,
        "unit": "workload",
        "mean_rmse": {one.forecaster: [one.mean(ahead) for ahead in range(1, horizon + 1)] for one in judged},
        "mean_coverage_80": {one.forecaster: one.mean_coverage() for one in judged},
        "errors": list(rows),
    }


def _write(out: Path, data: ForecastData, judged: Sequence[Judged], rows: Sequence[Mapping[str, Any]]) -> None:
    import polars as pl

    from foresail.atomic import replacing
    from foresail.report.forecasts import forecast_figures, write_forecast_page

    with replacing(out / "errors.csv") as part:
        out.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(list(rows), infer_schema_length=None).write_csv(part)
    head, cells = _cells(judged, by_series=True)
    figures = forecast_figures(rows, {one.forecaster: one.shown for one in judged}, (1, 5, 10))
    subtitle = f"{data.name}: {len(data.series)} series, {data.test_rows} origins, {data.horizon} supersteps ahead"
    write_forecast_page(out / "report.html", subtitle, head, cells, figures)
