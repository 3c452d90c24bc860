"""What every backend must do. A package, so that a backend ends with the last test of this folder."""
