"""Tests of the emulated device."""
