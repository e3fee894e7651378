"""This package computes derivatives: it turns kernels into grad kernels, tangent kernels and marking kernels."""
