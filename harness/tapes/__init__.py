"""Programs of several launches under tapes: copies and writes of the host between them, two threads that take turns.

What a tape does lies above the compiler: it is run through the runtime, as a user's program is, and judged by dual
numbers that know nothing of adjoints. All arithmetic is of small integers, which doubles hold exactly, so a gradient is
right to the last bit or wrong.
"""
