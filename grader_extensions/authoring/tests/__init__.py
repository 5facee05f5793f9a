"""Tests of what authors begin with."""
