"""Trusted answers to compare with: reference solutions of the benchmarks, by classical methods."""
