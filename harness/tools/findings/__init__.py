"""This package finds faults in peers: it draws programs for them, reduces failures, groups them and writes them down.

A peer is another system that runs the source text of a program (`harness/tools/peers.py`). The result is a folder of
scripts that need nothing but the peer and NumPy.
"""
