"""The records that generated code and Python share: a warp's context, a block's record, the launch's, and tables.

They lie in plain memory, little-endian, so that either side reads what the other wrote.
"""

from __future__ import annotations

from typing import Final

from gpuemu_lsp.engine.emulator.abi.fields import Struct, address, i32, i64, opaque, u32
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE

REGISTER_BYTES: Final = WARP_SIZE * 8
"""Size of a register's 32 values in a warp's context; also the distance between rows of scratch values."""


TEXTURE_ROWS: Final = 12
"""Most 32-bit operands of a texture instruction: four coordinates, and two derivatives of four."""


class Warp(Struct, align=64):
    """A warp's context: execution state, scratch space for calls of the device library, saved registers.

    The record ends where the saved registers begin; ``Kernel.context_bytes`` is the size with them.
    """

    RESUME = i32()  # where the warp function continues: a Resume value, or FIRST_BLOCK + number of a basic block
    ACTIVE_MASK = u32()  # lanes that execute when the warp resumes
    LIVE_MASK = u32()  # lanes that have not exited
    THREAD_MASK = u32()  # lanes that are threads of the block; not all 32 in a last, partial warp
    STATUS = i32()  # why the warp function returned: a Status value
    BARRIER_MASK = u32()  # lanes that wait at a barrier
    COLLECTIVE_MASK = u32()  # lanes that wait at a warp collective for the other lanes of its mask
    PREFERRED_LANE = i32()  # lane whose group of divergent lanes runs next; -1: the lanes at the lowest basic block
    FORCE_COLLECTIVE = i32()  # 1: the next collective executes with the lanes that have arrived
    COPY_COUNT = i32()  # entries of the CopyQueue in use
    BARRIER_RESULT = u32()  # predicates of the lanes at a bar.red
    STEPS = i64()  # backward jumps taken
    LAUNCH = address()  # the LaunchRecord
    BLOCK = address()  # the BlockRecord
    LOCAL = address()  # local memory of lane 0
    WARP_ID = i32()
    STOP_SITE = i32()  # site at which the warp stopped
    FUNCTION = address()  # the version of the warp function that this warp executes
    STACK_BASE = address()  # call stack of lane 0
    EPOCH = i32()  # the race detector's clock: the warp's current epoch
    WARP_BARRIER_EPOCH = i32()  # last-barrier epoch of the warp: its earlier accesses are ordered before now
    BLOCK_BARRIER_EPOCH = i32()  # last-barrier epoch of the block
    CLUSTER_BARRIER_EPOCH = i32()  # last-barrier epoch of the cluster
    FIRST_THREAD = i32()  # the race detector's thread number of lane 0
    START_EPOCH = i32()  # epoch in which the block started
    PARTIAL_SYNC_EPOCH = i32()  # epoch of the last synchronisation of some, not all, live lanes
    TID_X = i32(count=WARP_SIZE, align=64)  # this and the arrays below begin at a cache line: no vector crosses one
    TID_Y = i32(count=WARP_SIZE)
    TID_Z = i32(count=WARP_SIZE)
    PC = i32(count=WARP_SIZE)  # number of the basic block that each lane executes next
    BARRIER_ID = i32(count=WARP_SIZE)
    BARRIER_COUNT = i32(count=WARP_SIZE)  # threads that the barrier expects, 0 for all of the block
    BARRIER_KIND = i32(count=WARP_SIZE)  # a BarrierKind, with the lane's predicate in bit 8
    BARRIER_SITE = i32(count=WARP_SIZE)
    ADDRESSES = i64(count=WARP_SIZE)  # scratch: addresses passed to the device library
    VALUES = i64(count=4 * WARP_SIZE)  # scratch: four rows of values passed to it and back; narrower ones are packed
    STACK_DEPTH = i64(count=WARP_SIZE)  # bytes on each lane's call stack
    FENCE_EPOCH = i32(count=WARP_SIZE)  # epoch that each lane's last fence began, of any scope
    WIDE_FENCE_EPOCH = i32(count=WARP_SIZE)  # the same for fences of a scope that includes other blocks
    LANE_CLOCKS = i32(
        count=WARP_SIZE * WARP_SIZE
    )  # by lane: its vector clock over the warp's lanes, from partial-mask syncs
    ACQUIRED = i32(count=WARP_SIZE)  # number of the last release that each lane has acquired or made
    RELEASED_EPOCH = i32(count=WARP_SIZE)  # epoch of each lane's last release
    ORDERED_THREAD = i32(count=WARP_SIZE)  # by lane: a thread of the block that it knows to be ordered before it
    ORDERED_UNTIL = i32(count=WARP_SIZE)  # first epoch of that thread whose accesses are not
    SAVED_REGISTERS = opaque(0, align=64)  # REGISTER_BYTES for each register that is live across a suspension


