"""``pytest --gpuemu``: the kernels and ops of every collected ``gpuemu.toml`` are test items.

pytest imports this module wherever the package is installed, so the engine is imported only with ``--gpuemu``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import os
    from concurrent.futures import Future
    from pathlib import Path

    from gpuemu_lsp.engine.findings import Finding
    from gpuemu_lsp.engine.report.model import Run
    from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

CONFIG_NAME = "gpuemu.toml"
_CHECKS = pytest.StashKey["_Checks"]()


class KernelError(Exception):
    """A kernel with errors; the message is the text output of the check."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--gpuemu`` and the options of its checks."""
    from gpuemu_lsp.cli.arguments import architecture, positive, seed

    group = parser.getgroup("gpuemu", "CUDA kernels, checked without a GPU")
    group.addoption("--gpuemu", action="store_true", help="collect the kernels of gpuemu.toml as tests")
    group.addoption("--gpuemu-cases", type=positive, metavar="N", help="cases per kernel and dtype")
    group.addoption("--gpuemu-seed", type=seed, metavar="S", help="master seed of the cases")
    group.addoption("--gpuemu-arch", type=architecture, metavar="SM", help="compile for this architecture instead")


def pytest_configure(config: pytest.Config) -> None:
    """Add the nearest ``gpuemu.toml`` to a run without paths on the command line, whatever ``testpaths`` is."""
    config.addinivalue_line("markers", "gpuemu: a CUDA kernel, checked without a GPU")
    if not config.getoption("--gpuemu"):
        return
    from gpuemu_lsp.engine.project import discover

    config.stash[_CHECKS] = _Checks()
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        found = discover(config.invocation_params.dir)
        if found is not None:
            config.args.append(str(found))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ConfigFile | None:
    """Collect every ``gpuemu.toml``."""
    if file_path.name == CONFIG_NAME and parent.config.getoption("--gpuemu"):
        collected: ConfigFile = ConfigFile.from_parent(parent, path=file_path)
        return collected
    return None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the checks of the selected kernels, except in a pytest-xdist worker, which runs only some of them."""
    if _CHECKS in session.config.stash and not hasattr(session.config, "workerinput"):
        session.config.stash[_CHECKS].start([item for item in session.items if isinstance(item, KernelItem)])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the worker pool."""
    if _CHECKS in config.stash:
        config.stash[_CHECKS].close()


class ConfigFile(pytest.File):
    """One ``gpuemu.toml``: an item for each kernel and op, and one for the file if it has errors or no kernels."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the items."""
        from gpuemu_lsp.engine.findings import Severity
        from gpuemu_lsp.engine.jobs.requests.targets import collect

        targets = collect([str(self.path)], _options(self.config), self.path.parent)
        findings = tuple(finding for finding in targets.findings if finding.severity is Severity.ERROR)
        if findings or not targets.requests:
            yield ConfigItem.from_parent(self, name="configuration", findings=findings, root=targets.root)
        for request in targets.requests:
            yield KernelItem.from_parent(self, name=request.spec.name, request=request, root=targets.root)


class _GpuemuItem(pytest.Item):
    """Base class of the items."""

    def __init__(self, *, root: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.root = root
        self.add_marker("gpuemu")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **kwargs: Any) -> str | Any:
        """Return the text output of a check, or pytest's representation of any other exception."""
        if isinstance(excinfo.value, KernelError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args, **kwargs)


class ConfigItem(_GpuemuItem):
    """An item that fails with the errors of a ``gpuemu.toml``, or because it registers no kernels."""

    def __init__(self, *, findings: tuple[Finding, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.findings = findings

    def runtest(self) -> None:
        """Fail."""
        from gpuemu_lsp.engine.report.model import Run
        from gpuemu_lsp.engine.report.text import render_text

        if not self.findings:
            raise KernelError("no kernel is registered, so nothing was checked")
        raise KernelError(render_text(Run(self.root, (), self.findings)))

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Return the location of the first error."""
        first = self.findings[0].place.range.start.line if self.findings else None
        return self.path, first, self.name


class KernelItem(_GpuemuItem):
    """One kernel or op. It fails if it has errors or was not run."""

    def __init__(self, *, request: CheckRequest, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.request = request

    def runtest(self) -> None:
        """Wait for the check and fail if the kernel is not clean."""
        from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN
        from gpuemu_lsp.engine.report.text import TextStyle, render_text

        run = self.config.stash[_CHECKS].result(self)
        text = render_text(run, TextStyle(hints=True))
        if not self.request.registered and {kernel.status for kernel in run.kernels} == {"not-executed"}:
            pytest.skip(f"not run, and not registered in a {CONFIG_NAME}:\n{text}")
        if run.exit_code != EXIT_CLEAN:
            raise KernelError(text)
        if run.findings:
            self.add_report_section("call", "gpuemu", text)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Return the location of the kernel's registration, or its source."""
        place = self.request.spec.places.get("name")
        if place is None:
            return self.request.spec.source, None, self.name
        return place.path, place.range.start.line, self.name


class _Checks:
    """The checks of one session, and their worker pool."""

    def __init__(self) -> None:
        import os
        from concurrent.futures import ThreadPoolExecutor

        from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
        from gpuemu_lsp.engine.workers.pool import Pool

        cores = os.cpu_count() or 1
        self._pool = Pool(FUNCTIONS, size=cores, preload=PRELOAD)
        self._threads = ThreadPoolExecutor(cores)
        self._started: dict[KernelItem, Future[Run]] = {}

    def start(self, items: list[KernelItem]) -> None:
        """Start checks, in the order in which their results are needed."""
        from gpuemu_lsp.engine.jobs.run import run_requests

        for item in items:
            if item not in self._started:
                self._started[item] = self._threads.submit(run_requests, (item.request,), (), item.root, self._pool)

    def result(self, item: KernelItem) -> Run:
        """Return the run of a kernel, after waiting for it."""
        self.start([item])
        return self._started[item].result()

    def close(self) -> None:
        """Cancel unfinished checks."""
        self._pool.close()
        self._threads.shutdown(cancel_futures=True)


def _options(config: pytest.Config) -> CheckOptions:
    from gpuemu_lsp.engine.subjects.request import DEFAULT_SEED, CheckOptions

    seed = config.getoption("--gpuemu-seed")
    return CheckOptions(
        cases=config.getoption("--gpuemu-cases"),
        seed=DEFAULT_SEED if seed is None else seed,
        seed_given=seed is not None,
        arch=config.getoption("--gpuemu-arch"),
    )
