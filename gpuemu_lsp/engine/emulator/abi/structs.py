"""The records that generated code and Python share: byte offsets into a warp's context, a block's and the launch's.

Everything is little-endian and lives in plain memory, so that either side can read what the other wrote.
"""

from __future__ import annotations

from typing import Final

from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE


class Warp:
    """A warp's context: where it stands, who is alive, scratch space, and the registers it saves."""

    RESUME: Final = 0  # i32: START, IMPORT, SAVED or FIRST_BLOCK + block
    MASK: Final = 4  # i32: lanes running
    ALIVE: Final = 8  # i32: lanes that have not ended
    LANES: Final = 12  # i32: lanes the block has; those of a last, partial warp are fewer
    STATUS: Final = 16  # i32: what the scheduler knows about the warp, one of Status
    BAR_MASK: Final = 20  # i32: lanes waiting at a barrier
    COLLECTIVE_MASK: Final = 24  # i32: lanes waiting for other lanes of the warp
    PREFER: Final = 28  # i32: lane whose group runs next, or -1 for the lowest block
    FORCE: Final = 32  # i32: 1 makes the next collective run with the lanes that are there
    COPY_COUNT: Final = 36  # i32: asynchronous copies under way, see CopyQueue
    BAR_RESULT: Final = 40  # i32: what bar.red gives
    STEPS: Final = 48  # i64: backward jumps taken
    LAUNCH: Final = 56  # i64: address of the launch record
    BLOCK: Final = 64  # i64: address of the block record
    LOCAL: Final = 72  # i64: address of the local memory of lane 0
    WARP_ID: Final = 80  # i32
    EVENT_SITE: Final = 84  # i32: instruction at which the warp stopped
    FUNCTION: Final = 88  # i64: the translation that runs this warp
    STACK_BASE: Final = 96  # i64: address of the call stack of lane 0
    NOW: Final = 104  # i32: the race checker's clock: the warp's present epoch, see Cell
    WARP_FLOOR: Final = 108  # i32: what lanes of this warp did before this epoch is ordered
    BLOCK_FLOOR: Final = 112  # i32: likewise for threads of this block
    ME: Final = 116  # i32: the race checker's number of lane 0
    BEGAN: Final = 120  # i32: the epoch in which the block began
    PARTLY: Final = 124  # i32: the epoch in which some lanes, not all, have last met
    TID_X: Final = 128  # 32 x i32
    TID_Y: Final = 256
    TID_Z: Final = 384
    PC: Final = 512  # 32 x i32: block each lane is to run next
    BAR_ID: Final = 640  # 32 x i32
    BAR_COUNT: Final = 768  # 32 x i32: threads expected, 0 for all
    BAR_KIND: Final = 896  # 32 x i32: one of BarrierKind, with the predicate in bit 8
    BAR_SITE: Final = 1024  # 32 x i32
    ADDRESS: Final = 1152  # 32 x i64: addresses handed to the memory functions
    VALUE: Final = 1408  # 4 x 32 x i64: values handed to or from them, element after element
    STACK: Final = 2432  # 32 x i64: bytes on each lane's call stack
    FENCED: Final = 2688  # 32 x i32: the epoch each lane's last fence began
    KNOWN: Final = 2816  # 32 x 32 x i32: the epochs of other lanes that each lane knows of, by partial warp masks
    LEARNT: Final = 6912  # 32 x i32: the last release each lane has learnt of
    SAVED: Final = 7040  # a slot of 256 bytes for each register


STACK_BYTES: Final = 1 << 16
"""Size of a thread's stack for recursive calls. A GPU has 1 KiB unless a program asks for more, but smaller frames."""

SLOT: Final = WARP_SIZE * 8
"""Bytes kept for a register's 32 values."""


class Block:
    """The block record: which block, and where its shared memory lies."""

    X: Final = 0  # i32
    Y: Final = 4
    Z: Final = 8
    LINEAR: Final = 16  # i64
    SHARED: Final = 24  # i64: address of the shared window
    COPIES: Final = 32  # i64: address of the first warp's CopyQueue, 0 if the kernel copies nothing asynchronously
    SIZE: Final = 64


