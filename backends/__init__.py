"""This package contains the backends; `registry` lists them and loads each one when it is first asked for."""
