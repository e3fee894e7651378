"""This package records digests of all code that the compiler generates, to prove that a change of files alters none.

For every kernel of the .kir files and of the examples it makes the IR after each pass and the code for each machine,
and keeps a digest of each text. Two records, of two checkouts, are compared line by line. What the net takes of
the rest of the project stands in `adapter.py` and nowhere else, so a checkout whose files lie elsewhere differs there.
"""