class Launch:
    """The launch record."""

    PARAMS: Final = 0  # i64: address of the parameter block
    ARENA: Final = 8  # i64: lowest address of the arena
    ARENA_SIZE: Final = 16  # i64
    SHARED_SIZE: Final = 24  # i64
    SYMBOLS: Final = 32  # i64: address of a table of i64 addresses
    GRID_X: Final = 40  # i32
    GRID_Y: Final = 44
    GRID_Z: Final = 48
    NTID_X: Final = 52
    NTID_Y: Final = 56
    NTID_Z: Final = 60
    DYNAMIC_SHARED: Final = 64  # i32
    TOTAL_SHARED: Final = 68  # i32
    EVENTS: Final = 72  # i64: address of the event records
    EVENT_COUNT: Final = 80  # i64
    EVENT_LIMIT: Final = 88  # i64
    COUNTS: Final = 96  # i64: address of the counters per site and kind
    WATCH_LOW: Final = 104  # i64
    WATCH_HIGH: Final = 112  # i64
    WATCH_SITE: Final = 120  # i64: last store seen there, its thread and its block
    WATCH_THREAD: Final = 128
    WATCH_BLOCK: Final = 136
    LOCAL_FRAME: Final = 144  # i64
    CALLBACK: Final = 152  # i64: function for builtin calls
    QUANTUM: Final = 160  # i32
    YIELDS: Final = 164  # i32: yields left before Python is asked
    WARPS: Final = 168  # i64: address of the first warp's context
    WARP_SIZE: Final = 176  # i64: bytes from one context to the next
    WARP_COUNT: Final = 184  # i32
    THREADS: Final = 188  # i32: threads to a block
    FUNCTION: Final = 192  # i64: the specialised translation
    NEXT_BLOCK: Final = 200  # i64: linear number of the block to run
    BLOCK_END: Final = 208  # i64
    BLOCK: Final = 216  # i64: address of the block record
    IN_BLOCK: Final = 224  # i32: 1 while a block is under way
    SHADOW_FRESH: Final = 228  # i32: shadow byte of fresh shared and local memory
    LOCAL: Final = 232  # i64: address of the local memory of the block
    LOCAL_SIZE: Final = 240  # i64: its size
    SHARED_LIMIT: Final = 248  # i64: bytes of shared memory to reset
    SEED: Final = 256  # i64
    CLOCK: Final = 264  # i64
    CONST_LOW: Final = 272  # i64: constant variables
    CONST_SIZE: Final = 280  # i64
    PARAMS_SIZE: Final = 288  # i64
    SHARED_SHADOW: Final = 296  # i64: address of the shadow that fresh shared memory has
    STEPS: Final = 304  # i64: backward jumps of all warps of ended blocks
    RACE_PLANES: Final = 312  # i64: where the race checker's cells for the lowest byte of the arena lie
    RACE_DISTANCE: Final = 320  # i64: bytes from one plane of them to the next
    RACE_SHIFT: Final = 328  # i64: a cell describes 1 << RACE_SHIFT bytes
    RACE_PRIVATE: Final = 336  # i64: addresses from here on belong to a block (shared) or a thread (local)
    RACE_FLOOR: Final = 344  # i32: earlier epochs belong to earlier launches
    RACE_HIGH: Final = 348  # i32: the highest epoch of blocks that have ended
    RACE_CALL: Final = 352  # i64: function that knows of orders beyond barriers, or 0
    MEETINGS: Final = 360  # i32: barriers that open before Python is asked
    RACE_LINES: Final = 368  # i64: where its record of writes to the lowest line lies; that of reads is a plane on
    GRID_WORKSPACE: Final = 376  # i64: what cooperative groups keep for the whole grid, 0 if nothing asks for it
    COVERAGE: Final = 384  # i64: address of a byte of Reach bits for each site; only code that covers looks there
    PARTED: Final = 392  # i64: address of an i32 for each block: how often lanes have parted at its end, where it forks
    PLAIN: Final = 400  # i64: the translation for warps whose lanes do not stay together where they were taken to
    APART: Final = 408  # i32: how many warps it has taken over
    TALLY: Final = 416  # i64: address of a Tally for each site; like the next three only for code that counts
    TRACE: Final = 424  # i64: address of the Traced records
    TRACED: Final = 432  # i64: how many there are
    TRACE_CALL: Final = 440  # i64: function that takes them, to be called when there are TRACE_LIMIT
    READABLE: Final = 448  # i64: address of a table: of each parameter the buffer, address and size, if all is readable
    SIZE: Final = 512


