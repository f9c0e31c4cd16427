"""RDKit alone: its switches, molecules and MOL blocks as SMILES, standardisation."""
