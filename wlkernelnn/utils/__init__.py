"""What every floor uses: checks of arguments, files, modes of torch."""