class Resume:
    """Values of ``Warp.RESUME``."""

    START: Final = 0
    IMPORT: Final = -2  # general code takes over what specialised code saved
    SAVED: Final = -3  # code goes on with all registers saved in its own shapes, each lane where its counter says
    FIRST_BLOCK: Final = 1


class Status:
    """What a warp function returns, and what the scheduler notes about a warp."""

    DONE: Final = 0
    READY: Final = 1
    BARRIER: Final = 2
    YIELD: Final = 3
    PART: Final = 4  # lanes have parted for too long, or wait singly: the general code must take over
    BLOCKED: Final = 5  # every living lane waits for something
    STOP: Final = 6  # a trap, or an instruction that cannot be run
    ASSUME: Final = 7  # an assumption of the specialised code does not hold
    APART: Final = 8  # lanes have parted where they were taken to stay together: the plain code must take over


class BarrierKind:
    """What a lane does at a barrier."""

    SYNC: Final = 0
    ARRIVE: Final = 1
    RED_POPC: Final = 2
    RED_AND: Final = 3
    RED_OR: Final = 4


class Shadow:
    """Bits of the byte that describes a byte of the arena."""

    ADDRESSABLE: Final = 1
    INITIALISED: Final = 2
    WRITTEN: Final = 4
    READ_ONLY: Final = 8
    WATCHED: Final = 16
    IN_FLIGHT: Final = 32  # an asynchronous copy will write here


READABLE: Final = Shadow.ADDRESSABLE | Shadow.INITIALISED
"""Shadow bits a load requires."""

STORE_MASK: Final = Shadow.ADDRESSABLE | Shadow.READ_ONLY | Shadow.WATCHED
"""Shadow bits a store examines: all but ``ADDRESSABLE`` must be clear."""

MARK: Final = Shadow.ADDRESSABLE | Shadow.INITIALISED | Shadow.WRITTEN
"""Shadow bits after a store."""

POISON: Final = 0xCB
"""Byte that fills fresh shared memory and unset registers: not zero, so that a missing write shows in the numbers."""

COPIES_KEPT: Final = 64
"""How many asynchronous copies (of all lanes) a warp can have under way before they are delivered unasked."""


class Copy:
    """One asynchronous copy of a warp: what is to be written where, for which lanes still."""

    MASK: Final = 0  # i32: lanes it is not delivered for
    SITE: Final = 4  # i32
    BYTES: Final = 8  # i32: per lane
    FLAGS: Final = 12  # i32: as the store function takes them
    GROUPS: Final = 64  # 32 x i32: the group it belongs to, by lane
    TARGETS: Final = 192  # 32 x i64
    DATA: Final = 448  # 4 x 32 x i32: word after word
    SIZE: Final = 960


class CopyQueue:
    """The asynchronous copies of a warp, oldest first; ``Warp.COPY_COUNT`` says how many."""

    COMMITTED: Final = 0  # 32 x i32: groups each lane has committed
    ENTRIES: Final = 128
    SIZE: Final = 128 + COPIES_KEPT * Copy.SIZE


class Kind:
    """What an event record is about."""

    OUT_OF_BOUNDS: Final = 0
    MISALIGNED: Final = 1
    NULL: Final = 2
    UNINITIALISED: Final = 3
    READ_ONLY: Final = 4
    WARP_MASK: Final = 5
    STOP: Final = 6
    RACE: Final = 7
    COUNT: Final = 8


class Reach:
    """Bits of the byte that says what of a site was reached."""

    BLOCK: Final = 1  # of a block's first site: a lane came here
    TAKEN: Final = 2  # a branch was taken, a guarded instruction acted
    OTHER: Final = 4  # it was not


