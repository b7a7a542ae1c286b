"""Address space by mmap(2): reserved without memory, of which parts are made accessible or backed by a file.

The standard library maps at no chosen address, and cannot change what is mapped.
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

MAP_NORESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000)
"""Not to count a mapping as committed (mmap(2)): the kernel refuses a single one larger than memory and swap otherwise.
Python has the name since 3.13; the value is that of x86-64 and AArch64 (asm-generic/mman-common.h)."""

_PROT_NONE = 0
_MAP_FIXED = 0x10
_MAP_FIXED_NOREPLACE = 0x10_0000
_MADV_POPULATE_READ = 22  # asm-generic/mman-common.h
_WRITABLE = mmap.PROT_READ | mmap.PROT_WRITE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def _mapped(address: int, size: int, protection: int, flags: int, descriptor: int = -1, offset: int = 0) -> int:
    found = _libc.mmap(address or None, size, protection, flags | MAP_NORESERVE, descriptor, offset)
    if found is None or found == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(found)


def reserve(size: int, address: int = 0) -> int:
    """Reserve ``size`` bytes at ``address``, or anywhere if it is 0, that nothing may access yet; return the first.

    Raises
    ------
    OSError
        If the system refuses, or something is mapped there.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (_MAP_FIXED_NOREPLACE if address else 0)
    found = _mapped(address, size, _PROT_NONE, flags)
    if address and found != address:
        release(found, size)
        raise OSError(0, "the addresses are in use")
    return found


def reserve_two(size: int, distance: int) -> int:
    """Reserve two ranges of ``size`` bytes, of which the second begins ``distance`` bytes after the first; return that.

    What lies between is not reserved: a process may have a limit of its address space.

    Raises
    ------
    OSError
        If the system refuses.
    """
    # The system places mappings from high addresses down: the memory below is free.
    second = reserve(size)
    try:
        return reserve(size, second - distance)
    except (OSError, ctypes.ArgumentError):
        release(second, size)
    first = reserve(distance + size)
    release(first + size, distance - size)
    return first


def make_accessible(address: int, size: int) -> None:
    """Give reserved addresses zeroed memory, of which pages are used from their first access on.

    Raises
    ------
    OSError
        If the system refuses.
    """
    _mapped(address, size, _WRITABLE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED)


def show_file(address: int, size: int, descriptor: int, offset: int = 0, *, shared: bool = False) -> None:
    """Show a file from ``offset`` on at reserved addresses; pages that are written become private copies.

    If the mapping is ``shared``, what is written is written to the file.

    Raises
    ------
    OSError
        If the system refuses.
    """
    kind = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
    _mapped(address, size, _WRITABLE, kind | _MAP_FIXED, descriptor, offset)


def drop_copies(address: int, size: int) -> None:
    """Drop the private copies of whole pages: they show the file again."""
    _libc.madvise(address, size, mmap.MADV_DONTNEED)


def prefer_large_pages(address: int, size: int) -> None:
    """Let memory that is not of a file be of large pages, where the system has them: it is then mapped much faster."""
    _libc.madvise(address, size, mmap.MADV_HUGEPAGE)


def map_pages(address: int, size: int) -> None:
    """Map all pages of a shared file that are about to be accessed, as a fault for each costs more than writing it.

    They are mapped as for a load, which the kernel does for many at a time; pages of a memfd can then be written, too.
    """
    # A system that does not know it (before Linux 5.14) refuses.
    _libc.madvise(address, size, _MADV_POPULATE_READ)


def release(address: int, size: int) -> None:
    """Give ``size`` bytes of addresses back."""
    _libc.munmap(address, size)


def bytes_at(address: int, size: int) -> Bytes:
    """Return the bytes at accessible addresses; valid until these are released."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
