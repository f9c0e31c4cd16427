"""Table 1 of Qian et al.: recursive-recurrent networks."""