class Tally:
    """What is counted for a site: of a block's first one, the block; of a guarded instruction, when it acted."""

    BLOCKS: Final = 0  # i64: executions by a warp
    BLOCK_LANES: Final = 8  # i64: executions by a lane
    GUARDED: Final = 16
    GUARDED_LANES: Final = 24
    SIZE: Final = 32


class Traced:
    """One access of a warp: who, and where to."""

    SITE: Final = 0  # i32
    MASK: Final = 4  # i32: lanes that act
    ADDRESSES: Final = 8  # 32 x i64
    SIZE: Final = 264


TRACE_LIMIT: Final = 2048
"""How many accesses are noted before they are looked at together."""


class Cell:
    """What the race checker keeps for a few neighbouring bytes: one i32 in each of these planes.

    The last write and the last read, each as a thread, an epoch and a site. An epoch is ``clock << 3 | strong << 2 |
    spread``: clocks only grow, from launch to launch, so that cells need no reset. Of several accesses that nothing
    orders, the latest is kept, and ``spread`` says how far apart the threads are: one thread, one warp, one block, or
    several blocks. A strong access is atomic or volatile: two of them never race.
    """

    WRITER: Final = 0
    WRITTEN: Final = 1
    WRITE_SITE: Final = 2
    READER: Final = 3
    READ: Final = 4
    READ_SITE: Final = 5
    RELEASED: Final = 6  # not 0 where a thread has released what it did through this place
    LINES_WRITTEN: Final = 7  # see Line
    LINES_READ: Final = 8
    OTHER_READER: Final = 9  # where several threads have read: one that is not the last of them, and its site
    OTHER_SITE: Final = 10
    READERS: Final = 11  # where the spread is one warp: a bit for each of its lanes that has read, or written
    WRITERS: Final = 12
    PLANES: Final = 13

    STRONG: Final = 4
    SPREAD: Final = 3  # 0 one thread, 1 one warp, 2 one block, 3 several blocks
    TICK: Final = 8


class Line:
    """What the race checker keeps for a line of cells in global memory: a record of the last write, another of reads.

    Cell ``i`` of the line was accessed by thread ``FIRST + (i >> shift)`` if bit ``i`` of ``LANES`` is set, in which
    ``shift`` is kept from bit 16 on; all in one epoch, at one site. Once two sets of threads have been there the line
    is ``SETTLED`` for the rest of the launch: its cells are looked at one by one.
    """

    FIRST: Final = 0
    WHEN: Final = 4
    LANES: Final = 8
    SITE: Final = 12

    SIZE: Final = 16

    SHIFT: Final = 4
    CELLS: Final = 1 << SHIFT
    SETTLED: Final = 1 << 31


THREADS_MASK: Final = 1023
"""A thread's number is its block's times 1024 plus its own. Shared memory only needs the latter."""


class RaceCall:
    """What the race checker asks or tells Python."""

    ORDERED: Final = 0
    ACQUIRE: Final = 1
    RELEASE: Final = 2


EVENT_SIZE: Final = 64
"""An event record: i32 site, kind, lane, size; i64 address, block; i32 warp; i32 access, 1 for a store.

Of a race also the other party: i32 its site, thread number, epoch, and 1 if it wrote.
"""

IN_FLIGHT: Final = 2
"""In an event's access field: an asynchronous copy to the place is under way."""

SHADOW_DISTANCE: Final = 1 << 30
"""A shadow byte lies this far above the byte it describes."""

SLACK: Final = 8192
"""Unaddressable bytes round every window: what lies there may be looked at, and is always refused."""

NEAR: Final = 2048
"""How far outside a window a base may point, and how far beyond a base an access may lie, to be looked at: with the
reach of a whole warp this stays within ``SLACK``."""

MOST_BYTES: Final = 32 * WARP_SIZE
"""The most that one access of a warp to neighbouring places moves."""

NOWHERE: Final = -16384
"""An address, relative to the arena, round which nothing is ever addressable."""

NO_BLOCK: Final = 0x7FFFFFFF
"""The program counter of a lane that has ended."""
