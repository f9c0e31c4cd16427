"""Table 3 of Lei et al.: the Clean Energy Project."""
