"""Eigenvalues and leading eigenvectors of a sample covariance, of many rows or of few."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from attnlaw._checks import Floats
from attnlaw.data.covariance import CovarianceAccumulator

__all__ = ["SampleSpectrum", "row_blocks", "sample_spectrum"]

BLOCK_NUMBERS = 2**22  # of the data worked on at a time


@dataclass(frozen=True)
class SampleSpectrum:
    """Spectrum of S = (1/N) Σ (x−x̄)(x−x̄)ᵀ, or of (1/N) Σ x xᵀ if not centred."""

    eigenvalues: Floats  # (d,) falling, zeros included
    mean: Floats  # x̄ (d,), whether subtracted or not
    varying: NDArray[np.bool_]  # (d,): columns that are not constant
    matrix: Floats  # S over the varying columns; or XXᵀ/N if there are fewer rows
    rows: Any  # X over the varying columns, centred; None if S was formed

    def vectors(self, n: int) -> Floats:
        """Return the n leading eigenvectors of S as rows of an array (n, d)."""
        full = np.zeros((n, len(self.mean)))
        if n == 0:
            return full
        k = len(self.matrix)
        _, U = eigh(self.matrix, subset_by_index=[max(k - n, 0), k - 1])
        U = U[:, ::-1]
        if self.rows is not None:
            U = self.rows.T @ U
            U = U / np.maximum(np.linalg.norm(U, axis=0), np.finfo(float).tiny)
        found = U.T
        largest = np.argmax(np.abs(found), axis=1)
        found = found * np.sign(found[np.arange(len(found)), largest])[:, None]  # for good order
        full[: len(found), self.varying] = found
        return full


def sample_spectrum(rows: NDArray[Any], *, centred: bool) -> SampleSpectrum:
    """Return the spectrum of the covariance of rows (n, d), read block by block.

    Columns that are constant hold no noise; they are left out, and `eigenvalues` is shorter by
    their number.
    """
    n, d = rows.shape
    mean = np.zeros(d)
    for block in row_blocks(rows):
        mean += block.sum(axis=0, dtype=np.float64)
    mean /= n
    spread = np.zeros(d)
    for block in row_blocks(rows):
        np.maximum(spread, np.abs(block - mean).max(axis=0), out=spread)
    varying = spread > 1e-7 * np.maximum(np.abs(mean), np.finfo(float).tiny)
    if not centred:
        varying |= mean != 0
    kept = int(varying.sum())
    if n < kept:
        X = rows[:, varying].astype(np.float64)
        X -= mean[varying] if centred else 0.0
        G = X @ X.T / n
        values = np.concatenate([np.linalg.eigvalsh(G), np.zeros(kept - n)])
        return SampleSpectrum(_falling(values), mean, varying, G, X)
    accumulator = CovarianceAccumulator(max(kept, 1), np.float64)
    for block in row_blocks(rows):
        accumulator.add(block[:, varying] if kept else block[:, :1])
    S = accumulator.result(centred=centred).covariance
    values = np.asarray(np.linalg.eigvalsh(S)[:kept], dtype=np.float64)
    return SampleSpectrum(_falling(values), mean, varying, S, None)


def row_blocks(rows: NDArray[Any]) -> Any:
    """Yield the rows a few at a time."""
    size = max(1, BLOCK_NUMBERS // max(rows.shape[1], 1))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _falling(values: Floats) -> Floats:
    return np.maximum(np.sort(values)[::-1], 0.0)
