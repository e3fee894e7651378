"""Findings in peers: what is drawn for them, how what fails is made small, told apart, and written down.

A peer is any system that runs the source text of a program (`harness/peers.py`). The result is a folder of scripts
that need nothing but the peer and NumPy.
"""