STACK_BYTES: Final = 1 << 16
"""Size of a thread's stack for recursive calls. A GPU has 1 KiB unless a program requests more, but smaller frames."""


MAX_CLUSTER_BLOCKS: Final = 16
"""Most blocks of a cluster that any GPU runs (CUDA programming guide, thread block clusters)."""

CLUSTER_WINDOWS: Final = 2 * MAX_CLUSTER_BLOCKS
"""Entries of ``BlockRecord.WINDOWS``."""


class BlockRecord(Struct, align=64):
    """The thread block that is resident: its index and its memory."""

    X = i32()
    Y = i32()
    Z = i32()
    CLUSTER_X = i32()  # index of its cluster in the grid
    CLUSTER_Y = i32()
    CLUSTER_Z = i32()
    CLUSTER_CTAID_X = i32()  # index in its cluster
    CLUSTER_CTAID_Y = i32()
    CLUSTER_CTAID_Z = i32()
    CLUSTER_RANK = i32()
    LINEAR = i64()
    SHARED = address()  # start of the shared window
    COPIES = address()  # CopyQueue of the first warp, 0 if the kernel has no asynchronous copies
    CLUSTER_SHARED = address()  # start of the lowest shared window of the cluster
    WINDOWS = i64(count=CLUSTER_WINDOWS)  # start of the own shared window, of those of the cluster's blocks, unmapped


