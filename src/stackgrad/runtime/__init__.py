"""This package holds the state of the runtime.

What `init` chose, what a thread records, streams, profiles, errors of use.
"""
