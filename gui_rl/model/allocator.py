"""Keeping freed memory in the process, which makes training on CPU about a quarter faster.

XLA allocates the temporaries of a step (hundreds of megabytes) with malloc and frees them after it. glibc hands blocks
of that size back to the kernel, so that every step pays for its pages again. `keep_freed_memory` tells glibc not to.
"""

import ctypes

# names and values of <malloc.h>
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


def keep_freed_memory() -> bool:
    """Call once at the start of a process, before the first computation. The process then keeps its peak of memory.

    Returns False, and changes nothing, where the C library has no `mallopt` (it is glibc's).
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    settings = ((_TRIM_THRESHOLD, -1), (_MMAP_MAX, 0), (_ARENA_MAX, 1))
    return all([library.mallopt(ctypes.c_int(name), ctypes.c_int(value)) for name, value in settings])