class LaunchRecord(Struct, align=64):
    """What is common to all blocks of a launch."""

    PARAMS = address()  # the parameter block
    ARENA = address()  # lowest address of the arena
    ARENA_SIZE = i64()
    SHARED_SIZE = i64()
    SYMBOLS = address()  # table of the addresses of module variables
    GRID_X = i32()
    GRID_Y = i32()
    GRID_Z = i32()
    CLUSTER_X = i32()  # blocks of a cluster; 1 without clusters
    CLUSTER_Y = i32()
    CLUSTER_Z = i32()
    CLUSTERS_X = i32()  # clusters of the grid
    CLUSTERS_Y = i32()
    CLUSTERS_Z = i32()
    CLUSTER_BLOCKS = i32()
    CLUSTER_SHARED_SIZE = i64()  # bytes from the start of the cluster's lowest shared window to the end of its highest
    IS_CLUSTER = i32()  # 1 if the launch has clusters
    RACE_CLUSTER_EPOCH = i32()  # highest epoch of the clusters before, whose shared memory blocks use again
    NTID_X = i32()
    NTID_Y = i32()
    NTID_Z = i32()
    DYNAMIC_SHARED = i32()
    TOTAL_SHARED = i32()
    EVENTS = address()  # table of EventRecord
    EVENT_COUNT = i64()
    EVENT_LIMIT = i64()
    COUNTS = address()  # i64 counters, by site and event kind
    WATCH_LOW = i64()  # addresses whose last writer is wanted
    WATCH_HIGH = i64()
    WATCH_SITE = i64()  # the last store there, its thread and its block
    WATCH_THREAD = i64()
    WATCH_BLOCK = i64()
    LOCAL_FRAME = i64()  # bytes of local memory for each thread
    CALLBACK = address()  # Python function for calls of the device runtime (malloc, printf, ...)
    QUANTUM = i32()  # backward jumps after which a warp yields
    YIELDS_LEFT = i32()  # yields until the block scheduler returns to Python
    WARPS = address()  # context of the block's first warp
    WARP_STRIDE = i64()  # bytes from one warp's context to the next
    WARP_COUNT = i32()
    BLOCK_THREADS = i32()
    FUNCTION = address()  # the version of the warp function that warps start with
    NEXT_BLOCK = i64()  # linear number of the block to execute
    BLOCK_END = i64()
    BLOCK = address()  # the BlockRecord
    IN_BLOCK = i32()  # 1 while a block has started and not ended
    FRESH_SHADOW = i32()  # shadow byte of newly allocated shared and local memory
    LOCAL = address()  # local memory of the block
    LOCAL_SIZE = i64()
    SHARED_RESET_SIZE = i64()  # bytes of shared memory to reset when a block starts
    FILL = i32()  # byte that uninitialised shared and local memory holds
    FIRST_OF_DESCENDING = i64()  # number of the last block if blocks are executed from the last to the first, else 0
    SEED = i64()
    CLOCK = i64()  # value of %clock64
    CONST_LOW = i64()  # constant variables
    CONST_SIZE = i64()
    PARAMS_SIZE = i64()
    SHARED_SHADOW = address()  # shadow bytes of shared memory at the start of a block
    STEPS = i64()  # backward jumps of all warps of ended blocks
    RACE_PLANES = address()  # shadow cell of the arena's lowest bytes
    RACE_PLANE_STRIDE = i64()  # bytes from one plane of the shadow cells to the next
    RACE_CELL_SHIFT = i64()  # a shadow cell stands for 1 << RACE_CELL_SHIFT bytes
    RACE_PRIVATE_START = i64()  # addresses from here on belong to a block (shared) or to a thread (local)
    RACE_LAUNCH_EPOCH = i32()  # first epoch of this launch; all earlier ones belong to earlier launches
    RACE_HIGHEST_EPOCH = i32()  # highest epoch of blocks that have ended
    RACE_CALLBACK = address()  # Python function for orders beyond barriers; 0 if the kernel has none
    ORDERED_BLOCK = i32()  # the last order that the function found between whole blocks: number of the later one,
    ORDERED_AFTER = i32()  # number of the earlier one,
    ORDERED_UNTIL = i32()  # and the first epoch of the earlier one that is not ordered, 0 for none
    RACE_BETWEEN_BLOCKS = i32()  # 1 if only races between threads of different blocks are reported
    BARRIERS_LEFT = i32()  # barriers that the block scheduler releases before it returns to Python
    UNUSED_READ_CALLBACK = address()  # Python function for reads of which the value may not be used, 0 for none
    RACE_MEMBERS = address()  # table of MemberEpochs
    RACE_LINES = address()  # ShadowLine of writes for the lowest line; that of reads is a plane further
    GRID_WORKSPACE = address()  # cooperative groups' workspace for the grid, 0 if the kernel has no grid barrier
    COVERAGE = address()  # a byte of CoverageBits for each site; accessed by instrumented versions only
    DIVERGENCE_COUNTS = address()  # i32 for each basic block: warps that diverged at its end
    FALLBACK = address()  # version entered by warps that diverge at a branch speculated uniform
    MISSPECULATIONS = i32()  # warps that have entered it
    SITE_COUNTERS = address()  # SiteCounters for each site; like the next three for counting versions only
    TRACE = address()  # table of TracedAccess
    TRACE_COUNT = i64()
    TRACE_CALLBACK = address()  # Python function that empties the table when it holds TRACE_LIMIT entries
    READABLE_BUFFERS = address()  # a ReadableBuffer for each parameter
    TEXTURE_HANDLES = i64(count=WARP_SIZE)  # scratch of texture and surface instructions: the object of each lane,
    TEXTURE_OPERANDS = i32(count=TEXTURE_ROWS * WARP_SIZE)  # rows of coordinates, of levels and of derivatives,
    TEXTURE_RESULTS = i32(count=4 * WARP_SIZE)  # and the four values that a texture returns
    HIGHEST = address()  # i64 by site and event kind: the highest address of an access that had such an event
    CLAIM_LINES = (
        address()
    )  # i64 for each line of memory, see devicelib.block_claims; accessed by claiming versions only
    CLAIM_CELLS = address()  # i32 for each cell: owners in lines of several
    CLAIM_SHIFT = i64()  # a cell stands for 1 << CLAIM_SHIFT bytes
    CLAIM_OWNER = i32()  # number of the host thread that executes with this record, unique across launches
    CLAIM_FIRST = i32()  # lowest such number of the launch
    CLAIM_WHOLE = i64()  # the word of a line that this host thread has claimed as a whole
    CLAIM_WINDOWS = i64(count=6)  # start and size of the memory of each access_flags.Window but the first
    CLAIM_CONFLICT = i32()  # 1 if this host thread has accessed a cell of another one
    RECORDING = address()  # the RecordingRecord; accessed by recording versions only


