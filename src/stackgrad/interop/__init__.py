"""This package joins kernels to other array libraries."""
