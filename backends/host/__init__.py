"""This package runs native code in this process: argument blocks, machine code in memory, launches without Python."""
