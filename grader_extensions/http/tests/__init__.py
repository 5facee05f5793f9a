"""Tests of the API over HTTP."""
