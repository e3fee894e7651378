"""This module numbers the words of a handle, the memory that describes a call which the trampoline expects.

A *root* belongs to one kernel in one direction; it leads to a chain of *handles*, tried in order. A handle is one run
of words: a head, an entry for each argument, an entry for each array, and spare words. Entries name words of the block,
of arrays and of the handle itself by address: the code that writes an address into a handle keeps the owner of that
address alive, or makes the handle invalid when the owner dies.
"""

from __future__ import annotations

(
    FIRST,
    RUNTIME,
    FAILED_NUMBER,
    FLOAT,
    INT,
    TRUE,
    FALSE,
    NONE,
    AS_LONG_LONG,
    INCREF,
    VECTORCALL,
    FIRST_THREAD,
    NEXT_THREAD,
    INTERPRETER,
) = range(14)
"""Words of a root.

The first three are the first handle, or 0; the runtime's words; the number of the handle whose launch failed. Behind
them stand addresses of types, objects and functions of the interpreter, and of the interpreter's own state.
"""

(
    NEXT,
    VALID,
    TAKEN,
    BORN,
    LAUNCH,
    BLOCK,
    ARGUMENTS,
    ARRAYS,
    MOVED,
    HEAP,
    HEAP_EPOCH,
    COUNTERS,
    NUMBER,
    SIZED,
    PATIENCE,
    LAUNCHED,
    PINS,
    PINNED,
    HEAD,
) = range(19)
"""Words of a handle.

TAKEN: its block is in use. BORN: generation. MOVED: addresses or extents in the block were replaced, and the arrays
were not yet found to be different memory. HEAP: words of the heap that the block is bound to, or 0. SIZED: launches
count as cache hits. PATIENCE: ticks that a launch may keep the interpreter's lock; a handle whose launch took longer
becomes invalid if the interpreter has another thread, or if it took very long. LAUNCHED: launches. PINS, PINNED: how
many words must be as they were, and where their addresses stand, each with what it must contain.
"""

MICROSECONDS = 100
"""Time of a launch, at most, for which other threads wait; a longer one is left to Python, which releases the lock."""

ALONE = 100
"""Times that a launch of a lone thread may exceed its patience: a launch by Python costs it 1 % then."""

LONGEST = 1e-6 * MICROSECONDS * ALONE
"""Seconds for which a launch may keep the interpreter's lock, and Ctrl-C waiting. No longer one is made ready."""

READY, ORPHAN = 1, 2
"""Values of VALID: calls may fit; an object died that the handle names by address. 0: Python must look first."""

OBJECT, RUNTIME_ARRAY, NUMPY_ARRAY, REAL64, REAL32, INTEGER, BOOLEAN = range(7)
"""Kinds of arguments: this very object; an array of this very class; a NumPy array; numbers."""

A_KIND, A_IS, A_SLOT, A_LOW, A_HIGH, A_MASK, A_FIXED, ARGUMENT = range(8)
"""Words of an argument's entry.

A_IS: address of the object or class. A_SLOT: address of the number's slot in the block. A_LOW, A_HIGH: the integers
that the type holds; A_MASK: its bits. A_FIXED: another number decides other sizes.
"""

FIXED, OF_ARGUMENT, GRADIENT_OF, OF_NUMPY = range(4)
"""Sources of the array of an entry.

Its words are at a fixed address; or at those of an argument, or of the adjoint of an argument; or it is an argument of
NumPy.
"""

(
    E_SOURCE,
    E_WORDS,
    E_ARGUMENT,
    E_OFFSET,
    E_IS,
    E_AXES,
    E_FLAGS,
    E_VERSION,
    E_SLOT,
    E_EXTENTS,
    E_BYTES,
    E_ITEM,
    ARRAY,
) = range(13)
"""Words of an array's entry.

E_WORDS: address of its words, found anew for each launch unless fixed; 0 for NumPy arrays. E_ARGUMENT, E_OFFSET: which
argument leads to it, and at which offset in that object the pointer to its run of words stands. E_IS: the kind that it
must have, 0 for any; address of the dtype of a NumPy array. E_VERSION: the version that the sizes are known for.
E_SLOT, E_EXTENTS: addresses of the slots with its address and extents. E_BYTES, E_ITEM: its bytes, those of an element.
"""

WRITTEN, VERSIONED, SHAPED = 1, 2, 4
"""Flags of an array: the kernel writes it; its content decides the sizes; its extents decide the sizes."""
