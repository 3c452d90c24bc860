"""Tests of every backend. A package, so that a backend is closed after the last test of this folder."""
