"""This package records digests of all code that the compiler generates, to prove that a change of files alters none.

For every kernel of the .kir files and of the examples it makes the IR after each pass and the code for each machine,
and keeps a digest of each text. Two records, of two checkouts, are compared line by line. Everything that this package
takes from the rest of the project is imported by `adapter.py` and by no other file, so a checkout whose files lie
elsewhere differs there.
"""
