"""Speed and memory against peers, as ratios measured in one run; results as JSON (`make bench`)."""
