"""The fuzzer runs random programs on every executor, reduces its findings and stores them."""
