"""This package contains the vocabulary of the IR: nodes, types and tables are imported from its modules."""
