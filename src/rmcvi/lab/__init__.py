"""What we claim, and the proof: comparisons, the paper's experiments, speed."""
