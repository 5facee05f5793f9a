"""Tests of pages and reports."""
