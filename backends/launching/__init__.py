"""This package joins a lowered kernel to a backend: it sizes adstacks, launches, and reports what launches used."""
