"""The parts of speed.py: how is measured, what is trained, and the rows of one target a file."""
