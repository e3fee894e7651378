"""This package runs programs of peers on stackgrad and on the peer itself, and compares results and times."""
