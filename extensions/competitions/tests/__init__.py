"""Tests of competitions."""
