"""What layers are made of: decay, activation, composition, linear maps."""
