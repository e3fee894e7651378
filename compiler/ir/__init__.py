"""The vocabulary of the IR: import nodes, types and tables from here."""
