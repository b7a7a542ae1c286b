"""The services of a server, constructed in dependency order.

Each service takes the services it uses as constructor arguments, so a wrong order is an undefined name to the type
checker. What would point the other way, from a producer to those that react to it, goes through the event bus.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from lsprotocol import types

from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.server.checks.check_queue import CheckQueue
from gpuemu_lsp.server.checks.check_states import CheckStates
from gpuemu_lsp.server.checks.document_sync import DocumentSync
from gpuemu_lsp.server.checks.judgements import Judgements
from gpuemu_lsp.server.checks.minimiser import CaseMinimiser
from gpuemu_lsp.server.checks.program_runs import ProgramRuns
from gpuemu_lsp.server.checks.result_filer import ResultFiler
from gpuemu_lsp.server.checks.scheduler import BatchScheduler
from gpuemu_lsp.server.checks.stored_failures import StoredFailures
from gpuemu_lsp.server.checks.virtual_documents import VirtualDocuments
from gpuemu_lsp.server.client.notifications import (
    Refreshers,
    ResultRefresher,
    log_checks,
    log_message,
    notify_failures_changed,
    show_message,
    trace_batches,
)
from gpuemu_lsp.server.client.progress import ProgressBars
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.client.status import ServerStatus
from gpuemu_lsp.server.code_actions.registrar import Registrar
from gpuemu_lsp.server.code_actions.resolver import CodeActionResolver
from gpuemu_lsp.server.configuration import Configuration, apply_settings
from gpuemu_lsp.server.diagnostics.measurement_history import MeasurementHistory
from gpuemu_lsp.server.diagnostics.publisher import DiagnosticPublisher
from gpuemu_lsp.server.diagnostics.sources import DiagnosticStore
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.events import EventBus
from gpuemu_lsp.server.jobs import JobRunner
from gpuemu_lsp.server.notebooks.translation import CellTranslation
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.test_explorer.explorer import TestExplorer
from gpuemu_lsp.server.test_explorer.runs import TestRuns
from gpuemu_lsp.server.workspace.file_watcher import FileWatcher
from gpuemu_lsp.server.workspace.watched_folders import WatchedFolders


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the features of one server share."""

    session: Session
    scheduler: BatchScheduler
    queue: CheckQueue
    sync: DocumentSync
    virtual: VirtualDocuments
    configuration: Configuration
    watched_folders: WatchedFolders
    status: ServerStatus
    progress: ProgressBars
    refreshers: Refreshers
    failures: StoredFailures
    minimiser: CaseMinimiser
    resolver: CodeActionResolver
    registrar: Registrar
    explorer: TestExplorer
    runs: TestRuns
    programs: ProgramRuns
    judgements: Judgements


def build_services(server: GpuemuServer, pool: Pool) -> Services:
    """Construct the services of a server and subscribe them to events."""
    notify = server.protocol.notify
    events = EventBus()
    jobs = JobRunner(pool, events)
    history = MeasurementHistory(jobs, events)
    documents: dict[str, Document] = {}
    diagnostics = DiagnosticStore()
    server.cells = CellTranslation()

    def publish(params: types.PublishDiagnosticsParams) -> None:
        for each in server.cells.publish(params):
            server.text_document_publish_diagnostics(each)

    publisher = DiagnosticPublisher(diagnostics, documents, publish)
    session = Session(documents, diagnostics, publisher, jobs, history)
    configuration = Configuration(server, session, events)

    scheduler = BatchScheduler(pool, events)
    filer = ResultFiler(session)
    queue = CheckQueue(session, scheduler, events)
    states = CheckStates(session, scheduler, queue)
    publisher.state_of = states.diagnostic
    sync = DocumentSync(session, queue, scheduler, states)
    failures = StoredFailures(jobs, events)
    minimiser = CaseMinimiser(session, filer, failures, partial(show_message, server))

    watcher = FileWatcher(sync.changed_on_disk)
    watched_folders = WatchedFolders(watcher, jobs, session.watch_targets)
    explorer = TestExplorer(session, failures, notify)
    judgements = Judgements(session, events, partial(show_message, server))
    runs = TestRuns(session, queue, judgements, explorer, notify)

    resolver = CodeActionResolver(server, session)
    progress = ProgressBars(server, scheduler.cancel)
    refreshers = Refreshers(
        code_lenses=ResultRefresher(server.workspace_code_lens_refresh),
        inlay_hints=ResultRefresher(server.workspace_inlay_hint_refresh),
    )
    status = ServerStatus(pool, notify, lambda: session.results.failing, partial(log_message, server))
    events.subscribe(
        partial(apply_settings, pool),
        # Results first: the subscribers below read them from the session.
        filer.on_event,
        queue.on_event,
        states.on_event,
        progress.on_event,
        runs.on_event,
        refreshers.code_lenses.on_event,
        refreshers.inlay_hints.on_event,
        watched_folders.on_event,
        partial(trace_batches, server),
        partial(log_checks, server),
        failures.on_event,
        history.on_event,
        partial(notify_failures_changed, notify),
        explorer.on_event,
        # Last: a client that is notified of an idle server has received everything else.
        status.on_event,
    )
    return Services(
        session=session,
        scheduler=scheduler,
        queue=queue,
        sync=sync,
        virtual=VirtualDocuments(session, sync, server.cells, server.text_document_publish_diagnostics),
        configuration=configuration,
        watched_folders=watched_folders,
        status=status,
        progress=progress,
        refreshers=refreshers,
        failures=failures,
        minimiser=minimiser,
        resolver=resolver,
        registrar=Registrar(server, session, resolver),
        explorer=explorer,
        runs=runs,
        programs=ProgramRuns(session, queue, partial(show_message, server), notify),
        judgements=judgements,
    )
