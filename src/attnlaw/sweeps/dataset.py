"""Results of a sweep as a labelled dataset: observed and predicted, side by side."""

import json
import warnings
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, RegimeWarning
from attnlaw._store import checksum
from attnlaw.sweeps.grid import Sweep

if TYPE_CHECKING:
    from xarray import Dataset

__all__ = ["labelled", "load", "predicted", "save", "values_digest"]

NUMBERS = ("ridge", "vocab_ratio", "sample_ratio", "signal_norm")  # theory broadcasts over these

MEANING = {
    "top_eigenvalue": "eigenvalue λ of the sample covariance along the signal",
    "squared_overlap": "squared overlap ζ of its eigenvector with the signal",
    "bulk_edge": "right edge λ₊ of the noise bulk",
    "population_eigenvalue": "eigenvalue ℓ of the population covariance along the signal",
    "population_overlap": "squared overlap of its eigenvector with the signal",
    "sample_overlap": "squared overlap of sample and population eigenvectors",
    "mean_eigenvalue": "eigenvalue of the sample covariance along the mean of the table",
    "is_detectable": "whether the signal leaves the bulk",
    "accuracy": "share of test labels whose sign is right",
    "mean_squared_error": "test error of the score",
    "signal_gain": "gain A of the score: it is A (w·s) plus noise",
    "noise_variance": "variance v of that noise",
}


def labelled(
    sweep: Sweep, done: NDArray[np.bool_], values: Floats, software: Mapping[str, str]
) -> "Dataset":
    """Return the dataset of a sweep from what its cells observed.

    Parameters
    ----------
    sweep : Sweep
        The grid.
    done, values
        As `read_journal` gives them. Cells that are not done are NaN in the dataset.
    software : mapping
        Versions, for the attributes.

    Returns
    -------
    xarray.Dataset
        ``observed_…`` with the axes of the sweep and ``trial``, ``predicted_…`` with those axes
        on which the theory depends, for each field of `Spike` (or `Accuracy`).
    """
    import xarray as xr

    cell_axes = sweep.cell_axes
    dims = [*(name for name in cell_axes if name != "first_trial"), "trial", *sweep.shared_axes]
    sizes = {**{name: len(v) for name, v in sweep.axes.items()}, "trial": sweep.n_trials}
    # cells × (field, trial, shared axes): bring the field to the front, join pieces of trials
    columns = np.moveaxis(values, 1, 0).reshape(-1, *(sizes[name] for name in dims))
    order = [*sweep.axes, "trial"]
    complete = bool(done.all())
    variables: dict[str, Any] = {}
    for name, column in zip(sweep.result_fields, columns, strict=True):
        observed = xr.DataArray(column, dims=dims).transpose(*order)
        if name == "is_detectable" and complete:
            observed = observed.astype(bool)
        variables[f"observed_{name}"] = observed.assign_attrs(long_name=MEANING[name])
    without_size = [name for name in sweep.axes if name != "dimension"]
    for name, column in predicted(sweep).items():
        variables[f"predicted_{name}"] = (without_size, column, {"long_name": MEANING[name]})
    coordinates = {**sweep.parameters, **{name: list(v) for name, v in sweep.axes.items()}}
    coordinates["trial"] = np.arange(sweep.n_trials)
    data = xr.Dataset(variables, coords=coordinates)
    data.attrs = {
        "title": "A sweep of attnlaw: observed by simulation, predicted by theory",
        "sweep": json.dumps(sweep.as_mapping(), ensure_ascii=False),
        "n_cells": sweep.n_cells,
        "n_cells_missing": int((~done).sum()),
        **{f"software_{name}": text for name, text in software.items()},
    }
    data.attrs["values_sha256"] = values_digest(data)
    return data


def save(data: "Dataset", path: Path) -> None:
    """Write a dataset as NetCDF-4, which any language can read, and read it back."""
    try:
        _write(data, path)
        is_sound = values_digest(load(path)) == data.attrs["values_sha256"]
    except RuntimeError as error:  # all that the library says of a full disk is "HDF error"
        raise OSError(f"{error}: is there room on the disk?") from error
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} when it is read back") from error
    if not is_sound:
        raise OSError("other numbers when it is read back")


def _write(data: "Dataset", path: Path) -> None:
    data.to_netcdf(path, engine="netcdf4")


def load(path: Path) -> "Dataset":
    """Read a dataset into memory."""
    import xarray as xr

    return xr.load_dataset(path, engine="netcdf4")


def values_digest(data: "Dataset") -> str:
    """Return the SHA-256 of all variables, by name: equal when every byte of them is."""
    names = sorted(map(str, data.data_vars))
    arrays = ((name, np.ascontiguousarray(data[name].values)) for name in names)
    parts = ((f"{name} {x.dtype.str} {x.shape}", x.tobytes()) for name, x in arrays)
    return checksum(chain.from_iterable(parts))


def predicted(sweep: Sweep) -> dict[str, NDArray[Any]]:
    """Predict every point; one call covers the whole grid of ratios, signal norms and ridges.

    Returns
    -------
    dict of arrays
        For each field of the result, over the axes of the sweep without the dimension.
    """
    from attnlaw.theory import predict, predict_accuracy

    axes = {name: v for name, v in sweep.axes.items() if name != "dimension"}
    inner = [name for name in axes if name in NUMBERS]
    outer = [name for name in axes if name not in inner]
    grids = np.meshgrid(*(axes[name] for name in inner), indexing="ij", sparse=True)
    numbers = dict(zip(inner, grids, strict=True))
    shape = tuple(len(axes[name]) for name in inner)
    columns: dict[str, list[Any]] = {name: [] for name in sweep.result_fields}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegimeWarning)  # the observation stands beside it
        for point in sweep.points(*outer):
            here = {**sweep.parameters, **point, **numbers}
            model = sweep.model(here)
            result = predict_accuracy(model, here["ridge"]) if "ridge" in here else predict(model)
            for name, column in columns.items():
                column.append(np.broadcast_to(getattr(result, name), shape))
    sizes = tuple(map(len, axes.values()))
    return {name: np.reshape(column, sizes) for name, column in columns.items()}
