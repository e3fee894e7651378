"""Run kernels on one kind of machine each; `registry` lists the backends and loads each when it is first asked for."""
