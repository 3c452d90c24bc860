"""Models: where they may be, how they are asked, and what comes back."""
