"""Detection of unusual batches, which are checked whatever the sampling probability is."""

from __future__ import annotations

import abc
import math
from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuemu.verifier.values import as_array, is_torch

_SHAPES = 16
"""Trailing shapes whose distribution is kept; the least recently used one is forgotten."""
_WARM_UP = 8
"""Distances below which the spread of a window is not known."""
_EXTREME = 1.25
"""A row is extreme if its deviation exceeds the largest one of the window by this factor."""


class ExecutionOutlierDetector(abc.ABC):
    """Interface of a detector. Each tensor argument of an operation has a detector of its own."""

    @abc.abstractmethod
    def is_outlier(self, batch: Any) -> bool:
        """Return whether a batch, an array or tensor with samples along the first axis, is unusual."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget all batches."""


class ExponentialRunningCentroidExecutionOutlierDetector(ExecutionOutlierDetector):
    """Detector of batches whose distances from a running centroid are unusual.

    A batch is first judged and then added to the statistics. Its samples' L2 distances ``d`` from the centroid are
    compared with the window ``w`` of earlier distances, of which ``s`` is the ``percentile`` quantile of
    ``|w - median(w)|``. The batch is an outlier if ``|mean(d) - median(w)|`` exceeds ``s`` by the share
    ``outlier_threshold``, or if one sample deviates by a quarter more than any of the window. Distances of ``n``
    features concentrate around ``sqrt(n)``, so that only their spread shows what is unusual.

    The first batch of each trailing shape is an outlier, and so is one with NaN or infinity, which is not added.

    Parameters
    ----------
    percentile : float
        Quantile of the window that is the scale of deviations.
    max_distances : int
        Distances in the window.
    exponential_alpha : float
        Weight of a new batch in the running centroid. The first ``1 / exponential_alpha`` batches have equal weights.
    outlier_threshold : float
        Share by which the mean deviation of a batch exceeds the quantile. With ``legacy``, the share of the quantile
        that the mean distance reaches.
    legacy : bool
        Use the formula of cuda-kernel-verifier: ``mean(d) / quantile(w, percentile) >= outlier_threshold``, with ``d``
        in ``w`` and in the centroid. It flags nearly every batch with more than about 100 features.
    """

    def __init__(
        self,
        percentile: float = 0.95,
        max_distances: int = 10_000,
        exponential_alpha: float = 1e-2,
        outlier_threshold: float = 0.8,
        *,
        legacy: bool = False,
    ) -> None:
        if not 0 < percentile <= 1 or max_distances < 1 or not 0 < exponential_alpha <= 1:
            raise ValueError("percentile and exponential_alpha are in (0, 1], and max_distances is at least 1")
        self.percentile = percentile
        self.max_distances = max_distances
        self.exponential_alpha = exponential_alpha
        self.outlier_threshold = outlier_threshold
        self.legacy = legacy
        self._known: OrderedDict[tuple[int, ...], _Distribution] = OrderedDict()

    def reset(self) -> None:
        """Forget all batches."""
        self._known.clear()

    def is_outlier(self, batch: Any) -> bool:
        """Return whether a batch is unusual, and add it to the statistics."""
        rows = _rows(batch)
        if not rows.shape[0] or not rows.shape[1]:
            return False
        trailing = tuple(batch.shape[1:])
        known = self._known.get(trailing)
        if known is None:
            known = self._known[trailing] = _Distribution(self.max_distances)
            if len(self._known) > _SHAPES:
                self._known.popitem(last=False)
        self._known.move_to_end(trailing)
        mean = rows.mean(0)
        if self.legacy:
            return self._judge_legacy(known, rows, mean)
        first = known.centroid is None
        distances = _distances(rows, mean if first else known.centroid)
        if not np.isfinite(distances).all():
            return True
        unusual = first or self._is_unusual(known, distances)
        known.batches += 1
        weight = max(self.exponential_alpha, 1.0 / known.batches)
        known.centroid = mean if first else known.centroid + weight * (mean - known.centroid)
        # The centroid of the first batch is its own mean, from which its distances are too small.
        if not first:
            known.add(distances)
        return bool(unusual)

    def _is_unusual(self, known: _Distribution, distances: npt.NDArray[np.float64]) -> bool:
        if known.window().size < _WARM_UP:
            return False
        median, scale, largest = known.spread(self.percentile)
        # Equal distances of constant inputs have no spread; rounding alone must not make them unusual.
        least = 1e-6 * abs(median)
        mean_deviation = abs(float(distances.mean()) - median)
        if mean_deviation > (1 + self.outlier_threshold) * max(scale, least):
            return True
        return float(np.abs(distances - median).max()) > _EXTREME * max(largest, least)

    def _judge_legacy(self, known: _Distribution, rows: Any, mean: Any) -> bool:
        first = known.centroid is None
        alpha = self.exponential_alpha
        known.centroid = mean if first else alpha * mean + (1 - alpha) * known.centroid
        distances = _distances(rows, known.centroid)
        known.add(distances)
        if first:
            return True
        scale = float(np.quantile(known.window(), self.percentile))
        ratio = float(distances.mean()) / scale if scale else math.inf
        return not min(max(ratio, 0.0), 1.0) < self.outlier_threshold


class _Distribution:
    """Centroid of the batches of one trailing shape, and a ring buffer of the latest distances from it."""

    def __init__(self, size: int) -> None:
        self.centroid: Any = None
        self.batches = 0
        self._size = size
        self._ring: npt.NDArray[np.float64] = np.empty(0)
        self._next = 0
        self._new = 0
        self._spread: tuple[float, float, float] | None = None

    def spread(self, percentile: float) -> tuple[float, float, float]:
        """Return the window's median, and the quantile and maximum of the deviations from it.

        They change little with each batch, and are computed again when a sixteenth of the window is new.
        """
        if self._spread is None or self._new * 16 >= self._ring.size:
            median = float(np.median(self._ring))
            deviations = np.abs(self._ring - median)
            self._spread = median, float(np.quantile(deviations, percentile)), float(deviations.max())
            self._new = 0
        return self._spread

    def window(self) -> npt.NDArray[np.float64]:
        return self._ring

    def add(self, distances: npt.NDArray[np.float64]) -> None:
        latest = distances[-self._size :]
        self._new += latest.size
        free = self._size - self._ring.size
        grown, rest = latest[:free], latest[free:]
        if grown.size:
            self._ring = np.concatenate([self._ring, grown])
        if rest.size:
            places = (self._next + np.arange(rest.size)) % self._size
            self._ring[places] = rest
            self._next = int(places[-1] + 1) % self._size


def _rows(batch: Any) -> Any:
    """Return a batch as a matrix of samples in at least single precision; one number is one sample."""
    if is_torch(batch):
        wide = batch.detach()
        wide = wide.abs() if wide.is_complex() else wide
        wide = wide if str(wide.dtype) in ("torch.float32", "torch.float64") else wide.float()
        if not wide.numel():
            return wide.reshape(0, 0)
        return wide.reshape(wide.shape[0], -1) if wide.ndim else wide.reshape(1, 1)
    array = as_array(batch)
    array = np.abs(array) if array.dtype.kind == "c" else array
    wide = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    if not wide.size:
        return np.empty((0, 0))
    return wide.reshape(wide.shape[0], -1) if wide.ndim else wide.reshape(1, 1)


def _distances(rows: Any, centroid: Any) -> npt.NDArray[np.float64]:
    """Return the L2 distance of each row from the centroid, computed where the rows are."""
    with np.errstate(all="ignore"):
        difference = rows - centroid
        distances = (difference * difference).sum(-1) ** 0.5
    return as_array(distances).astype(np.float64)
