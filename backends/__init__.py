"""Backends: how kernels run. `registry` lists them; each is loaded when it is first asked for."""
