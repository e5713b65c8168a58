"""The benchmarks, one file each: a Task and its RECIPES."""
