"""This package holds the state of the runtime: settings, live arrays, threads and their tapes.

Its modules define the settings of `init`, the watchers of each thread, streams, profiles, and errors for wrong uses.
"""
