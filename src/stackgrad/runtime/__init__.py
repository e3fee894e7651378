"""This package holds the state of the runtime: settings, live arrays, threads and their tapes.

What `init` chose, what a thread records, streams, profiles, errors of use.
"""
