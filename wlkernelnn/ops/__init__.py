"""Operations that layers are made of: one folder each, the naive version beside the fast ones."""
