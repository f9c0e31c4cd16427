"""Races: how fast training, prediction, kernels and scans are."""