class ReadableBuffer(Struct):
    """Entry of ``LaunchRecord.READABLE_BUFFERS``: a buffer that may be read from its start to its end."""

    ADDRESS = address()
    BYTES = i64()


MAX_PENDING_COPIES: Final = 64
"""Asynchronous copies (of all lanes) that a warp may have in flight before all of them are delivered."""


class CopyEntry(Struct, align=64):
    """An asynchronous copy of a warp that has not been delivered to all lanes."""

    PENDING_MASK = u32()  # lanes it has not been delivered to
    SITE = i32()
    BYTES = i32()  # per lane
    FLAGS = i32()  # access flags of the store
    GROUPS = i32(count=WARP_SIZE, align=64)  # number of the copy group, by lane
    TARGETS = i64(count=WARP_SIZE)
    DATA = i32(count=4 * WARP_SIZE)  # word by word, each for all lanes


class CopyQueue(Struct, align=64):
    """The asynchronous copies of a warp, oldest first; ``Warp.COPY_COUNT`` entries are in use."""

    COMMITTED = i32(count=WARP_SIZE)  # groups that each lane has committed
    ENTRIES = opaque(MAX_PENDING_COPIES * CopyEntry.SIZE, align=64)


class EventRecord(Struct, align=64):
    """An event: the access, and of a race the other access."""

    SITE = i32()
    KIND = i32()  # an EventKind
    LANE = i32()
    BYTES = i32()
    ADDRESS = i64()
    BLOCK = i64()
    WARP = i32()
    FLAGS = i32()  # access flags; of a race, its RaceFlag bits
    OTHER_SITE = i32()
    OTHER_THREAD = u32()
    OTHER_EPOCH = u32()
    OTHER_WROTE = i32()


class SiteCounters(Struct):
    """Executions of a site: at the first site of a basic block those of the block, at a guarded instruction its own."""

    BLOCK_WARPS = i64()
    BLOCK_LANES = i64()
    GUARDED_WARPS = i64()
    GUARDED_LANES = i64()


TRACE_LIMIT: Final = 2048
"""Accesses that a counting version records before Python evaluates them together."""


class RecordingRecord(Struct, align=64):
    """Where recording versions write what a block does, and how far they have come.

    The *position* of a run is the number of bytes that the runs of the block before it take in a recording of all. The
    window that is recorded begins with the first run whose position is at least ``BEGIN``, and ends when it is full.
    """

    BLOCK = i64()  # linear number of the block that is recorded
    POSITION = i64()  # that of the next run
    BEGIN = i64()
    SKIPPED = i64()  # runs before the window
    SKIPPED_TICKS = i64()  # instructions of these runs, with one for the end of each
    RUNS = address()  # table of RecordedRun
    COUNT = i64()  # entries of it
    PAYLOAD = address()  # results of instructions, in the layout of the basic block
    USED = i64()  # bytes of it
    LIMIT = i64()  # bytes of the window: of both tables
    SPARE = address()  # bytes in place of the payload: for other blocks, and for runs out of the window
    LOST = i64()  # runs behind the window
    PICTURE_AT = i64()  # number of the run, from the begin of the window, before which memory is copied
    PICTURE_CALLBACK = address()  # Python function that copies it
    EVENTS = i64()  # events of the launch at the end of the block's last run
    EVENT_POSITIONS = address()  # i64 for each event: the position of the run at whose end it was there, else -1


class RecordedRun(Struct):
    """One execution of one basic block by a warp."""

    BASIC_BLOCK = i32()
    LANES = u32()
    WARP = i32()
    SCALAR_PC = i32()  # 1 in the scalar-PC version, whose layouts are others
    OFFSET = i64()  # start of its results in the payload


class TracedAccess(Struct):
    """One access of a warp."""

    SITE = i32()
    ACTIVE_MASK = u32()
    ADDRESSES = i64(count=WARP_SIZE)
