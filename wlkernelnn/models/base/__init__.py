"""What all networks for whole graphs share: codes in, batches, states of colours, outputs."""
