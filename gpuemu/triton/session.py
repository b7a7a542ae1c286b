"""Sessions in which Triton launches run in the emulator, and the findings that they collect."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import triton
from triton._C.libtriton import nvidia
from triton.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from gpuemu.launches import (
    DEFAULT_ARCH,
    DEFAULT_SECONDS,
    LaunchRecord,
    OnFinding,
    distinct_findings,
    report,
)
from gpuemu.replaced_attributes import replaced
from gpuemu.triton.driver import EmulatorDriver, TritonLaunch, release_without_driver
from gpuemu.triton.findings import launch_findings
from gpuemu.triton.storage import NumpyTensor
from gpuemu.triton.torch_devices import cuda_on_cpu
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.compile.triton_backend import (
    WARP_SIZE,
    restore_backend,
    target_of,
    use_ptx_backend,
    with_fixed_locations,
)
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Argument, Buffer, Checks, Request, Scalar
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.ptx.triton_stores import with_ordered_stores
from gpuemu_lsp.engine.runtime.triton_launches.autotuners import Configurations, chosen_configurations, timed_once
from gpuemu_lsp.engine.runtime.triton_launches.cublas import CublasLt


@dataclass(slots=True)
class Session:
    """Launches and findings between activation and its end.

    ``on_finding`` says what an error finding does: ``raise`` a :class:`KernelError` from the launch, ``warn``, or only
    ``collect``. Findings of a lower severity never raise.
    """

    arch: str
    checks: Checks
    on_finding: OnFinding
    seconds: float
    configurations: Configurations = "once"
    skips_launches: bool = False
    """Launches return without an effect: what of a program's results depends on them is then seen."""
    launches: list[LaunchRecord] = field(default_factory=list)
    _emulator: Emulator = field(default_factory=Emulator)
    _artifacts: dict[str, Artifact] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all launches, in the order in which they were made; each rule once per line."""
        return distinct_findings(self.launches)

    def run(self, launch: TritonLaunch) -> None:
        """Run a launch, write its results to the tensors, and report.

        Raises
        ------
        KernelError
            If it has an error and ``on_finding`` is ``raise``.
        """
        if self.skips_launches:
            return
        arguments, reachable = launch.packer.pack(launch.values)
        ctas = getattr(launch.metadata, "num_ctas", 1)
        x, y, z = launch.grid
        request = Request(
            artifact=self._artifact(launch),
            entry=launch.kernel.name,
            grid=(x * ctas, y, z),
            cluster=(ctas, 1, 1) if ctas > 1 else None,
            block=(WARP_SIZE * launch.metadata.num_warps, 1, 1),
            shared_bytes=launch.kernel.shared_bytes,
            arguments=(*arguments, *_scratch(launch)),
            reachable=reachable,
            checks=replace(self.checks, block_races=launch.gluon and self.checks.block_races),
            max_seconds=self.seconds,
            translate_seconds=self.seconds,
            in_place=True,
        )
        started = time.perf_counter()
        outcome = self._emulator.run(request)
        elapsed = (time.perf_counter() - started) * 1e3
        if outcome.printed:
            print(outcome.printed, end="")  # noqa: T201 - tl.device_print
        findings = launch_findings(request, outcome)
        self.launches.append(
            LaunchRecord(
                launch.kernel.name,
                launch.grid,
                request.block[0],
                outcome.status,
                outcome.translate_ms,
                elapsed - outcome.translate_ms,
                findings,
                request.artifact,
                outcome.approximate,
            )
        )
        report(self.launches[-1], self.on_finding)

    def _artifact(self, launch: TritonLaunch) -> Artifact:
        ptx = launch.kernel.ptx
        if ptx not in self._artifacts:
            name = launch.kernel.name
            self._artifacts[ptx] = Artifact(
                "", self.arch, with_ordered_stores(with_fixed_locations(ptx)), b"", {name: name}, {}, "triton"
            )
        return self._artifacts[ptx]


def _scratch(launch: TritonLaunch) -> list[Argument]:
    """Return the two arguments that follow those of the signature: scratch memory of the launch and of the profiler."""
    x, y, z = launch.grid
    metadata = launch.metadata
    sizes = {"global scratch": metadata.global_scratch_size, "profile scratch": metadata.profile_scratch_size}
    arguments: list[Argument] = []
    for name, size in sizes.items():
        total = size * x * y * z * getattr(metadata, "num_ctas", 1)
        arguments.append(
            Buffer(name, np.zeros(total, np.uint8), initialized=False) if total else Scalar(name, bytes(8))
        )
    return arguments


@contextmanager
def emulated(
    arch: str = DEFAULT_ARCH,
    *,
    checks: Checks | None = None,
    on_finding: OnFinding = "raise",
    seconds: float = DEFAULT_SECONDS,
    configurations: Configurations = "once",
) -> Iterator[Session]:
    """Run Triton launches in the emulator inside a ``with`` statement.

    Parameters
    ----------
    arch
        The architecture to compile for, such as ``sm_80``.
    checks
        The checkers; by default all.
    on_finding
        What an error does: ``raise``, ``warn`` or ``collect``.
    seconds
        Limit of each launch, in seconds; and of the translation of each kernel.
    configurations
        What an autotuner runs for each new key: the configurations that have not run yet and the first one (``once``),
        ``all`` of them, or only the ``first``.
    """
    session = Session(arch, checks or Checks(), on_finding, seconds, configurations)
    with ExitStack() as stack:
        stack.callback(restore_backend, use_ptx_backend())
        config = triton.runtime.driver
        # Reading `active` would look for a GPU; `_active` is None until then.
        stack.callback(_set_driver, getattr(config, "_active", None))
        driver = EmulatorDriver(target_of(arch), _run_in_current_session)
        _set_driver(driver)
        stack.enter_context(_current(session))
        stack.enter_context(cuda_on_cpu(driver.get_device_capability(), driver.utils.get_device_properties(0)))
        stack.enter_context(replaced(nvidia.cublas, "CublasLt", CublasLt))
        stack.enter_context(replaced(JITFunction, "run", _with_tensors(JITFunction.run)))
        choose = chosen_configurations(Autotuner.prune_configs, configurations, lambda: len(session.launches))
        stack.enter_context(replaced(Autotuner, "prune_configs", choose))
        for name in ("do_bench", "do_bench_cudagraph"):
            stack.enter_context(replaced(triton.testing, name, timed_once))
        yield session


_sessions: list[Session] = []


@contextmanager
def _current(session: Session) -> Iterator[None]:
    _sessions.append(session)
    try:
        yield
    finally:
        _sessions.remove(session)


@contextmanager
def launches_skipped() -> Iterator[None]:
    """Let launches of the current session in the body have no effect."""
    session = _sessions[-1]
    session.skips_launches = True
    try:
        yield
    finally:
        session.skips_launches = False


def _run_in_current_session(launch: TritonLaunch) -> None:
    # Triton keeps the launcher of a kernel that it has compiled, beyond the session in which that happened.
    _sessions[-1].run(launch)


def _with_tensors(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return Triton's function for launches, extended to NumPy arrays."""

    @functools.wraps(run)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = {name: _tensor(value) for name, value in kwargs.items()}
        return run(self, *map(_tensor, args), **named)

    return wrapped


def _tensor(value: Any) -> Any:
    return NumpyTensor(value) if isinstance(value, np.ndarray) else value


def _set_driver(driver: object) -> None:
    triton.runtime.driver._active = driver


# Beyond any session: the kernels that one loaded are released after its end.
CompiledKernel.__del__ = release_without_driver(CompiledKernel.__del__)
_activation = ExitStack()


def activate(
    arch: str = DEFAULT_ARCH,
    *,
    checks: Checks | None = None,
    on_finding: OnFinding = "raise",
    seconds: float = DEFAULT_SECONDS,
    configurations: Configurations = "once",
) -> Session:
    """Run Triton launches in the emulator until :func:`deactivate`, or for the rest of the process.

    The parameters are those of :func:`emulated`.
    """
    deactivate()
    return _activation.enter_context(
        emulated(arch, checks=checks, on_finding=on_finding, seconds=seconds, configurations=configurations)
    )


def deactivate() -> None:
    """End what :func:`activate` began."""
    _activation.close()
