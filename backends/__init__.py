"""This package contains the backends; `registry` lists them and loads each one at its first use."""
